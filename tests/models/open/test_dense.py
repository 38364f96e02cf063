"""Families whose decoder is Llama's, Qwen2's or Qwen3's under another name: SDAR, Fast-dLLM v2, Dream."""

from __future__ import annotations

import pytest
import torch

from tests.models.open.agreement import agree
from tests.models.open.plain import angles, as_llama, canonical, decoder, sight
from tests.models.open.small import MASK, V, card, load, write
from unmask import UnmaskError

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
}


def checkpoint(directory, family):
    changed, fields = FAMILIES[family]
    config = SHAPE | changed
    own = canonical(symbols=V)
    if family in ("fast-dllm", "dream"):
        rng = torch.Generator().manual_seed(8)
        own |= {
            f"{n}.{part}_bias": torch.randn(len(own[f"{n}.{part}"]), generator=rng, dtype=torch.float64)
            for n in range(2)
            for part in "qkv"
        }
    made = {name: value for name, value in as_llama(own).items() if family == "sdar" or "_norm." not in name}
    write(directory, config, made, shards=2)
    return own, config, card(family, **fields)


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
        normed=family == "sdar",
        seen=sight(LENGTH, about.block),
    )
    plain[:, MASK] = -torch.inf
    answers = places - (1 if about.prediction == "shifted" else 0)
    torch.testing.assert_close(said.double(), plain[answers].softmax(-1), rtol=0, atol=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_batches_and_memory_change_nothing(tmp_path, family):
    agree(load(tmp_path, checkpoint(tmp_path, family)[2]))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "rotary positions of type 'linear'"),
        ({"use_sliding_window": True}, "has sliding windows; expected full attention"),
    ],
)
def test_attention_of_another_kind_is_refused(tmp_path, changed, message):
    write(tmp_path, SHAPE | FAMILIES["sdar"][0] | changed, {"x": torch.zeros(1)})
    with pytest.raises(UnmaskError, match=message):
        load(tmp_path, card("sdar"))
