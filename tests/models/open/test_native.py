"""Any AR model of transformers, read with a cache of ours: as it reads and writes by itself."""

from __future__ import annotations

import json

import pytest
import torch

from tests.needs import needs
from unmask import UnmaskError, generate
from unmask.denoisers import Cost
from unmask.models import open as hub

pytestmark = [needs("open"), pytest.mark.filterwarnings("ignore")]  # those of transformers

V = 50
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": V}
KINDS = {
    "Llama": SMALL | {"num_key_value_heads": 2, "max_position_embeddings": 64, "eos_token_id": 2, "bos_token_id": 1},
    "Qwen2": SMALL | {"num_key_value_heads": 2, "max_position_embeddings": 64, "eos_token_id": 2, "bos_token_id": None},
    "GPT2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": V, "n_positions": 64, "eos_token_id": 2},
}


def made(kind, directory, **options):
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**(KINDS[kind] | options))
    name = "GPT2LMHeadModel" if kind == "GPT2" else f"{kind}ForCausalLM"
    model = getattr(transformers, name)(config).double().eval()
    for weight in model.parameters():  # of random weights a model says next to nothing
        torch.nn.init.normal_(weight, std=0.3)
    model.save_pretrained(directory)
    return model


@pytest.fixture(scope="module", params=KINDS)
def pair(request, tmp_path_factory):
    """(ours, theirs)"""
    directory = tmp_path_factory.mktemp(request.param)
    theirs = made(request.param, directory)
    return hub.load_model(directory), theirs


@torch.no_grad()
def test_it_reads_as_by_itself(pair):
    """Rows of unequal lengths, some tokens at once and some alone, with a step back; the start is not seen."""
    ours, theirs = pair
    rng = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, V, (3, 12), generator=rng)
    reader = ours.causal(3, 12)
    start = torch.full((3, 1), V)
    reader.extend(torch.cat([start, tokens[:, :5]], 1), torch.tensor([3, 6, 1]))
    reader.rewind(torch.tensor([2, 3, 0]))
    counts = torch.tensor([4, 2, 1])
    read = torch.stack([tokens[row, begin : begin + 4] for row, begin in enumerate((2, 3, 0))])
    said = reader.extend(read, counts).dense()
    whole = theirs(tokens).logits.softmax(-1)
    expected = [whole[row, begin : begin + count] for row, (begin, count) in enumerate(((2, 4), (3, 2), (0, 1)))]
    torch.testing.assert_close(said, torch.cat(expected), rtol=0, atol=1e-6)
    assert reader.spent == Cost(2, 6, 17, reader.spent.flops)
    assert reader.spent.flops > 0


def test_it_writes_what_it_writes_by_itself(pair):
    ours, theirs = pair
    prompt = [[3, 4, 5], [6], [7, 8, 9, 10, 11]]
    written = generate(ours, sampler="autoregressive", given=[row + [V] * 8 for row in prompt], temperature=0.0)
    for row, begin in enumerate(prompt):
        expected = theirs.generate(
            torch.tensor([begin]),
            attention_mask=torch.ones((1, len(begin)), dtype=torch.long),
            max_new_tokens=8,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
        assert torch.equal(written.tokens[row, : len(begin) + 8], expected[0])


def test_a_text_that_begins_with_a_symbol(tmp_path, monkeypatch):
    """Where its tokenizer puts one before each text, it is seen by all of it."""
    monkeypatch.setattr("unmask.models.open.loading.tokenizer_of", lambda *about: None)  # which is not there
    theirs = made("Llama", tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"add_bos_token": True}))
    ours = hub.load_model(tmp_path)
    said = ours.causal(1, 3).extend(torch.tensor([[V, 5, 6]])).dense()
    with torch.no_grad():
        expected = theirs(torch.tensor([[1, 5, 6]])).logits[0].softmax(-1)
    torch.testing.assert_close(said, expected, rtol=0, atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("start", [{}, {"bos_token_id": 1}])
def test_a_model_with_windows_reads_each_prefix_anew(tmp_path, start):
    """Without our cache: as by itself, its start seen; rows of unequal lengths, with a step back."""
    windows = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0}
    theirs = made("Qwen2", tmp_path, **windows, **start)
    ours = hub.load_model(tmp_path)
    assert ours.body.sizes is None
    tokens = torch.randint(0, V, (2, 10), generator=torch.Generator().manual_seed(1))
    reader = ours.causal(2, 10)
    reader.extend(torch.cat([torch.full((2, 1), V), tokens[:, :5]], 1), torch.tensor([6, 3]))
    reader.rewind(torch.tensor([4, 2]))
    said = reader.extend(torch.stack([tokens[0, 4:7], tokens[1, 2:5]]), torch.tensor([3, 1])).dense()
    whole = theirs(torch.cat([torch.full((2, 1), ours.start), tokens], 1)).logits.softmax(-1)
    expected = torch.cat([whole[0, 5:8], whole[1, 3:4]])
    torch.testing.assert_close(said, expected, rtol=0, atol=1e-6)


def test_tensors_of_a_bin_file_are_read_and_code_is_not(tmp_path):
    theirs = made("Llama", tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(theirs.state_dict(), tmp_path / "pytorch_model.bin")
    ours = hub.load_model(tmp_path)
    assert torch.equal(ours.body.head.weight, theirs.lm_head.weight)
    torch.save({"lm_head.weight": theirs.lm_head}, tmp_path / "pytorch_model.bin")  # a module is code
    with pytest.raises(UnmaskError, match=r"has more than tensors, which could run code.*contracts\.md"):
        hub.load_model(tmp_path)


def test_weights_that_do_not_fit_are_refused(tmp_path):
    made("Llama", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"vocab_size": V + 1}))
    with pytest.raises(UnmaskError, match=r"do not fit its config\.json"):
        hub.load_model(tmp_path)


def test_speculation_with_an_ar_model_of_the_same_tokens(tmp_path):
    """Its distribution is the AR model's: the first token of many rows."""
    from tests.models.open.small import CONFIGS, card, load, published

    draft = published(tmp_path / "draft", "qwen2", CONFIGS["qwen2"] | {"vocab_size": V})
    made("Qwen2", tmp_path / "ar")
    reader = hub.load_model(tmp_path / "ar")
    model = load(draft, card("qwen2"), causal=reader)
    rows = generate(model, sampler="speculative", length=4, rows=3000, steps=4, seed=3)
    expected = reader.causal(1, 4).extend(torch.tensor([[V]])).dense()[0]
    found = torch.bincount(rows.tokens[:, 0], minlength=V) / 3000
    assert float((found - expected).abs().max()) < 5 * float((expected * (1 - expected) / 3000).sqrt().max())
    assert rows.model_calls_of.keys() == {"denoiser", "causal"}
    with pytest.raises(UnmaskError, match="expected the same tokenizer"):
        load(published(tmp_path / "odd", "qwen2", CONFIGS["qwen2"]), card("qwen2"), causal=reader)


def test_a_repository_that_no_card_is_of(tmp_path, monkeypatch):
    place = tmp_path / "models--Qwen--Qwen2.5-7B" / "snapshots" / "0123abc"
    place.mkdir(parents=True)
    made("Qwen2", place)
    asked = []
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, **how: asked.append((name, how)) or place)
    found = hub.load_model("Qwen/Qwen2.5-7B")
    assert asked[0][0] == "Qwen/Qwen2.5-7B"
    assert (found.card.name, found.card.repository, found.card.revision) == ("qwen2.5-7b", "Qwen/Qwen2.5-7B", "0123abc")
    assert found.source()["revision"] == "0123abc"
    monkeypatch.undo()
    with pytest.raises(UnmaskError, match="models/mine is neither a directory nor in the cache of the hub"):
        hub.load_model("models/mine")
