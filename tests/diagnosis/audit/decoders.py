"""Decoders as their authors write and test them: loops that filter, skip steps, or do not work.

`python -m tests.diagnosis.audit.decoders alarms 250` counts the false alarms of every correct one in 250 runs;
`faults 5` the planted faults that are found and named, by the number of rows; `coverage 20` the detection of those that
an audit says it would see.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from itertools import product

import torch
from torch.distributions import Binomial, Categorical

from tests.diagnosis.audit import remembering
from tests.diagnosis.audit.loops import causal, dream, get_num_transfer_tokens, llada, mdlm
from unmask import audit, generate, load
from unmask.denoisers import Ideal
from unmask.diagnosis.audit import verdict
from unmask.diagnosis.audit.specimens import Meant, specimens
from unmask.samplers.contract import as_sampler
from unmask.samplers.schedules import deltas
from unmask.testing import assert_law


def filtered(p, temperature=1.0, top_p=1.0, top_k=None):
    """The probabilities of the tokens that are left: temperature, then top-p, then top-k."""
    p = (p.log() / temperature).softmax(-1)
    if top_p < 1:
        ordered, index = p.sort(dim=-1, descending=True)
        ordered[(ordered.cumsum(-1) - ordered) >= top_p] = 0
        p = torch.zeros_like(p).scatter_(-1, index, ordered)
    if top_k is not None:
        p = p.masked_fill(p < p.topk(top_k).values[..., -1:], 0)
    return p / p.sum(-1, keepdim=True)


def asked(model, x):
    return model(x).logits[..., : model.config.mask_token_id].double().softmax(-1)


@torch.no_grad()
def transfer(model, rows, length, steps):
    """dLLM's stochastic transfer: binomial counts of every row, of which the zeros are left out."""
    mask, counts = model.config.mask_token_id, []
    for _ in range(rows):
        left, mine = length, []
        for t in range(steps, 0, -1):
            mine.append(left if t == 1 else int(Binomial(left, torch.tensor(1 / t)).sample()))
            left -= mine[-1]
        counts.append([count for count in mine if count])
    x = torch.full((rows, length), mask)
    for k in range(max(map(len, counts))):
        drawn = Categorical(probs=asked(model, x)).sample()
        rank = torch.rand(x.shape).masked_fill(x != mask, 2).argsort(1).argsort(1)
        count = torch.tensor([mine[k] if k < len(mine) else 0 for mine in counts])
        x = torch.where((rank < count.unsqueeze(1)) & (x == mask), drawn, x)
    return x


@torch.no_grad()
def ancestral(model, rows, length, steps, *, bug="", **filters):
    """Positions first, then their tokens, of filtered probabilities."""
    mask = model.config.mask_token_id
    x = torch.full((rows, length), mask)
    for k in range(steps):
        p = asked(model, x)
        if bug == "tokens and mask filtered":
            weights = torch.cat([p / (steps - k), torch.full((*x.shape, 1), 1 - 1 / (steps - k))], -1)
            x = torch.where(x == mask, Categorical(probs=filtered(weights, **filters)).sample(), x)
            continue
        if bug == "probabilities as logits":
            p = p.softmax(-1)
        p = filtered(p, **filters) if bug != "no filter" else p
        shown = (x == mask) & (torch.rand(x.shape) < 1 / (steps - k))
        x = torch.where(shown, Categorical(probs=p).sample(), x)
    return x


@torch.no_grad()
def confident(model, rows, length, steps, *, bug="", **filters):
    """LLaDA's rule on filtered probabilities, with fixed counts."""
    mask = model.config.mask_token_id
    x = torch.full((rows, length), mask)
    for count in get_num_transfer_tokens(x == mask, steps)[0].tolist():
        plain = asked(model, x)
        p = filtered(plain, **filters)
        if bug == "probabilities as logits":
            p = plain.softmax(-1)
        drawn = Categorical(probs=p).sample()
        scores = (plain if bug else p).gather(-1, drawn.unsqueeze(-1)).squeeze(-1)
        chosen = scores.masked_fill(x != mask, -1).topk(count).indices
        x = x.scatter(1, chosen, drawn.gather(1, chosen))
    return x


@torch.no_grad()
def speculate(model, draft, rows, length, size=4, *, bug=""):
    """Four tokens of the draft after each other, verified in one call; every row continues where it was rejected."""
    first, vocabulary = model.config.bos_token_id, model.config.bos_token_id
    x = torch.full((rows, 1 + length + size + 1), 0)
    x[:, 0], done, row = first, torch.zeros(rows, dtype=torch.long), torch.arange(rows)
    while int(done.min()) < length:
        d = []
        for k in range(size):
            d.append(draft(x).logits[row, done + k, :vocabulary].double().softmax(-1))
            x[row, 1 + done + k] = Categorical(probs=d[-1]).sample()
        p = model(x).logits[..., :vocabulary].double().softmax(-1)
        going = done < length
        for k in range(size):
            target, drafted = p[row, done], x[row, 1 + done]
            a, b = (q.gather(1, drafted.unsqueeze(1)).squeeze(1) for q in (target, d[k]))
            chance = {"no division": a, "upside down": b / a, "all kept": torch.ones(rows)}.get(bug, a / b)
            kept = torch.rand(rows) < chance
            rest = target if bug == "no residual" else (target - d[k]).clamp(min=0) + 1e-30
            new = torch.where(kept, drafted, Categorical(probs=rest).sample())
            x[row, 1 + done] = torch.where(going, new, drafted)
            done = (done + going).clamp(max=length)
            going = going & kept & (done < length)
        new = Categorical(probs=p[row, done]).sample()
        x[row, 1 + done] = torch.where(going, new, x[row, 1 + done])
        done = done + going
    return x[:, 1 : length + 1]


@torch.no_grad()
def uniform(model, rows, length, steps):
    """D3PM's reverse step from random tokens, with the level as the second argument."""
    from unmask.denoisers.noise import reverse, without_own

    vocabulary = model.config.vocab_size
    x = torch.randint(0, vocabulary, (rows, length))
    for k in range(steps):
        before, after, y = k / steps, (k + 1) / steps, x.view(-1)
        p = model(x, torch.full((rows,), before)).logits.double().softmax(-1).view(-1, vocabulary)
        x = torch.multinomial(reverse(without_own(p, y, before), y, before, after), 1).view(rows, length)
    return x


@torch.no_grad()
def renoised(model, rows, length, steps, *, bound=1.0, warm=0.8, cold=0.4, stop=0.005):
    """DiffusionGemma's canvas: keep the surest tokens within a budget of entropy, and renew all others."""
    vocabulary, before = model.config.vocab_size, torch.full((rows, length), -1)
    x = torch.randint(0, vocabulary, (rows, length))
    result, done = x.clone(), torch.zeros(rows, dtype=torch.bool)
    for k in range(steps):
        heat = warm + (cold - warm) * k / (steps - 1)
        at = Categorical(logits=model(x, torch.full((rows, 1), k / steps)).logits.double() / heat)
        drawn, entropy, answer = at.sample(), at.entropy(), at.logits.argmax(-1)
        least, order = entropy.sort(1)
        keep = torch.zeros(x.shape, dtype=torch.bool).scatter_(1, order, least.cumsum(1) - least <= bound)
        ended = ((answer == before).all(1) & (entropy.mean(1) < stop)) | (k == steps - 1)
        result = torch.where((ended & ~done).unsqueeze(1), answer, result)
        x, before, done = torch.where(keep, drawn, torch.randint_like(x, vocabulary)), answer, done | ended
    return result


ROWS = 400
FILTERS = {"temperature": 0.8, "top_p": 0.9, "top_k": 4}
CORRECT = {  # loop, and how assert_law is called
    "mdlm": (partial(mdlm, rows=ROWS, length=32, steps=16), {"sampler": "ancestral", "steps": 16}),
    "transfer": (partial(transfer, rows=ROWS, length=16, steps=8), {"sampler": "ancestral", "steps": 8}),
    "llada": (partial(llada, rows=ROWS, length=16, steps=8), {"sampler": "low-confidence(ties=topk)", "steps": 8}),
    "dream": (partial(dream, rows=ROWS, length=16, steps=8), {"sampler": "dream(alg=entropy)", "steps": 8}),
    "causal": (partial(causal, rows=ROWS, length=16), {"sampler": "autoregressive"}),
    "uniform": (partial(uniform, rows=ROWS, length=16, steps=6), {"sampler": "uniform-ancestral", "steps": 6}),
    "speculation": (partial(speculate, rows=ROWS, length=16), {"sampler": "autoregressive", "draft": 0.5}),
    "filtered ancestral": (
        partial(ancestral, rows=ROWS, length=16, steps=8, **FILTERS),
        {"sampler": "ancestral", "steps": 8, "filters": FILTERS},
    ),
    "filtered confidence": (
        partial(confident, rows=ROWS, length=16, steps=8, **FILTERS),
        {"sampler": "low-confidence(ties=topk)", "steps": 8, "filters": FILTERS},
    ),
}


SMALL = {"rows": 400, "length": 16, "steps": 8}
ANCESTRAL = {"sampler": "ancestral", "steps": 8}
CONFIDENT = {"sampler": "low-confidence(ties=topk)", "steps": 8}
K3, WARM = {"top_k": 3}, {"temperature": 0.7}
PLANTED = {  # loop, how assert_law is called, words of the message
    "seven steps": (partial(transfer, **SMALL | {"steps": 7}), ANCESTRAL, "miscounted steps (7 steps instead of 8)"),
    "fixed numbers": (partial(llada, **SMALL), ANCESTRAL, "uneven steps (8 steps change a sequence, not 7.0"),
    "argmax": (partial(mdlm, **SMALL, bug="final argmax"), ANCESTRAL, "greedy last step"),
    "delta": (partial(mdlm, **SMALL, bug="delta instead of rho"), ANCESTRAL, "wrong reveal rate"),
    "shared noise": (partial(mdlm, **SMALL, bug="noise shared by positions"), ANCESTRAL, "reused noise"),
    "hidden again": (partial(mdlm, **SMALL, bug="hidden again"), ANCESTRAL, "positions are hidden again"),
    "warm": (partial(mdlm, **SMALL, temperature=1.25), ANCESTRAL, "temperature (1.2"),
    "flat": (partial(llada, **SMALL, bug="flattened top-k"), CONFIDENT, "batch-flattened choice"),
    "softmax twice": (partial(ancestral, **SMALL, bug="probabilities as logits"), ANCESTRAL, "probabilities as logits"),
    "drawn twice": (partial(confident, **SMALL, bug="probabilities as logits"), CONFIDENT, "probabilities as logits"),
    "top-k left out": (
        partial(ancestral, **SMALL, **K3, bug="no filter"),
        ANCESTRAL | {"filters": K3},
        "filters left out",
    ),
    "warm left out": (
        partial(ancestral, **SMALL, **WARM, bug="no filter"),
        ANCESTRAL | {"filters": WARM},
        "filters left out",
    ),
    "mask in top-k": (
        partial(ancestral, **SMALL, **K3, bug="tokens and mask filtered"),
        ANCESTRAL | {"filters": K3},
        "filter after the reveal (tokens and mask in one race)",
    ),
    "mask in top-p": (
        partial(ancestral, **SMALL, top_p=0.8, bug="tokens and mask filtered"),
        ANCESTRAL | {"filters": {"top_p": 0.8}},
        "filter after the reveal (tokens and mask in one race)",
    ),
    "top-k after the choice": (
        partial(confident, **SMALL, **K3, bug="late"),
        CONFIDENT | {"filters": K3},
        "filter after the reveal (positions are chosen without it)",
    ),
    "all after the choice": (
        partial(confident, **SMALL, **FILTERS, bug="late"),
        CONFIDENT | {"filters": FILTERS},
        "filter after the reveal (positions are chosen without it)",
    ),
    "warm causal": (
        partial(causal, rows=400, length=16, temperature=0.8),
        {"sampler": "autoregressive"},
        "temperature (0.8",
    ),
}
REFERENCES = 10  # sets of reference rows, each used by every tenth seed


def alarms(runs: int, names: list[str]) -> None:
    """False alarms of correct loops, over seeds."""
    for name, (loop, how) in CORRECT.items():
        if names and name not in names:
            continue
        began, near, wrong = time.process_time(), 0, []
        for seed in range(runs):
            remembering.SEED = seed % REFERENCES
            try:
                found = assert_law(loop, seed=seed, **how)
                near += min(found.p_values.values()) < 100 * found.alarm_each
            except AssertionError as error:
                wrong.append(f"seed {seed}: {error}")
        print(name, runs, "runs", len(wrong), "alarms", f"{time.process_time() - began:.0f} s", sep=" | ")
        print(f"    {near} below 100 times the alarm: 1% or fewer are expected", *wrong, sep="\n    ", flush=True)


def faults(runs: int, names: list[str]) -> None:
    """Planted faults that are found and named, by the number of rows."""
    for (name, (loop, how, words)), rows in product(PLANTED.items(), (200, 400, 2000)):
        if names and name not in names:
            continue
        began, found = time.process_time(), []
        for seed in range(runs):
            try:
                assert_law(partial(loop, rows=rows), rows=rows, seed=seed, **how)
            except AssertionError as error:
                found.append(words in str(error))
        spent = (time.process_time() - began) / runs
        counts = f"found {len(found)} of {runs}, named {sum(found)}"
        print(name, rows, counts, f"{spent:.2f} s each", sep=" | ", flush=True)


def coverage(runs: int, names: list[str]) -> None:
    """Detection of the faults that an audit says it would see, and of those that it would miss."""
    for sampler, rows in product(names or ("ancestral", "low-confidence"), (400, 1000)):
        meant = Meant(as_sampler(sampler), "linear", deltas("linear", 8), Ideal(load("paper-2gram")))
        making = partial(generate, meant.denoiser, steps=8, length=16, rows=rows)
        said = {True: [], False: []}
        for each in specimens(meant):
            for seed in range(runs):
                made = making(sampler=each.sampler, seed=1000 + seed)
                found = audit(made.tokens, meant.denoiser.language, sampler=sampler, steps=8, order=made.order)
                if each.fault != "ties":
                    said[each.name in found.seen].append(found.verdict == "differs")
        for seen, caught in said.items():
            counts = f"{sum(caught)} of {len(caught)} detected"
            print(sampler, rows, "seen" if seen else "not seen", counts, sep=" | ", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    verdict.Bench = remembering.remembered
    {"alarms": alarms, "faults": faults, "coverage": coverage}[sys.argv[1]](int(sys.argv[2]), sys.argv[3:])
