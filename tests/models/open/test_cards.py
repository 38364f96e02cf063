"""The cards themselves: each names what there is, its recipes can be asked for, and directories are recognised."""

from __future__ import annotations

import json
import re
import shlex

import msgspec
import pytest
import torch

from tests.models.open import test_dense, test_dit, test_smdm
from tests.models.open.small import MASK, V, card, load, write
from tests.needs import needs
from unmask import UnmaskError, generate
from unmask.models import open as hub
from unmask.models.open.card import CARDS, FAMILIES, Tokens, recognised
from unmask.models.open.chat import TEMPLATES
from unmask.models.open.model import OpenModel
from unmask.samplers.contract import SAMPLERS

OPTIONS = {"--sampler", "--steps", "--length", "--temperature", "--top-p", "--top-k", "--guidance", "--schedule"}


@pytest.mark.parametrize("name", CARDS)
def test_a_card_says_what_can_be_asked_for(name):
    found = CARDS[name]
    assert found.family in FAMILIES
    assert found.name == name == name.lower()
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", found.repository)
    assert found.licence
    assert (found.tokens.mask is None) == found.causal
    assert found.template is None or found.template in TEMPLATES
    for recipe in found.recipes:
        said = shlex.split(recipe.options)
        asked = dict(zip(said[::2], said[1::2], strict=True))
        assert set(asked) <= OPTIONS
        SAMPLERS.make(asked["--sampler"])
        numbers = {option: float(value) for option, value in asked.items() if option != "--sampler"}
        assert numbers.get("--length", 1) <= found.context
        assert 0 < numbers.get("--top-p", 1) <= 1
        assert recipe.source
    assert found.issue == " ".join(found.issue.split())


SMALL = {  # a config.json of each family, that says little
    "qwen2": {"model_type": "a2d-qwen2"},
    "qwen3": {"model_type": "a2d-qwen3"},
    "sdar": {"model_type": "sdar"},
    "bd3lm": {"model_type": "bd3lm"},
    "mdlm": {"model_type": "mdlm"},
    "llada": {"model_type": "llada", "d_model": 8},
    "dream": {"model_type": "Dream"},
    "fast-dllm": {"model_type": "Fast_dLLM_Qwen"},
}


@pytest.mark.parametrize("name", [name for name, found in CARDS.items() if found.family in SMALL])
def test_a_directory_of_its_name_is_recognised(tmp_path, name):
    found = CARDS[name]
    label = found.repository.rpartition("/")[2]
    for directory in (tmp_path / label, tmp_path / f"models--{found.repository.replace('/', '--')}"):
        assert recognised(SMALL[found.family], directory).repository == found.repository


def test_an_ar_model_of_their_kind_is_none_of_them(tmp_path):
    plain = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}
    assert recognised(plain, tmp_path / "Qwen3-0.6B") is None
    assert recognised(plain, tmp_path / "Qwen3-0.6B-diffusion-mdlm-v0.1").block is None


def test_models_of_uniform_noise_are_out_of_scope(tmp_path):
    with pytest.raises(UnmaskError, match=r"uniform noise.*expected a model with a mask token"):
        recognised({"model_type": "diffusion_gemma"}, tmp_path)


def test_two_that_behave_differently_are_told_apart_by_hand(tmp_path):
    with pytest.raises(UnmaskError, match="Choose one: --card NAME"):
        recognised({"model_type": "sdar"}, tmp_path / "mine")


@pytest.mark.parametrize(
    ("family", "config", "changed", "message"),
    [
        ("mdlm", test_dit.CONFIG, {"n_heads": 5}, "hidden_dim is 24; expected 5 heads of even width"),
        ("mdlm", test_dit.CONFIG, {"n_blocks": 10**6}, "n_blocks"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(tmp_path, family, config, changed, message):
    write(tmp_path, dict(config) | changed, {"x": torch.zeros(1)})
    with pytest.raises(UnmaskError, match=message):
        load(tmp_path, card(family))


def written(directory, family):
    """A small checkpoint of it, and the fields of a card for it."""
    if family == "mdlm":
        write(directory, test_dit.CONFIG, test_dit.tensors())
        return {"tokens": Tokens(mask=test_dit.MASK, eos=1)}
    if family == "bd3lm":
        write(directory, test_dit.CONFIG | {"model_type": "bd3lm", "block_size": 4}, test_dit.tensors())
        return {"tokens": Tokens(mask=test_dit.MASK, eos=1), "block": 4}
    if family == "smdm":
        test_smdm.checkpoint(directory)
        return test_smdm.CARD
    about = test_dense.checkpoint(directory, family)[2]
    return {"block": about.block, "prediction": about.prediction, "family": family}


WRITTEN = ("mdlm", "bd3lm", *(pytest.param(name, marks=needs("open")) for name in test_dense.FAMILIES))


@pytest.mark.parametrize("family", WRITTEN)
def test_each_family_is_loaded_probed_and_writes(tmp_path, family):
    fields = written(tmp_path, family)
    about = tmp_path / "mine.json"
    about.write_bytes(msgspec.json.encode(card(family, **fields)))
    model = hub.load_model(tmp_path, card=str(about), dtype="float32", device="cpu")
    made = generate(model, sampler="low-confidence", length=10, rows=4, steps=3)
    assert int(made.tokens.max()) < model.vocabulary
    assert not (made.tokens == model.card.tokens.mask).any()
    again = hub.load_model(tmp_path, card=str(about), dtype="float32", device="cpu")
    assert again.source() == model.source()
    assert torch.equal(generate(again, sampler="low-confidence", length=10, rows=4, steps=3).tokens, made.tokens)


@pytest.mark.parametrize("family", [*WRITTEN, pytest.param("smdm", marks=needs("open"))])
def test_a_token_that_the_model_does_not_read_is_refused(tmp_path, family):
    fields = written(tmp_path, family)
    body = load(tmp_path, card(family, **fields)).body
    last = V + (family in ("mdlm", "bd3lm", "smdm")) - 1  # these have a row of the embedding for the mask

    names = Tokens.__struct_fields__
    usual, every = fields.get("tokens", Tokens(mask=MASK)), Tokens(*[last] * len(names))
    OpenModel(card(family, **fields | {"tokens": every, "frame": ((last,), (last,))}), body)
    body.states(torch.tensor([[last]]), None, None, None)

    changes = [(name, {"tokens": msgspec.structs.replace(usual, **{name: last + 1})}) for name in names]
    changes += [("frame", {"frame": ((0, last + 1), ())}), ("frame", {"frame": ((), (last + 1,))})]
    for name, change in changes:
        said = f"has {name} = {last + 1}, and the model reads {last + 1} tokens; expected at most {last}. Use the card"
        with pytest.raises(UnmaskError, match=re.escape(said)):
            OpenModel(card(family, **fields | change), body)


@pytest.mark.parametrize("family", WRITTEN)
def test_weights_that_see_less_than_their_card_says_are_refused(tmp_path, family):
    """Causal weights under its card: what is said of an early position does not move with a later one."""
    fields = written(tmp_path, family)
    model = load(tmp_path, card(family, **fields))
    states = model.body.states

    def causal(tokens, columns, seen, reach):
        place = torch.arange(tokens.shape[1])
        return states(tokens, columns, (place <= place.unsqueeze(1))[None, None], reach)

    model.body.states = causal
    with pytest.raises(UnmaskError, match="its attention is causal"):
        hub.probe(model)


@pytest.mark.parametrize(
    ("family", "field"), [("bd3lm", "block_size"), pytest.param("fast-dllm", "bd_size", marks=needs("open"))]
)
def test_blocks_of_another_length_are_refused(tmp_path, family, field):
    fields = written(tmp_path, family)
    said = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(said | {field: 8}))
    with pytest.raises(UnmaskError, match=r"has blocks of 8, its card 4"):
        load(tmp_path, card(family, **fields))
