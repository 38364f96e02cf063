"""Experts: each token through those that its router chooses, one token after another, as the published code has it."""

from __future__ import annotations

import pytest
import torch

from tests.models.open.agreement import agree
from tests.models.open.plain import angles, as_llama, canonical, decoder, sight, swiglu
from tests.models.open.small import V, card, load, write
from unmask import UnmaskError
from unmask.models.open.decoder import Experts, MoE

HIDDEN, WIDTH, LENGTH, EXPERTS, CHOSEN, INNER = 32, 8, 10, 8, 3, 12
SHAPE = {
    "vocab_size": V,
    "hidden_size": HIDDEN,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
    "num_experts": EXPERTS,
    "num_experts_per_tok": CHOSEN,
}
LLADA2 = SHAPE | {
    "model_type": "llada2_moe",
    "num_key_value_heads": 2,
    "head_dim": WIDTH,
    "intermediate_size": 48,
    "moe_intermediate_size": INNER,
    "num_shared_experts": 2,
    "n_group": 4,
    "topk_group": 2,
    "first_k_dense_replace": 1,
    "score_function": "sigmoid",
    "norm_topk_prob": True,
    "routed_scaling_factor": 2.5,
    "partial_rotary_factor": 0.5,
    "use_qk_norm": True,
    "use_qkv_bias": False,
    "use_bias": False,
    "rms_norm_eps": 1e-6,
    "rope_theta": 600000,
    "rope_scaling": None,
}
SDAR = SHAPE | {
    "model_type": "sdar_moe",
    "num_key_value_heads": 2,
    "head_dim": WIDTH,
    "intermediate_size": 48,
    "moe_intermediate_size": INNER,
    "norm_topk_prob": True,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000,
    "attention_bias": False,
    "use_sliding_window": False,
}
ROW = torch.randint(0, V, (LENGTH,), generator=torch.Generator().manual_seed(3))


def experts(layers, seed=5):
    """By (layer, what): router, bias, and of each expert gate, up, down; shared ones beside them."""
    rng = torch.Generator().manual_seed(seed)

    def some(*shape):
        return torch.randn(shape, generator=rng, dtype=torch.float64) * 1.5 * shape[-1] ** -0.5

    made = {}
    for n in layers:
        made[n, "router"], made[n, "bias"] = some(EXPERTS, HIDDEN) * 2, some(EXPERTS) * 2
        for e in (*range(EXPERTS), "shared"):
            inner = INNER * (2 if e == "shared" else 1)
            made[n, e] = some(inner, HIDDEN), some(inner, HIDDEN), some(HIDDEN, inner)
    return made


def of_experts(mixed, shared=False, bias=False):
    """As published: each of an expert's matrices by itself."""
    made = {}
    for (n, e), value in mixed.items():
        at = f"model.layers.{n}.mlp."
        if e == "router":
            made[f"{at}gate.weight"] = value
        elif e == "bias":
            made |= {f"{at}gate.expert_bias": value} if bias else {}
        elif e != "shared" or shared:
            of = "shared_experts" if e == "shared" else f"experts.{e}"
            made |= {f"{at}{of}.{part}_proj.weight": w for part, w in zip(("gate", "up", "down"), value, strict=True)}
    return made


def without_dense(own, layers):
    return {name: value for name, value in own.items() if name not in {f"{n}.{w}" for n in layers for w in DENSE}}


DENSE = ("gate", "up", "down")


def softly(mixed, normalised):
    """A layer of experts, token by token: the likeliest by softmax, weighed by it."""

    def mlp(n, x):
        out = []
        for token in x:
            scores = mixed[n, "router"] @ token
            scores = (scores - scores.max()).exp()
            scores = scores / scores.sum()
            best = sorted(range(EXPERTS), key=lambda e: -float(scores[e]))[:CHOSEN]
            total = sum(float(scores[e]) for e in best) if normalised else 1.0
            out.append(sum(scores[e] / total * swiglu(token, *mixed[n, e]) for e in best))
        return torch.stack(out)

    return mlp


def grouped(mixed, factor):
    """Sigmoids, of the groups that are best by their best two, the bias choosing and not weighing."""

    def mlp(n, x):
        out = []
        for token in x:
            scores = 1 / (1 + torch.exp(-(mixed[n, "router"] @ token)))
            chosen = scores + mixed[n, "bias"]
            groups = [list(range(g * 2, g * 2 + 2)) for g in range(4)]
            worth = [sum(sorted(float(chosen[e]) for e in group)[-2:]) for group in groups]
            open_to = [e for g in sorted(range(4), key=lambda g: -worth[g])[:2] for e in groups[g]]
            best = sorted(open_to, key=lambda e: -float(chosen[e]))[:CHOSEN]
            total = sum(float(scores[e]) for e in best)
            routed = sum(factor * scores[e] / total * swiglu(token, *mixed[n, e]) for e in best)
            out.append(routed + swiglu(token, *mixed[n, "shared"]))
        return torch.stack(out)

    return mlp


def dense_first(own, mlp):
    def either(n, x):
        return swiglu(x, *(own[f"{n}.{what}"] for what in DENSE)) if n == 0 else mlp(n, x)

    return either


def turned(theta, width=WIDTH):
    table = angles(LENGTH, width, theta)
    return table.cos(), table.sin()


def said(model, seen=None):
    with torch.no_grad():
        return model.body.logits(model.body.states(ROW[None], None, None if seen is None else seen[None, None], None))[
            0
        ]


def sdar(directory, shards=1, **changed):
    """changed: tensors by name; None: one that is missing."""
    own, mixed = canonical(symbols=V, layers=3), experts((0, 1, 2))
    made = as_llama(without_dense(own, (0, 1, 2))) | of_experts(mixed) | changed
    write(directory, SDAR, {name: tensor for name, tensor in made.items() if tensor is not None}, shards)
    return own, mixed


def llada2(directory):
    own, mixed = canonical(symbols=V, layers=3), experts((1, 2))
    made = as_llama(without_dense(own, (1, 2))) | of_experts(mixed, shared=True, bias=True)
    for n in range(3):
        at = f"model.layers.{n}."
        fused = [made.pop(f"{at}self_attn.{part}_proj.weight") for part in "qkv"]
        made[f"{at}attention.query_key_value.weight"] = torch.cat(fused)
        made[f"{at}attention.dense.weight"] = made.pop(f"{at}self_attn.o_proj.weight")
        made[f"{at}attention.query_layernorm.weight"] = made.pop(f"{at}self_attn.q_norm.weight")
        made[f"{at}attention.key_layernorm.weight"] = made.pop(f"{at}self_attn.k_norm.weight")
    made["model.word_embeddings.weight"] = made.pop("model.embed_tokens.weight")
    write(directory, LLADA2, made)
    return own, mixed


def test_llada2_says_what_the_published_arithmetic_says(tmp_path):
    own, mixed = llada2(tmp_path)
    model = load(tmp_path, card("llada2", block=4))
    mlp, seen = dense_first(own, grouped(mixed, 2.5)), sight(LENGTH, 4)
    plain = decoder(own, ROW, *turned(6e5, WIDTH // 2), eps=1e-6, normed=True, mlp=mlp, seen=seen)
    torch.testing.assert_close(said(model, seen), plain, rtol=0, atol=1e-9)
    without = mixed | {(n, "bias"): torch.zeros(EXPERTS).double() for n in (1, 2)}
    other = decoder(
        own, ROW, *turned(6e5, WIDTH // 2), normed=True, mlp=dense_first(own, grouped(without, 2.5)), seen=seen
    )
    assert (plain - other).abs().max() > 0.01  # the bias does choose


@pytest.mark.parametrize("shards", [1, 3])
def test_sdar_with_experts_says_what_the_published_arithmetic_says(tmp_path, shards):
    own, mixed = sdar(tmp_path, shards)
    model, seen = load(tmp_path, card("sdar-moe", block=4)), sight(LENGTH, 4)
    plain = decoder(own, ROW, *turned(1e6), normed=True, mlp=softly(mixed, True), seen=seen)
    torch.testing.assert_close(said(model, seen), plain, rtol=0, atol=1e-9)
    agree(model)


def test_batches_and_memory_change_nothing(tmp_path):
    llada2(tmp_path)
    agree(load(tmp_path, card("llada2", block=4)))


@pytest.mark.parametrize("inner", [12, 16])  # in float32 both are aligned, in bfloat16 the second
@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-5), (torch.bfloat16, 0.02)])
@torch.no_grad()
def test_the_grouped_product_is_the_loop(dtype, near, inner):
    made = Experts(count=EXPERTS, chosen=CHOSEN, inner=inner, sigmoid=True, groups=4, best=2, shared=8)
    torch.manual_seed(0)
    exact = MoE(HIDDEN, made).to(dtype).double()
    torch.nn.init.normal_(exact.gate_up, std=0.2).copy_(exact.gate_up.to(dtype))
    torch.nn.init.normal_(exact.down, std=0.2).copy_(exact.down.to(dtype))
    rounded = MoE(HIDDEN, made).to(dtype)
    rounded.load_state_dict(exact.state_dict())
    x = torch.randn(2, LENGTH, HIDDEN).to(dtype)
    truth = exact(x.double())
    assert float((rounded(x).double() - truth).abs().max()) < near * float(truth.abs().max())
    one = x[:, :1, :]  # with fewer tokens than experts
    assert float((rounded(one).double() - exact(one.double())).abs().max()) < near * float(truth.abs().max())


def test_only_chosen_experts_are_counted(tmp_path):
    sdar(tmp_path)
    body = load(tmp_path, card("sdar-moe")).body
    one = 3 * HIDDEN * INNER
    whole = sum(weight.numel() for weight in body.parameters()) - 2 * V * HIDDEN
    assert body.parameters_used() == whole - 3 * (EXPERTS - CHOSEN) * one


@pytest.mark.parametrize(
    ("family", "config", "changed", "message"),
    [
        ("llada2", LLADA2, {"score_function": "softmax"}, "score_function is 'softmax'"),
        ("llada2", LLADA2, {"n_group": 8}, "8 experts in 8 groups; expected at least two"),
        ("llada2", LLADA2, {"num_experts": None}, "num_experts"),
        ("sdar-moe", SDAR, {"mlp_only_layers": [0]}, "have no experts"),
    ],
)
def test_what_is_not_known_is_refused(tmp_path, family, config, changed, message):
    write(tmp_path, config | changed, {"x": torch.zeros(1)})
    with pytest.raises(UnmaskError, match=message):
        load(tmp_path, card(family))
