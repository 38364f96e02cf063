"""MDLM and BD3-LM: with their conditions folded in they say what the published arithmetic says with them."""

from __future__ import annotations

import torch

from tests.hub.plain import angles, attention, gelu, layer_norm, rotated, sight, silu
from tests.hub.small import V

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
    luck = torch.Generator().manual_seed(1)

    def some(*shape):
        return torch.randn(shape, generator=luck, dtype=torch.float64) * shape[-1] ** -0.5

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
