"""MDLM and BD3-LM: with their conditions folded in they say what the published arithmetic says with them."""

from __future__ import annotations

import re

import pytest
import torch

from tests.models.open.agreement import agree
from tests.models.open.plain import angles, attention, gelu, layer_norm, rotated, sight, silu
from tests.models.open.small import V, card, load, write
from unmask import UnmaskError
from unmask.models.open.card import Tokens
from unmask.models.open.weights import read_config

HIDDEN, HEADS, BLOCKS, CONDITIONS, LENGTH = 24, 3, 2, 10, 12
CONFIG = {
    "model_type": "mdlm",
    "vocab_size": V + 1,
    "model_length": 16,
    "hidden_dim": HIDDEN,
    "cond_dim": CONDITIONS,
    "n_blocks": BLOCKS,
    "n_heads": HEADS,
    "dropout": 0.1,
    "time_conditioning": False,
}
MASK = V  # the last row


def tensors(conditioned: bool = True) -> dict[str, torch.Tensor]:
    rng = torch.Generator().manual_seed(1)

    def some(*shape):
        return torch.randn(shape, generator=rng, dtype=torch.float64) * shape[-1] ** -0.5

    made = {
        "backbone.vocab_embed.embedding": some(V + 1, HIDDEN) * 4,
        "backbone.rotary_emb.inv_freq": torch.ones(4),
        "backbone.output_layer.norm_final.weight": some(HIDDEN) + 1,
        "backbone.output_layer.linear.weight": some(V + 1, HIDDEN),
        "backbone.output_layer.linear.bias": some(V + 1),
    }
    for n in range(BLOCKS):
        at = f"backbone.blocks.{n}."
        made |= {
            f"{at}norm1.weight": some(HIDDEN) + 1,
            f"{at}attn_qkv.weight": some(3 * HIDDEN, HIDDEN) * 2,
            f"{at}attn_out.weight": some(HIDDEN, HIDDEN),
            f"{at}norm2.weight": some(HIDDEN) + 1,
            f"{at}mlp.0.weight": some(4 * HIDDEN, HIDDEN),
            f"{at}mlp.0.bias": some(4 * HIDDEN),
            f"{at}mlp.2.weight": some(HIDDEN, 4 * HIDDEN),
            f"{at}mlp.2.bias": some(HIDDEN),
        }
        if conditioned:
            made[f"{at}adaLN_modulation.weight"] = some(6 * HIDDEN, CONDITIONS) * 3
            made[f"{at}adaLN_modulation.bias"] = some(6 * HIDDEN) * 3
    if conditioned:
        made |= {
            "backbone.sigma_map.mlp.0.weight": some(CONDITIONS, 256) * 3,
            "backbone.sigma_map.mlp.0.bias": some(CONDITIONS),
            "backbone.sigma_map.mlp.2.weight": some(CONDITIONS, CONDITIONS) * 3,
            "backbone.sigma_map.mlp.2.bias": some(CONDITIONS),
            "backbone.output_layer.adaLN_modulation.weight": some(2 * HIDDEN, CONDITIONS) * 3,
            "backbone.output_layer.adaLN_modulation.bias": some(2 * HIDDEN) * 3,
        }
    return made


def plain(weights: dict[str, torch.Tensor], row: torch.Tensor, block: int | None) -> torch.Tensor:
    """Logits (L, V) of a row, its conditions worked out at noise level zero in every layer, as published."""
    own = {name.removeprefix("backbone."): value for name, value in weights.items()}
    conditioned = "sigma_map.mlp.0.weight" in own
    if conditioned:
        times = 0.0 * torch.exp(-torch.log(torch.tensor(1e4)) * torch.arange(128) / 128)  # the level times each rate
        level = torch.cat([times.cos(), times.sin()]).double()
        level = silu(own["sigma_map.mlp.0.weight"] @ level + own["sigma_map.mlp.0.bias"])
        level = silu(own["sigma_map.mlp.2.weight"] @ level + own["sigma_map.mlp.2.bias"])

    def conditions(at, count):
        if not conditioned:
            return [torch.zeros(HIDDEN).double(), torch.zeros(HIDDEN).double(), torch.ones(HIDDEN).double()] * 2
        out = own[f"{at}adaLN_modulation.weight"] @ level + own[f"{at}adaLN_modulation.bias"]
        return [out[i * HIDDEN : (i + 1) * HIDDEN] for i in range(count)]

    x = own["vocab_embed.embedding"][row]
    table = angles(len(row), HIDDEN // HEADS, 1e4)
    seen = sight(len(row), block)
    for n in range(BLOCKS):
        at = f"blocks.{n}."
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = conditions(at, 6)
        inside = layer_norm(x, own[f"{at}norm1.weight"]) * (1 + scale_a) + shift_a
        qkv = (inside @ own[f"{at}attn_qkv.weight"].T).view(len(row), 3, HEADS, -1)
        turn = [torch.stack([rotated(qkv[:, i, h], table.cos(), table.sin()) for h in range(HEADS)], 1) for i in (0, 1)]
        x = x + gate_a * (attention(*turn, qkv[:, 2], seen) @ own[f"{at}attn_out.weight"].T)
        inside = layer_norm(x, own[f"{at}norm2.weight"]) * (1 + scale_m) + shift_m
        inside = gelu(inside @ own[f"{at}mlp.0.weight"].T + own[f"{at}mlp.0.bias"])
        x = x + gate_m * (inside @ own[f"{at}mlp.2.weight"].T + own[f"{at}mlp.2.bias"])
    shift, scale = conditions("output_layer.", 2)[:2]
    x = layer_norm(x, own["output_layer.norm_final.weight"]) * (1 + scale) + shift
    return x @ own["output_layer.linear.weight"].T + own["output_layer.linear.bias"]


def said(model, row):
    with torch.no_grad():
        return model.body.logits(model.body.states(row[None], None, None, None))[0]


def test_mdlm_says_what_the_published_arithmetic_says(tmp_path):
    weights = tensors()
    write(tmp_path, CONFIG, weights, shards=2)
    model = load(tmp_path, card("mdlm", tokens=Tokens(mask=MASK, eos=1)))
    row = torch.randint(0, V + 1, (LENGTH,), generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(said(model, row), plain(weights, row, None), rtol=0, atol=1e-9)


@pytest.mark.parametrize("conditioned", [True, False])
def test_bd3lm_says_what_the_published_arithmetic_says(tmp_path, conditioned):
    weights = tensors(conditioned) | {"sampling_eps_min": torch.tensor(1e-3), "sampling_eps_max": torch.tensor(1.0)}
    write(tmp_path, CONFIG | {"model_type": "bd3lm", "block_size": 4, "adaln": conditioned}, weights)
    model = load(tmp_path, card("bd3lm", tokens=Tokens(mask=MASK, eos=1), block=4))
    row = torch.randint(0, V, (LENGTH,), generator=torch.Generator().manual_seed(2))
    row[5:8], row[9:] = MASK, MASK
    with torch.no_grad():
        ours = model.body.logits(model.body.states(row[None], None, sight(LENGTH, 4)[None, None], None))[0]
    torch.testing.assert_close(ours, plain(weights, row, 4), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "fields", [{"model_type": [1]}, {"architectures": 3}, {"vocab_size": [1]}, {"max_position_embeddings": "x"}]
)
def test_a_configuration_of_other_types_is_named(tmp_path, fields):
    write(tmp_path, CONFIG | fields, tensors())
    with pytest.raises(UnmaskError, match=rf"config.json: {next(iter(fields))} .*; expected"):
        read_config(tmp_path)


def test_weights_that_link_to_themselves_are_named(tmp_path):
    write(tmp_path, CONFIG, tensors())
    for path in tmp_path.glob("*.safetensors"):
        path.unlink()
        path.symlink_to(path)
    with pytest.raises(UnmaskError, match="safetensors"):
        load(tmp_path, card("mdlm", tokens=Tokens(mask=MASK, eos=1)))


def test_conditions_matter(tmp_path):
    """What is folded is not nothing: without the conditions it would say something else."""
    weights = tensors()
    row = torch.arange(LENGTH)
    without = {name: value for name, value in weights.items() if "adaLN" not in name and "sigma_map" not in name}
    assert (plain(weights, row, None) - plain(without, row, None)).abs().max() > 0.1


def test_rows_of_their_own_length_and_blocks_that_are_remembered(tmp_path):
    write(tmp_path, CONFIG, tensors())
    agree(load(tmp_path, card("mdlm", tokens=Tokens(mask=MASK, eos=1))))
    agree(load(tmp_path, card("mdlm", tokens=Tokens(mask=MASK, eos=1), block=4)))


@pytest.mark.parametrize("field", ["time_conditioning", "causal"])
def test_models_that_need_the_time_are_refused(tmp_path, field):
    write(tmp_path, CONFIG | {field: True}, tensors())
    with pytest.raises(UnmaskError, match=f"config.json: {field} is true"):
        load(tmp_path, card("mdlm"))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"backbone.blocks.1.adaLN_modulation.bias": torch.ones(5)}, "do not fit its config.json"),
        ({"backbone.blocks.1.norm2.weight": None}, "no 'backbone.blocks.1.norm2.weight'"),
        ({"backbone.blocks.0.adaLN_modulation.bias": None}, "no 'backbone.sigma_map.mlp, or adaLN_modulation.bias'"),
        ({"backbone.vocab_embed.embedding": torch.ones(7, HIDDEN)}, "size mismatch for embed"),
        ({"backbone.more": torch.ones(2)}, "backbone.more not used"),
        ({"backbone.blocks.0.norm1.weight": torch.ones(HIDDEN, dtype=torch.int32)}, "is not of a type F64, F32"),
    ],
)
def test_tensors_that_do_not_fit_are_named(tmp_path, changed, message):
    weights = {name: value for name, value in (tensors() | changed).items() if value is not None}
    write(tmp_path, CONFIG, weights)
    with pytest.raises(UnmaskError, match=re.escape(message)):
        load(tmp_path, card("mdlm"))
