"""ModernBERT by its own class: its weights are all accounted for, and rows of any length share a batch."""

from __future__ import annotations

import json

import msgspec
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.hub.agreement import agree
from tests.hub.small import card
from tests.needs import needs
from unmask import UnmaskError, generate, hub
from unmask.hub import OpenModel
from unmask.hub.card import FAMILIES, Tokens

pytestmark = [needs("hub"), pytest.mark.filterwarnings("ignore")]  # those of transformers

V, MASK, LENGTH = 40, 37, 14
CONFIG = {
    "architectures": ["ModernBertForMaskedLM"],
    "model_type": "modernbert",
    "vocab_size": V,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "global_attn_every_n_layers": 3,
    "local_attention": 4,  # two to each side
    "global_rope_theta": 160000.0,
    "local_rope_theta": 10000.0,
    "norm_eps": 1e-5,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "cls_token_id": 1,
    "sep_token_id": 2,
    "decoder_bias": True,
    "tie_word_embeddings": True,
}
CARD = card("modernbert", tokens=Tokens(mask=MASK, eos=2, pad=0, bos=1), context=64)


@pytest.fixture
def directory(tmp_path):
    import transformers

    torch.manual_seed(0)
    said = {name: value for name, value in CONFIG.items() if name not in ("architectures", "model_type")}
    made = transformers.ModernBertForMaskedLM(transformers.ModernBertConfig(**said)).double()
    for name, weight in made.named_parameters():
        torch.nn.init.normal_(weight, std=0.4, mean=float("norm" in name))
    made.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))  # as published: with the older names of its fields
    return tmp_path


def read(directory, dtype=None):
    return OpenModel(CARD, FAMILIES["modernbert"].read(directory, CONFIG, dtype))


@torch.no_grad()
def test_it_says_what_the_class_says(directory):
    import transformers

    theirs = transformers.ModernBertForMaskedLM.from_pretrained(directory, dtype=torch.float64).eval()
    model = read(directory)
    row = torch.randint(0, V, (2, LENGTH), generator=torch.Generator().manual_seed(1))
    ours = model.body.logits(model.body.states(row, None, None, None))
    assert ours.dtype == torch.float64
    torch.testing.assert_close(ours, theirs(row).logits, rtol=0, atol=1e-9)
    assert model.body.context == 64
    assert model.body.vocabulary == V


def test_rows_of_their_own_length_share_a_batch(directory):
    """The shortest ends further from the longest than a window is wide: positions of padding see nobody at all."""
    agree(read(directory))


def test_work_is_counted_of_what_is_seen(directory):
    """Layers 0 and 3 see all keys, two others five of them."""
    body = read(directory).body
    layer = sum(weight.numel() for weight in body.model.model.layers[1].parameters())
    used = 4 * layer - 32 + 32 * 32 + 32  # the first layer has no norm before its attention
    assert body.parameters_used() == used
    assert body.flops(10, 30) == 2 * 10 * used + 4 * 10 * (30 + 5 + 5 + 30) * 32


def test_the_front_door_loads_it_with_a_card_of_ones_own(directory):
    (directory / "mine.json").write_bytes(msgspec.json.encode(CARD))
    model = hub.load_model(directory, card=str(directory / "mine.json"), dtype="float32", device="cpu")
    assert model.body.dtype == torch.float32
    assert generate(model, length=9, rows=2, steps=3).tokens.shape == (2, 9)


def test_it_writes_whole_rows_without_the_mask(directory):
    tokens = generate(read(directory), length=LENGTH, rows=30, steps=5).tokens
    assert not (tokens == MASK).any()
    assert not (tokens == V).any()


def test_what_it_does_not_remember_is_said(directory):
    with pytest.raises(UnmaskError, match="has no KV cache"):
        generate(OpenModel(CARD, read(directory).body, cache="prefix"), length=8, rows=1)


@pytest.mark.parametrize("spoiled", ["missing", "wider", "more"])
def test_every_weight_is_accounted_for(directory, spoiled):
    weights = load_file(directory / "model.safetensors")
    name = "model.layers.1.mlp.Wo.weight"
    if spoiled == "missing":
        del weights[name]
    elif spoiled == "wider":
        weights[name] = torch.zeros(32, 50, dtype=torch.float64)
    else:
        name = "another.weight"
        weights[name] = torch.zeros(3)
    save_file(weights, directory / "model.safetensors", {"format": "pt"})
    with pytest.raises(UnmaskError, match=f"do not fit its config.json.*{name}"):
        read(directory)


def test_another_head_is_refused(directory):
    config = CONFIG | {"architectures": ["ModernBertForSequenceClassification"]}
    with pytest.raises(UnmaskError, match="expected a ModernBertForMaskedLM"):
        FAMILIES["modernbert"].read(directory, config, None)
