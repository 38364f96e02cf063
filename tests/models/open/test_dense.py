"""Families that are Llama, Qwen2 or Qwen3 of transformers under another name, against the arithmetic written out."""

from __future__ import annotations

import json

import pytest
import torch

from tests.models.open import small
from tests.models.open.agreement import agree
from tests.models.open.plain import angles, as_llama, canonical, decoder, sight
from tests.models.open.small import MASK, V, card, load, write
from tests.needs import needs
from unmask import UnmaskError

pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers
LENGTH = 11
SHAPE = {
    "vocab_size": V,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
}
FAMILIES = {
    "sdar": (
        {"model_type": "sdar", "rope_theta": 1000000, "head_dim": 8, "use_sliding_window": False, "block_size": 4},
        {"block": 4},
    ),
    "fast-dllm": (
        {"model_type": "Fast_dLLM_Qwen", "rope_theta": 1000000.0, "bd_size": 4, "layer_types": ["full_attention"] * 2},
        {"block": 4, "prediction": "shifted"},
    ),
    "dream": ({"model_type": "Dream", "rope_theta": 1000000.0}, {"prediction": "shifted"}),
    "qwen2": ({"model_type": "a2d-qwen2", "rope_theta": 10000.0}, {}),
    "qwen3": ({"model_type": "a2d-qwen3", "rope_theta": 10000.0, "head_dim": 8}, {}),
    "llada": ({}, {}),
}
NORMED = ("sdar", "qwen3")
LLADA = {  # of the names of Llama, those of LLaDA
    "model.embed_tokens.": "model.transformer.wte.",
    "model.norm.": "model.transformer.ln_f.",
    "lm_head.": "model.transformer.ff_out.",
    "model.layers.": "model.transformer.blocks.",
    "input_layernorm.": "attn_norm.",
    "post_attention_layernorm.": "ff_norm.",
    "self_attn.o_proj.": "attn_out.",
    "self_attn.": "",
    "mlp.gate_proj.": "ff_proj.",
    "mlp.up_proj.": "up_proj.",
    "mlp.down_proj.": "ff_out.",
}
CLOSE = 3e-6  # norms of transformers are in float32


def checkpoint(directory, family):
    changed, fields = FAMILIES[family]
    config = SHAPE | changed
    own = canonical(symbols=V)
    if family in ("fast-dllm", "dream", "qwen2"):
        rng = torch.Generator().manual_seed(8)
        own |= {
            f"{n}.{part}_bias": torch.randn(len(own[f"{n}.{part}"]), generator=rng, dtype=torch.float64)
            for n in range(2)
            for part in "qkv"
        }
    made = {name: value for name, value in as_llama(own).items() if family in NORMED or "_norm." not in name}
    if family == "llada":
        config = small.LLADA | {"rope_theta": 10000.0, "rms_norm_eps": 1e-6, "n_kv_heads": 2}
        made = {published_by_llada(name): value for name, value in made.items()}
    write(directory, config, made, shards=2)
    return own, config, card(family, family=family, **fields)


def published_by_llada(name):
    for theirs, ours in LLADA.items():
        name = name.replace(theirs, ours)
    return name


@needs("open")
@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_said_of_a_place_is_what_the_published_arithmetic_says(tmp_path, family):
    """Through the engine: with the mask put in, with blocks and shift as the card has them, and the mask never said."""
    own, config, about = checkpoint(tmp_path, family)
    model = load(tmp_path, about)
    row = torch.randint(0, MASK, (LENGTH,), generator=torch.Generator().manual_seed(1))
    row[[2, 3, 5, 8, 9, 10]] = V
    places = (row == V).nonzero().squeeze(1)
    said = model.engine(row[None].clone()).at(torch.zeros_like(places), places, None).dense()
    table = angles(LENGTH, 8, config["rope_theta"])
    plain = decoder(
        own,
        torch.where(row == V, MASK, row),
        table.cos(),
        table.sin(),
        eps=config["rms_norm_eps"],
        normed=family in NORMED,
        seen=sight(LENGTH, about.block),
    )
    plain[:, MASK] = -torch.inf
    answers = places - (1 if about.prediction == "shifted" else 0)
    torch.testing.assert_close(said.double(), plain[answers].softmax(-1), rtol=0, atol=CLOSE)


@needs("open")
@pytest.mark.parametrize("family", FAMILIES)
def test_batches_and_memory_change_nothing(tmp_path, family):
    agree(load(tmp_path, checkpoint(tmp_path, family)[2]), CLOSE)


@needs("open")
def test_windows_are_refused(tmp_path):
    checkpoint(tmp_path, "sdar")
    config = json.loads((tmp_path / "config.json").read_text())
    changed = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0}
    (tmp_path / "config.json").write_text(json.dumps(config | changed))
    with pytest.raises(UnmaskError, match="has windows, or other keys than Qwen3; expected full attention"):
        load(tmp_path, card("sdar"))


@pytest.mark.parametrize("change", [{"num_hidden_layers": 3}, {"hidden_size": "wide"}])
def test_a_config_that_does_not_fit_is_refused(tmp_path, change):
    checkpoint(tmp_path, "sdar")
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(UnmaskError, match="fit"):
        load(tmp_path, card("sdar"))
