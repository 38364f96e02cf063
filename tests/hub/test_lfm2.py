"""LFM2 in both directions: attention among convolutions that look one to the left and one to the right."""

from __future__ import annotations

import pytest
import torch

from tests.hub.agreement import agree
from tests.hub.plain import angles, attention, rms, rotated, sight, swiglu
from tests.hub.small import V, card, load, write
from unmask import UnmaskError
from unmask.hub.card import FAMILIES

HIDDEN, HEADS, GROUPS, WIDTH, INNER, LENGTH = 32, 4, 2, 8, 24, 9
CONFIG = {
    "model_type": "lfm2",
    "architectures": ["Lfm2BidirectionalForMaskedLM"],
    "vocab_size": V,
    "hidden_size": HIDDEN,
    "num_hidden_layers": 4,
    "num_attention_heads": HEADS,
    "num_key_value_heads": GROUPS,
    "intermediate_size": 32,
    "block_auto_adjust_ff_dim": True,
    "block_ffn_dim_multiplier": 1.0,
    "block_multiple_of": 8,  # 2/3 of 32 is 21, rounded up to 24
    "layer_types": ["conv", "full_attention", "conv", "full_attention"],
    "conv_L_cache": 3,
    "conv_bias": False,
    "norm_eps": 1e-5,
    "max_position_embeddings": 64,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": True,
}


def tensors(prefix="lfm2."):
    rng = torch.Generator().manual_seed(2)

    def some(*shape):
        return torch.randn(shape, generator=rng, dtype=torch.float64) * 1.5 * shape[-1] ** -0.5

    made = {"embed_tokens.weight": some(V, HIDDEN) * 3, "embedding_norm.weight": some(HIDDEN) + 1}
    for n, kind in enumerate(CONFIG["layer_types"]):
        at = f"layers.{n}."
        made |= {f"{at}operator_norm.weight": some(HIDDEN) + 1, f"{at}ffn_norm.weight": some(HIDDEN) + 1}
        made |= {f"{at}feed_forward.w1.weight": some(INNER, HIDDEN), f"{at}feed_forward.w3.weight": some(INNER, HIDDEN)}
        made[f"{at}feed_forward.w2.weight"] = some(HIDDEN, INNER)
        if kind == "conv":
            made |= {f"{at}conv.in_proj.weight": some(3 * HIDDEN, HIDDEN), f"{at}conv.conv.weight": some(HIDDEN, 1, 3)}
            made[f"{at}conv.out_proj.weight"] = some(HIDDEN, HIDDEN)
            continue
        for part, count in (("q", HEADS), ("k", GROUPS), ("v", GROUPS)):
            made[f"{at}self_attn.{part}_proj.weight"] = some(count * WIDTH, HIDDEN)
        made[f"{at}self_attn.out_proj.weight"] = some(HIDDEN, HEADS * WIDTH)
        made |= {f"{at}self_attn.{part}_layernorm.weight": some(WIDTH) + 1 for part in "qk"}
    return {prefix + name: value for name, value in made.items()}


def plain(weights, row):
    """Position by position, what stands outside a row being zero."""
    own = {name.partition(".")[2]: value for name, value in weights.items()}
    x = own["embed_tokens.weight"][row]
    table = angles(len(row), WIDTH, 1e6)
    for n, kind in enumerate(CONFIG["layer_types"]):
        at = f"layers.{n}."
        inside = rms(x, own[f"{at}operator_norm.weight"], 1e-5)
        if kind == "conv":
            gate, after, value = (inside @ own[f"{at}conv.in_proj.weight"].T).chunk(3, 1)
            fed, kernel = gate * value, own[f"{at}conv.conv.weight"][:, 0]
            mixed = torch.zeros_like(fed)
            for place in range(len(row)):
                for step in (-1, 0, 1):
                    if 0 <= place + step < len(row):
                        mixed[place] += kernel[:, step + 1] * fed[place + step]
            out = (after * mixed) @ own[f"{at}conv.out_proj.weight"].T
        else:
            parts = []
            for part in "qk":
                heads = (inside @ own[f"{at}self_attn.{part}_proj.weight"].T).view(len(row), -1, WIDTH).unbind(1)
                heads = [rms(head, own[f"{at}self_attn.{part}_layernorm.weight"], 1e-5) for head in heads]
                parts.append(torch.stack([rotated(head, table.cos(), table.sin()) for head in heads], 1))
            value = (inside @ own[f"{at}self_attn.v_proj.weight"].T).view(len(row), -1, WIDTH)
            out = attention(*parts, value, sight(len(row), None)) @ own[f"{at}self_attn.out_proj.weight"].T
        x = x + out
        inside = rms(x, own[f"{at}ffn_norm.weight"], 1e-5)
        x = x + swiglu(inside, *(own[f"{at}feed_forward.w{number}.weight"] for number in (1, 3, 2)))
    return rms(x, own["embedding_norm.weight"], 1e-5) @ own["embed_tokens.weight"].T


@pytest.mark.parametrize("prefix", ["lfm2.", "model."])
def test_it_says_what_its_definition_says(tmp_path, prefix):
    weights = tensors(prefix)
    write(tmp_path, CONFIG, weights | {"lm_head.weight": weights[f"{prefix}embed_tokens.weight"].clone()})
    model = load(tmp_path, card("lfm2"))
    row = torch.randint(0, V, (LENGTH,), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        ours = model.body.logits(model.body.states(row[None], None, None, None))[0]
    torch.testing.assert_close(ours, plain(weights, row), rtol=0, atol=1e-9)


def test_a_row_does_not_know_what_stands_behind_it(tmp_path):
    """Not even its last position, whose neighbour is padding."""
    write(tmp_path, CONFIG, tensors())
    agree(load(tmp_path, card("lfm2")))


def test_a_convolution_looks_to_both_sides(tmp_path):
    """Of layers that are all convolutions, what is said of a position moves with both neighbours."""
    weights = tensors()
    for n in (1, 3):
        weights |= {
            name.replace(f"layers.{n - 1}.", f"layers.{n}."): value.clone()
            for name, value in weights.items()
            if f"layers.{n - 1}.conv" in name
        }
    weights = {name: value for name, value in weights.items() if "self_attn" not in name}
    write(tmp_path, CONFIG | {"layer_types": ["conv"] * 4}, weights)
    model = load(tmp_path, card("lfm2"))
    row = torch.arange(12)
    with torch.no_grad():
        first = model.body.states(row[None], None, None, None)[0]
        for changed in (5, 7):
            other = row.clone()
            other[changed] = 30
            moved = (model.body.states(other[None], None, None, None)[0] - first).abs().amax(1) > 1e-9
            assert moved.nonzero().squeeze(1).tolist() == list(range(changed - 4, min(changed + 5, 12)))


def test_the_ar_model_that_it_comes_from_is_none_of_it():
    assert FAMILIES["lfm2"].accepts(CONFIG)
    assert not FAMILIES["lfm2"].accepts(CONFIG | {"architectures": ["Lfm2ForCausalLM"]})


def test_the_published_size_has_the_published_number_of_weights():
    """About 354.5 million."""
    attends = (2, 5, 8, 10, 12, 14)
    published = CONFIG | {
        "vocab_size": 65536,
        "hidden_size": 1024,
        "num_hidden_layers": 16,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "intermediate_size": 6656,
        "block_multiple_of": 256,
        "layer_types": ["full_attention" if n in attends else "conv" for n in range(16)],
    }
    with torch.device("meta"):
        body = FAMILIES["lfm2"].body(published, "config.json")
    whole = sum(weight.numel() for weight in body.parameters())
    assert round(whole / 1e5) == 3545
    assert body.parameters_used() == whole - 1024 * (65536 + 1)  # without the embedding and the last norm
    attended = body.flops(10, 300) - 2 * 10 * body.parameters_used()
    assert attended == 6 * 2 * 2 * 10 * 300 * 1024  # two products of each of six layers


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"conv_bias": True}, "conv_bias is true"),
        ({"conv_L_cache": 4}, "conv_L_cache is 4; expected"),
        ({"layer_types": ["conv"]}, "layer_types has 1 entries for 4 layers"),
        ({"intermediate_size": None}, "intermediate_size is missing"),
    ],
)
def test_what_is_not_known_is_refused(tmp_path, changed, message):
    write(tmp_path, CONFIG | changed, {"x": torch.zeros(1)})
    with pytest.raises(UnmaskError, match=message):
        load(tmp_path, card("lfm2"))
