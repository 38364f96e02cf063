"""Unbiased estimates of the loss of a step that draws its tokens at once.

A step draws x_S, each token from c(. | x_R). One token at a time, in an order s of S, it would be

    c_s(x_S | x_R) = prod_m c(x_{s_m} | x_R, x_{s_1..s_{m-1}})

With A a uniform subset of S of size a, and i uniform in S - A, the mean over s of the divergence is

    E[sum_i log c(x_i | x_R) - log c_s(x_S | x_R)] = sum_{a=1}^{n-1} g(a)
    g(a) = E KL(c_i(. | x_R) || c_i(. | x_R, x_A))

    one     a uniform in 1..n-1, one A of that size: (n-1) times the mean over all i in S - A
    chain   one order s, all its prefixes A

The same calls give more numbers. The total variation in place of KL bounds the fraction of sequences that change
(hybrid argument). The log ratio of the drawn tokens serves where the model excludes tokens, and for joint draws. At
temperature 0 there are first flips: tokens that the model stops preferring once it sees others of their step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from unmask.core import entries
from unmask.core.threads import tracked
from unmask.diagnosis.gap.path import Path, Reader, spread

Estimator = Literal["one", "chain"]


@dataclass(frozen=True)
class Subsets:
    """E subsets A of the tokens of steps; and P pairs of a subset and a token of its step."""

    step: Tensor  # (E), ascending
    weight: Tensor  # (E) float64: of the mean over S - A, for the sum over a
    subset: Tensor  # (P), ascending
    entry: Tensor  # (P)
    inside: Tensor  # Bool (P): whether the token is in A
    next: Tensor  # Bool (P): whether it comes next in the order of a chain


class Readings(NamedTuple):
    """One number for each subset: the mean over the tokens outside A."""

    nats: Tensor  # KL(c_i(. | x_R) || c_i(. | x_R, x_A)), the token summed out
    logs: Tensor  # log c(x_i | x_R) - log c(x_i | x_R, x_A) of the drawn token
    follows: Tensor  # the same, of the next token of a chain alone
    changed: Tensor  # total variation of the two; at temperature 0 whether the most likely token changes
    recorded: Tensor  # log of the recorded probability - log c(x_i | x_R), the mean over all tokens of the step; at
    # temperature 0 the fraction of them that are not the most likely ones
    apart: Tensor  # the mean of its absolute value
    sure: Tensor  # log of the largest probability that the step drew from, the mean over all tokens of the step


def subsets(path: Path, steps: Tensor, estimator: Estimator, rng: torch.Generator) -> Subsets:
    """Subsets of the tokens of steps (C) with at least two tokens."""
    size = path.size[steps]

    # one random order for each step
    owner, entry = spread(path.first[steps], size)
    order = (owner + torch.rand(len(owner), generator=rng, dtype=torch.float64)).argsort()
    begins = size.cumsum(0) - size
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order)) - begins[owner]

    if estimator == "chain":
        which, a = spread(torch.ones_like(size), size - 1)
        weight = torch.ones(len(which), dtype=torch.float64)
    else:
        which = torch.arange(len(steps))
        weight = (size - 1).double()
        a = 1 + (torch.rand(len(steps), generator=rng, dtype=torch.float64) * (size - 1)).long()

    subset, index = spread(begins[which], size[which])
    inside = rank[index] < a[subset]
    following = (rank[index] == a[subset]) & (estimator == "chain")
    return Subsets(steps[which], weight, subset, entry[index], inside, following)


def measure(reader: Reader, estimator: Estimator, seed: int) -> tuple[Tensor, Tensor, Readings]:
    """(step, weight, readings) of random subsets, (E) each, of all steps with at least two tokens."""
    path = reader.path
    rng = torch.Generator().manual_seed(seed)
    steps = (path.size > 1).nonzero().squeeze(1)
    contexts = 2 if estimator == "one" or not len(steps) else int(path.size.max())
    every = [subsets(path, part, estimator, rng) for part in reader.batches(steps, contexts)]

    def part(one: slice) -> Readings:
        return read(reader, every[one.start])

    nothing = torch.zeros(0, dtype=torch.float64)
    parts = [Readings(*[nothing] * 7), *tracked("gap", part, len(every), 1, 1, reader.denoiser.concurrent)]
    step = torch.cat([nothing.long(), *entries.column(every, "step")])
    weight = torch.cat([nothing, *entries.column(every, "weight")])
    return step, weight, Readings(*map(torch.cat, zip(*parts, strict=True)))


def read(reader: Reader, some: Subsets) -> Readings:
    """Ask the denoiser about subsets."""
    path = reader.path
    own, index = some.step.unique_consecutive(return_inverse=True)  # contexts x_R, shared by the subsets of a step
    size = path.size[own]
    whole, every = spread(path.first[own], size)
    rest = (~some.inside).nonzero().squeeze(1)
    entry, subset = some.entry[rest], some.subset[rest]
    shown = len(own) + some.subset[some.inside], some.entry[some.inside]
    wanted = torch.cat([whole, len(own) + subset]), torch.cat([every, entry])
    marginals, dead = reader.at(torch.cat([own, some.step]), shown, wanted)

    before = marginals[torch.arange(len(whole))]
    if reader.temperature == 0:
        recorded = (before.best != path.entries.tokens[every]).double()
    else:
        recorded = path.entries.probability[every].log() - before.of(path.entries.tokens[every]).log()

    # the entry of `before` for each token outside A: its step's first, and its place in the step
    where = (size.cumsum(0) - size)[index[subset]] + entry - path.first[some.step[subset]]
    ours, theirs = marginals[where], marginals[len(whole) + torch.arange(len(rest))]
    drawn = reader.drawn(ours), reader.drawn(theirs)
    best = reader.drawn(before).confidence.double().log()
    tokens = path.entries.tokens[entry]

    none = torch.zeros(len(some.step), dtype=torch.float64)
    outside = none.index_add(0, subset, torch.ones(len(subset), dtype=torch.float64))

    def average(values: Tensor) -> Tensor:
        return none.index_add(0, subset, values) / outside

    ratios = drawn[0].of(tokens).log() - drawn[1].of(tokens).log()
    logs = torch.where(ratios.isnan(), torch.inf, ratios)  # infinite where both probabilities are zero
    if reader.temperature == 0:
        changed = (theirs.best != tokens).double()
    else:
        changed = drawn[0].excess(drawn[1], torch.ones(len(rest)))

    lost = torch.where(dead[len(own) :] | dead[: len(own)][index], torch.inf, 0.0).double()
    zeros = torch.zeros(len(own), dtype=torch.float64)
    each, apart, sure = (zeros.index_add(0, whole, part) / size for part in (recorded, recorded.abs(), best))
    return Readings(
        nats=average(drawn[0].divergence(drawn[1])) + lost,
        logs=average(logs) + lost,
        follows=none.index_add(0, subset[some.next[rest]], logs[some.next[rest]]) + lost,
        changed=torch.where(lost > 0, 1.0, average(changed).clamp(0, 1)),
        recorded=each[index],
        apart=apart[index],
        sure=sure[index],
    )
