"""Twelve correct loops in other people's style, and the faults that others planted in theirs.

`python -m benchmarks.law_power` counts the alarms of the first, and the names of the others by the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch.distributions import Categorical

from tests.diagnosis.audit.loops import causal, dream, get_num_transfer_tokens, mdlm


def noisy(weights, u):
    """The winner of a race with these uniforms."""
    return (weights.double() / -u.double().log()).argmax(-1)


COARSE = {  # draws from p (.., V) as loops make them in a hurry
    "softmax in float16": lambda p: torch.multinomial(p.half().float().flatten(0, -2), 1).view(p.shape[:-1]),
    "softmax in bfloat16": lambda p: torch.multinomial(p.bfloat16().float().flatten(0, -2), 1).view(p.shape[:-1]),
    "uniforms in bfloat16": lambda p: noisy(p, torch.rand(p.shape, dtype=torch.bfloat16)),
    "uniforms in float16": lambda p: noisy(p, torch.rand(p.shape, dtype=torch.float16)),
    "Gumbel noise in bfloat16": lambda p: (p.log() - (-torch.rand(p.shape).bfloat16().log()).log()).argmax(-1),
    "Gumbel noise cut at 1e-2": lambda p: noisy(p, torch.rand(p.shape).clamp(1e-2, 1 - 1e-2)),
    "Gumbel noise in float32 that underflows": lambda p: (
        p.float().log() - torch.log(1e-4 - torch.log(torch.rand(p.shape) + 1e-20))
    ).argmax(-1),
    "inverse of a sum in bfloat16": lambda p: (
        torch.searchsorted(p.bfloat16().cumsum(-1).float(), torch.rand(*p.shape[:-1], 1))
        .squeeze(-1)
        .clamp(max=p.shape[-1] - 1)
    ),
    "top-k by the sort of ties": lambda p: noisy(kept(p, 20), torch.rand(p.shape).double()),
    "top-p 0.98, not asked for": lambda p: noisy(nucleus(p, 0.98), torch.rand(p.shape).double()),
    "mass lost by a filter": lambda p: (
        torch.searchsorted((nucleus(p, 0.95, False)).cumsum(-1), torch.rand(*p.shape[:-1], 1).double())
        .squeeze(-1)
        .clamp(max=p.shape[-1] - 1)
    ),
}


def kept(p, k):
    """The first k of a sort, whatever is as likely as the last of them."""
    index = p.topk(min(k, p.shape[-1])).indices
    return torch.zeros_like(p).scatter(-1, index, p.gather(-1, index))


def nucleus(p, top_p, rescale=True, crossing=True):
    ordered, index = p.sort(dim=-1, descending=True)
    total = ordered.cumsum(-1)
    drop = total - ordered >= top_p if crossing else total > top_p
    drop[..., 0] = False
    kept = torch.zeros_like(p).scatter(-1, index, ordered.masked_fill(drop, 0))
    return kept / kept.sum(-1, keepdim=True) if rescale else kept


def draw(p, bug=""):
    return COARSE.get(bug, lambda q: Categorical(probs=q).sample())(p)


@torch.no_grad()
def denoise(model, rows, length=16, steps=8, *, bug="", choose="random", temperature=1.0, top_p=1.0, top_k=0):
    """A loop with even counts; choose: "random" positions, the surest "draw", or each with a rate ("each")."""
    mask = model.config.mask_token_id
    x, stale, before = torch.full((rows, length), mask), None, None
    count = length // steps
    for k in range(steps):
        padded = 2 * (bug == "padding that the model sees")
        seen = model(F.pad(x, (padded, 0))).logits[:, padded:, :mask].double()
        logits, stale = (seen if stale is None or bug != "a cache one step old" else stale), seen
        if bug == "a cache of two steps" and k % 2:
            logits = before
        before = logits
        if bug == "logits shifted by one":
            logits = logits.roll(1, 1)
        if bug == "logits of the next row":
            logits = logits.roll(1, 0)
        if bug == "repetition penalty":
            used = torch.zeros(rows, mask + 1, dtype=torch.bool).scatter_(1, x, True)[:, None, :-1]
            logits = torch.where(used, logits * 1.3, logits)
        heat = temperature**2 if bug == "temperature twice" else temperature
        p = (logits / heat).softmax(-1)
        if bug == "one token in 50 at random":
            p = 0.98 * p + 0.02 / mask
        if top_k:
            p = p * (p >= p.topk(top_k + (bug == "top-k off by one")).values[..., -1:])
        p = nucleus(p / p.sum(-1, keepdim=True), top_p, crossing=bug != "top-p drops the crossing token")
        if bug == "noise shared by rows":
            token = noisy(p, torch.rand(1, length, mask, dtype=torch.float64))
        elif bug == "noise shared by positions":
            token = noisy(p, torch.rand(rows, 1, mask, dtype=torch.float64))
        else:
            token = draw(p, bug)
        if bug == "argmax last" and k == steps - 1:
            token = p.argmax(-1)
        if bug == "argmax in every second step" and k % 2:
            token = p.argmax(-1)
        hidden = x == mask
        score = torch.rand(rows, length, dtype=torch.float64)
        if choose == "draw":
            score = p.gather(-1, token.unsqueeze(-1)).squeeze(-1)
        score = {
            "positions by random score": torch.rand(rows, length, dtype=torch.float64),
            "positions by largest probability": p.amax(-1),
            "positions by lowest probability": -p.gather(-1, token.unsqueeze(-1)).squeeze(-1),
            "positions by entropy": (p * p.clamp(min=1e-300).log()).sum(-1),
            "positions from the left": -torch.arange(length).double().expand(rows, length),
        }.get(bug, score)
        if bug == "a position drawn twice":
            token = draw(p)
        found = score.masked_fill(~hidden, -torch.inf).topk(count).indices
        taken = torch.zeros_like(hidden).scatter_(1, found, True)
        if bug == "hides again" and k == steps - 1:
            taken = hidden
        if choose == "each":
            rate = {"a wrong rate": 1 / steps, "a rate of the square root": (1 / (steps - k)) ** 0.8}
            taken = torch.rand(rows, length) < (rate.get(bug, 1 / (steps - k)) if k < steps - 1 else 1)
            taken = taken & hidden
        if bug == "a row at once" and k == 0:
            taken[0] = True
        if bug == "all rows at once":
            taken = hidden
        x = torch.where(taken & hidden, token, x)
        if bug == "redraws revealed tokens":
            x = torch.where(~hidden, draw(p), x)
        if bug == "hides again" and k < steps - 1:
            x = torch.where(torch.rand(x.shape) < 0.01, mask, x)
        if bug == "off by one" and k == steps - 2:
            x = torch.where(x == mask, token, x)
            break
        if bug == "token 0 ends a row" and k == steps - 1:
            x = torch.where((x == 0).cumsum(1) > 0, 0, x)
    return x


@torch.no_grad()
def blocks(model, rows, length=16, size=8, per=4, *, bug=""):
    """LLaDA's blocks, whose second one can begin late, or which can look at no later block."""
    mask = model.config.mask_token_id
    x = torch.full((rows, length), mask)
    for start in range(0, length, size):
        end = min(start + size + (bug == "a late block end"), length)
        todo = get_num_transfer_tokens(x[:, start:end] == mask, per)
        for k in range(per):
            p = model(x).logits[..., :mask].double().softmax(-1)
            token = draw(p)
            score = p.gather(-1, token.unsqueeze(-1)).squeeze(-1).masked_fill(x != mask, -torch.inf)
            score[:, end:] = -torch.inf
            for j in range(rows):
                chosen = score[j].topk(int(todo[j, k])).indices
                x[j, chosen] = token[j, chosen]
    return x


@torch.no_grad()
def maskgit(model, rows, length=16, steps=8):
    """A cosine-free MaskGIT in numpy's style: hide again all but the surest draws of this step."""
    mask = model.config.mask_token_id
    x, score = torch.full((rows, length), mask), torch.zeros(rows, length, dtype=torch.float64)
    for k in range(steps):
        p = F.softmax(model(x).logits[..., :mask].double(), -1)
        token = torch.multinomial(p.view(-1, mask), 1).view(rows, length)
        new = torch.where(x == mask, p.gather(-1, token[..., None])[..., 0], torch.inf)
        score, x = new, torch.where(x == mask, token, x)
        left = length - (k + 1) * length // steps
        x = x.scatter(1, score.argsort(1)[:, :left], mask)
    return x


@torch.no_grad()
def gumbel(model, rows, length=16, steps=8):
    """Counts by a permutation of each row, tokens by Gumbel noise."""
    mask = model.config.mask_token_id
    ids = torch.full((rows, length), mask)
    for part in torch.rand(rows, length).argsort(1).chunk(steps, 1):
        logits = model(input_ids=ids).logits[..., :mask].double()
        noise = -torch.empty_like(logits).exponential_().log()
        ids = ids.scatter(1, part, (logits + noise).argmax(-1).gather(1, part))
    return ids.numpy()


def by_hand(model, rows, length=16, steps=8):
    """One row a call, in numpy: the inverse of a sum, at the positions of a permutation."""
    mask = model.config.mask_token_id
    x = np.full(length, mask)
    for part in np.split(np.random.permutation(length), steps):  # noqa: NPY002
        p = np.exp(model(torch.from_numpy(x[None])).logits[0, :, :mask].double().numpy())
        for i in part:
            x[i] = np.searchsorted(p[i].cumsum() / p[i].sum(), np.random.rand(), side="right")  # noqa: NPY002
    return x[None]


@torch.no_grad()
def threshold(model, rows, length=16, limit=0.9):
    """Fast-dLLM: all draws above a threshold of the largest probability, or the best position."""
    mask = model.config.mask_token_id
    x = torch.full((rows, length), mask)
    while (x == mask).any():
        p = model(x).logits[..., :mask].double().softmax(-1)
        top = p.amax(-1).masked_fill(x != mask, -1)
        best = F.one_hot(top.argmax(1), length).bool()
        x = torch.where(((top > limit) | best) & (x == mask), Categorical(probs=p).sample(), x)
    return x


class Case(NamedTuple):
    loop: Callable[..., Any]
    how: dict[str, Any]
    words: str = ""  # of the right name, or of one name or another; none: no name is right


ANY, SURE, EACH = "fixed-size", "low-confidence(ties=topk)", "ancestral"
FIXED, BEST, RATE = ({"sampler": name, "steps": 8} for name in (ANY, SURE, EACH))
HEAT, TOP_P, TOP_K = {"temperature": 0.8}, {"top_p": 0.9}, {"top_k": 3}
best, rate = partial(denoise, choose="draw"), partial(denoise, choose="each")
CORRECT = {
    "even counts": Case(denoise, FIXED),
    "surest draws": Case(best, BEST),
    "a rate for each": Case(rate, RATE),
    "blocks": Case(blocks, {"sampler": "llada(block_length=8, temperature=1)", "steps": 8}),
    "MaskGIT": Case(maskgit, BEST),
    "Gumbel noise": Case(gumbel, FIXED),
    "threshold": Case(threshold, {"sampler": "threshold(threshold=0.9)"}),
    "temperature, then top-p": Case(partial(denoise, temperature=0.8, top_p=0.9), FIXED | {"filters": HEAT | TOP_P}),
    "numpy, one row a call": Case(by_hand, FIXED),
    "MDLM": Case(partial(mdlm, length=16, steps=8), RATE),
    "Dream": Case(partial(dream, length=16, steps=8), {"sampler": "dream(alg=entropy)", "steps": 8}),
    "autoregressive": Case(partial(causal, length=16), {"sampler": "autoregressive"}),
}
TAIL = "rare tokens"
UNLIKE = {  # what other coarse draws write too
    "top-p 0.98, not asked for": "rare tokens or another filter (top_p of 0.98",
    "Gumbel noise in bfloat16": "excluded tokens or rare tokens",  # u = 1: infinite noise, no number with log 0
    "mass lost by a filter": "another filter (top_p of 0.95 or excluded tokens or rare tokens",
}


def bugs(loop, how, **named):
    """A case of each fault; named: `a_b="words"` for the fault "a b"."""
    return {name: Case(partial(loop, bug=name), how, words) for name, words in named.items()}


PLANTED = {
    **{name: Case(partial(denoise, bug=name), FIXED, UNLIKE.get(name, TAIL)) for name in COARSE},
    **bugs(
        denoise,
        FIXED,
        **{
            "noise shared by positions": "reused noise",
            "hides again": "remasking",
            "argmax last": "greedy last step",
            "off by one": "miscounted steps",
            "a row at once": "uneven steps",
            "all rows at once": "miscounted steps",
            "logits shifted by one": "other logits (of the position",
            "logits of the next row": "other logits",
            "a cache one step old": "other logits (one step old",
            "a cache of two steps": "excluded tokens",
            "noise shared by rows": "reused noise",
            "argmax in every second step": "",
            "one token in 50 at random": "excluded tokens",
            "repetition penalty": "repetition penalty",
            "token 0 ends a row": "other tokens than it wrote",
            "positions by largest probability": "other positions (",
            "positions by entropy": "other positions (",
            "positions from the left": "other positions (",
        },
    ),
    "redraws revealed tokens": Case(
        partial(denoise, bug="redraws revealed tokens"), FIXED | {"certain": False}, "other tokens than it wrote"
    ),
    "padding that the model sees": Case(partial(denoise, bug="padding that the model sees"), FIXED | {"record": False}),
    "temperature twice": Case(
        partial(denoise, temperature=0.8, bug="temperature twice"), FIXED | {"filters": HEAT}, "temperature (0.6"
    ),
    "temperature on the left": Case(partial(denoise, temperature=0.8), FIXED, "temperature (0.7 or temperature (0.8"),
    "top-p drops the crossing token": Case(
        partial(denoise, top_p=0.9, bug="top-p drops the crossing token"),
        FIXED | {"filters": TOP_P},
        "top-p drops the token that crosses",
    ),
    "top-k off by one": Case(
        partial(denoise, top_k=3, bug="top-k off by one"), FIXED | {"filters": TOP_K}, "another filter (top_k of 4"
    ),
    "top-p 0.9, not asked for": Case(partial(denoise, top_p=0.9), FIXED, "another filter (top_p of 0.9"),
    **bugs(rate, RATE, **{"a wrong rate": "wrong reveal rate", "a rate of the square root": ""}),
    **bugs(
        best,
        BEST,
        **{
            "positions by random score": "other positions (at random",
            "positions by lowest probability": "other positions (",
            "a position drawn twice": "second draw",
        },
    ),
    "largest, for the draws": Case(partial(best, bug="positions by largest probability"), BEST, "other positions ("),
    "a late block end": Case(
        partial(blocks, bug="a late block end"),
        {"sampler": "llada(block_length=8, temperature=1)", "steps": 8},
        "uneven steps",
    ),
    "a row at once, by rates": Case(partial(rate, bug="a row at once"), RATE, "uneven steps"),
    "all rows at once, by rates": Case(partial(rate, bug="all rows at once"), RATE, "miscounted steps"),
    "AR temperature": Case(
        partial(causal, length=16, temperature=0.8), {"sampler": "autoregressive"}, "temperature (0."
    ),
}
