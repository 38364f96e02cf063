"""Decoders as their authors write and test them: loops that filter, skip steps, or do not work.

`python -m tests.diagnosis.audit.decoders 250` runs every correct one with so many seeds and counts the false alarms.
"""

from __future__ import annotations

import sys
import time
from functools import partial

import torch
from torch.distributions import Binomial, Categorical

from tests.diagnosis.audit.loops import causal, dream, get_num_transfer_tokens, llada, mdlm


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
    from unmask.denoisers.contracts import reverse, without_own

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


def main() -> None:
    from tests.diagnosis.audit.remembering import remembered
    from unmask.diagnosis.audit import verdict
    from unmask.testing import assert_law

    verdict.Bench = remembered
    for name, (loop, how) in CORRECT.items():
        if len(sys.argv) > 2 and name not in sys.argv[2:]:
            continue
        began, near, alarms = time.process_time(), 0, []
        for seed in range(int(sys.argv[1])):
            try:
                found = assert_law(loop, seed=seed, **how)
                near += min(found.p_values.values()) < 100 * found.alarm_each
            except AssertionError as error:
                alarms.append(f"seed {seed}: {error}")
        print(name, sys.argv[1], "runs", len(alarms), "alarms", f"{time.process_time() - began:.0f} s", sep=" | ")
        print(f"    {near} below 100 times the alarm: 1% or fewer are expected", *alarms, sep="\n    ", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
