"""Any masked language model of transformers, and any network: what is predicted, and what its files are read as."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

import unmask
from tests.models.open import foreign
from tests.needs import ROOT, needs
from unmask import UnmaskError
from unmask.models import masked
from unmask.models import open as hub
from unmask.models.open.own import Wrapped

MASKED = ("BertForMaskedLM", "ModernBertForMaskedLM", "RobertaForMaskedLM")
pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers


@pytest.fixture(scope="module", params=MASKED)
def pair(request, tmp_path_factory):
    """(ours, theirs)"""
    directory = tmp_path_factory.mktemp(request.param)
    theirs = foreign.made(request.param, directory)
    return hub.load_model(directory), theirs


@needs("open")
@torch.no_grad()
def test_predictions_are_those_of_the_model_within_its_frame(pair):
    """Rows of unequal lengths at once, each as it is alone between [CLS] and [SEP]; banned tokens never."""
    ours, theirs = pair
    hidden, rng = ours.vocabulary, torch.Generator().manual_seed(1)
    lengths = (7, 3, 5)
    rows = torch.randint(5, 25, (3, 7), generator=rng)
    rows[:, 1] = rows[0, 4:6] = rows[2, 4] = hidden
    valid = torch.arange(7) < torch.tensor(lengths).unsqueeze(1)
    where, places = ((rows == hidden) & valid).nonzero(as_tuple=True)
    said = ours.engine(rows, None, valid).at(where, places, None).dense()
    for number, (row, place) in enumerate(zip(where.tolist(), places.tolist(), strict=True)):
        text = torch.where(rows[row, : lengths[row]] == hidden, 4, rows[row, : lengths[row]])
        logits = theirs(torch.cat([torch.tensor([2]), text, torch.tensor([3])])[None]).logits[0, place + 1]
        logits[[*range(5), *range(len(foreign.WORDS), foreign.V)]] = -torch.inf
        torch.testing.assert_close(said[number].float(), logits.softmax(-1), rtol=0, atol=1e-6)


@needs("open")
def test_its_files_say_what_it_is(pair):
    ours, _ = pair
    assert ours.card.tokens.mask == 4
    assert ours.card.frame == ((2,), (3,))
    assert set(ours.card.banned) == {*range(5), *range(len(foreign.WORDS), foreign.V)}
    assert ours.length == (61 if "Roberta" in ours.name else 62)  # RoBERTa counts from behind the padding
    assert "mask [MASK] (4), frame [CLS] (2) .. [SEP] (3)" in ours.found
    assert ours.body.head is not None  # so the head is applied at requested positions only
    made = unmask.generate(ours, sampler="low-confidence", length=ours.length, rows=2, steps=4)
    assert not torch.isin(made.tokens, torch.tensor(ours.card.banned)).any()


@needs("open")
def test_heads_of_other_tasks_are_ignored_and_missing_weights_are_not(tmp_path):
    from safetensors.torch import load_file, save_file

    foreign.made("BertForMaskedLM", tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    save_file(weights | {"cls.seq_relationship.weight": torch.zeros(2, 32)}, tmp_path / "model.safetensors")
    hub.load_model(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"architectures": ["BertForPreTraining"]}))
    assert hub.load_model(tmp_path).card.family == "masked"  # since its tokenizer has a mask
    weights.pop("cls.predictions.transform.dense.weight")
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(UnmaskError, match=r"do not fit its config\.json"):
        hub.load_model(tmp_path)


@needs("open")
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model_type": "unheard"}, "which neither a card nor transformers has as a language model"),
        ({"model_type": "vit"}, "which neither a card nor transformers has as a language model"),
        ({"architectures": ["BertForMaskedLM"], "model_type": "gpt2"}, "has as a language model"),
    ],
)
def test_an_unknown_family_gets_one_sentence_with_the_way_out(tmp_path, changed, message):
    foreign.made("BertForMaskedLM", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | changed))
    with pytest.raises(UnmaskError, match=rf"{message}\. .*--model module:Name: docs/contracts\.md"):
        hub.load_model(tmp_path)


@needs("open")
def test_a_masked_model_without_a_mask_token_is_refused(tmp_path):
    foreign.made("BertForMaskedLM", tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).unlink()
    with pytest.raises(UnmaskError, match=r"no tokenizer in it has a mask token; expected one\..*contracts\.md"):
        hub.load_model(tmp_path)


@needs("open")
def test_a_tokenizer_of_letters_needs_no_python(tmp_path):
    """ESM's: each amino acid is a token, between <cls> and <eos>."""
    from transformers import EsmTokenizer

    symbols = ("<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO.-", "<null_1>", "<mask>")
    (tmp_path / "vocab.txt").write_text("\n".join(symbols))
    theirs = EsmTokenizer(str(tmp_path / "vocab.txt"))
    theirs.save_pretrained(tmp_path)
    ours = hub.loading.published.read(tmp_path)
    assert [0, *ours.encode("MKTAYIAK").tolist(), 2] == theirs("MKTAYIAK")["input_ids"]
    assert ours.frame == ((0,), (2,))
    assert (ours.mask, ours.eos) == (32, 2)
    assert ours.decode(ours.encode("MKTAY")) == "MKTAY"


@needs("open")
def test_six_lines_of_the_contracts_run(capsys):
    block = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "contracts.md").read_text(), re.DOTALL)
    made = {}
    exec(block[1], made)
    assert made["model"].card.frame == ((2,), (3,))
    assert "nats per sequence" in capsys.readouterr().out


class Net(torch.nn.Module):
    """A token's prediction depends on the mean of the whole row, and on its place."""

    def __init__(self, symbols=12, causal=False):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.head = torch.nn.Embedding(symbols, 8), torch.nn.Linear(8, symbols)
        self.causal = causal

    def forward(self, ids):
        x = self.embedding(ids)
        mean = x.cumsum(1) if self.causal else x.sum(1, keepdim=True)
        place = torch.arange(1, ids.shape[1] + 1).view(1, -1, 1)
        return self.head(x + mean / place.sqrt())


class Split(Net):
    """The same, whose head is known, as of models of transformers."""

    def get_output_embeddings(self):
        return self.head

    def forward(self, ids):
        return type("Output", (), {"logits": super().forward(ids)})()


class Biased(Split):
    """Its head alone does not give the logits."""

    def forward(self, ids):
        out = super().forward(ids)
        out.logits = out.logits + torch.arange(12.0)
        return out


@pytest.mark.parametrize("kind", [Net, Split, Biased])
@pytest.mark.parametrize("frame", [((), ()), ((10,), (9, 8))])
def test_a_network_of_your_own_says_what_it_says(kind, frame):
    net = kind().eval()
    model = masked(net, 11, frame=frame, banned=(9, 10), length=20)
    assert (model.body.head is None) == (kind is not Split)
    row = torch.tensor([[3, 12, 5, 12, 12]])
    said = model.engine(row.clone()).at(torch.zeros(3, dtype=torch.int64), torch.tensor([1, 3, 4]), None).dense()
    read = torch.tensor([[*frame[0], 3, 11, 5, 11, 11, *frame[1]]])
    with torch.no_grad():
        out = net(read)
    logits = (out if isinstance(out, torch.Tensor) else out.logits)[0, len(frame[0]) :][[1, 3, 4]]
    logits[:, [9, 10, 11]] = -torch.inf
    torch.testing.assert_close(said.float(), logits.softmax(-1), rtol=0, atol=1e-6)


@pytest.mark.parametrize("length", [2, 3, 4])
def test_a_short_sequence_is_probed_too(length):
    assert masked(Net().eval(), 11, length=length).length == length
    with pytest.raises(UnmaskError, match="its attention is causal"):
        masked(Net(causal=True).eval(), 11, length=length)


def test_a_shift_moves_the_answers():
    model = masked(Net().eval(), 11, shift=True, length=20)
    row = torch.tensor([[3, 12, 5, 12]])
    said = model.engine(row.clone()).at(torch.zeros(2, dtype=torch.int64), torch.tensor([1, 3]), None).dense()
    logits = Net().eval()(torch.tensor([[3, 11, 5, 11]]))[0, [0, 2]]
    logits[:, 11] = -torch.inf
    torch.testing.assert_close(said.float(), logits.softmax(-1).detach(), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: masked(Net(), 11), r"the model is in training mode.*Call model\.eval\(\) first"),
        (lambda: masked(Net(causal=True).eval(), 11), "its attention is causal; expected bidirectional attention"),
        (lambda: masked(torch.nn.Embedding(12, 8).eval(), -1), "mask_id is -1"),
        (lambda: masked(Net().eval(), 11, banned=(12,)), "an id of banned is 12"),
        (lambda: masked(lambda ids: ids, 3), r"the model returns .* for ids \(1, 4\); expected logits"),
        (lambda: masked("bert", 3), "model is 'bert'; expected a function or a module"),
        (lambda: masked(Net().eval(), 11, frame=None), "frame is None; expected the ids before and after"),
        (lambda: masked(Net().eval(), 11, frame=((1,),)), "frame is .* expected the ids before and after"),
        (lambda: masked(Net().eval(), 11, frame=(["a"], [])), "an id of frame is 'a'; expected a whole number"),
        (lambda: masked(Net().eval(), 11, frame=(1, 2)), "frame is 1; expected a list of ids"),
        (lambda: masked(Net().eval(), 11, banned=5), "banned is 5; expected a list of ids"),
        (lambda: masked(Net().eval(), 11, banned="5"), "banned is '5'; expected a list of ids"),
        (lambda: masked(Net().eval(), 11, tokenizer=5), "tokenizer is 5; expected the directory of its files"),
        (lambda: masked(Net().eval(), 11, length=1), "length is 1; expected at least 2"),
        (lambda: masked(lambda ids: (), 3), r"the model returns \(\) for ids"),
        (lambda: masked(lambda ids: torch.zeros(*ids.shape, 0), 3), "expected logits"),
        (lambda: masked(lambda ids: torch.zeros(4), 3), "expected logits"),
        (lambda: masked(Net().eval(), 11, frame=((99,), ())), "the model fails for ids .* IndexError: .*Check mask_id"),
        (lambda: masked(lambda ids: torch.zeros(*ids.shape, 5, device="meta"), 3), "expected logits"),
        (lambda: masked(lambda ids: torch.zeros(*ids.shape, 5).to_sparse(), 3), "expected logits"),
        (lambda: masked(lambda ids: torch.zeros(*ids.shape, 5, dtype=torch.int64), 3), "expected logits"),
    ],
)
def test_a_network_that_cannot_be_used_is_refused(make, message):
    with pytest.raises(UnmaskError, match=message):
        make()


def test_parameters_are_counted_without_the_head():
    assert Wrapped(Split().eval(), 11, 20).parameters_used == 12 * 8  # it names no embedding
    assert Wrapped(Net().eval(), 11, 20).parameters_used == 12 * 8 + 12 * 8 + 12


MINE = '''
import torch
import unmask
from unmask.denoisers import Denoiser
from unmask.models.open import OpenModel


class Uniform(Denoiser):
    """Every token is equally likely."""

    def __init__(self, symbols: int = 8) -> None:
        self.vocabulary = symbols

    def posterior(self, tokens, positions=None, time=None):
        places = tokens.shape[1] if positions is None else positions.shape[-1]
        return torch.full((len(tokens), places, self.vocabulary), 1 / self.vocabulary)


def network(seed: int = 0) -> OpenModel:
    torch.manual_seed(seed)
    table = torch.randn(10, 10)
    return unmask.models.masked(lambda ids: table[ids] + table[ids].mean(1, keepdim=True), 9, length=40)


def number() -> int:
    return 3


def plain(symbols=6):
    return Uniform(symbols)


def table():
    return network().body
'''


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)


def test_a_model_of_a_file_is_loaded_by_its_name(mine):
    assert unmask.load("mine.py:Uniform(symbols=5)").vocabulary == 5
    assert unmask.load("mine.py:network").vocabulary == 10
    assert unmask.load("mine.py:plain(symbols=5)").vocabulary == 5  # which does not declare what it returns
    assert unmask.gap("mine.py:Uniform", sampler="ancestral", steps=4, length=8, rows=20).nats.abs().max() == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mine.py:number", "is a function that is not declared to return a model"),
        ("mine.py:table", r"what model 'mine\.py:table' returns is of type Wrapped; expected a class derived from"),
        ("textwrap:dedent", "is a function that is not declared to return a model"),
        ("mine.py:Nothing", "Nothing"),
        ("nowhere.py:Uniform", "there is no file 'nowhere.py'"),
        ("mine.py:Uniform(size=3)", "unknown option of model"),
        ("mine.py:OpenModel", "model"),
    ],
)
def test_names_that_make_no_model(mine, name, message):
    with pytest.raises(UnmaskError, match=message):
        unmask.load(name)
