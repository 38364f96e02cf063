"""Unbiased estimates of the loss of a step that draws its tokens at once.

A step draws x_S, each token from c(. | x_R). One token at a time, in an order s of S, it would be

    c_s(x_S | x_R) = prod_m c(x_{s_m} | x_R, x_{s_1..s_{m-1}})

With A a uniform subset of S of size a, and i uniform in S - A, the mean over s of the divergence is

    E[sum_i log c(x_i | x_R) - log c_s(x_S | x_R)] = sum_{a=1}^{n-1} g(a)
    g(a) = E KL(c_i(. | x_R) || c_i(. | x_R, x_A))

    one     a uniform in 1..n-1, one A of that size: (n-1) times the mean over all i in S - A
    chain   one order s, all its prefixes A

The same calls give three more numbers. The total variation in place of KL bounds the number of changed tokens (hybrid
argument). The log ratio of the drawn tokens serves where the model excludes tokens. At temperature 0 there are flips
and regret.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from unmask.core import progress
from unmask.denoisers import Marginals
from unmask.diagnosis.gap.path import Path, spread
from unmask.diagnosis.gap.reader import Reader

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


def subsets(path: Path, steps: Tensor, estimator: Estimator, rng: torch.Generator) -> Subsets:
    """Subsets of the tokens of steps (C) with at least two tokens."""
    size = path.size[steps]
    owner, entry = spread(path.first[steps], size)  # one random order for each step
    order = (owner + torch.rand(len(owner), generator=rng, dtype=torch.float64)).argsort()
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order)) - (size.cumsum(0) - size)[owner]
    if estimator == "chain":
        which, a = spread(torch.ones_like(size), size - 1)
        weight = torch.ones(len(which), dtype=torch.float64)
    else:
        which, weight = torch.arange(len(steps)), (size - 1).double()
        a = 1 + (torch.rand(len(steps), generator=rng, dtype=torch.float64) * (size - 1)).long()
    begins = size.cumsum(0) - size
    subset, index = spread(begins[which], size[which])
    inside = rank[index] < a[subset]
    following = (rank[index] == a[subset]) & (estimator == "chain")
    return Subsets(steps[which], weight, subset, entry[index], inside, following)


class Readings(NamedTuple):
    """One number for each subset: the mean over the tokens outside A."""

    nats: Tensor  # KL(c_i(. | x_R) || c_i(. | x_R, x_A)), the token summed out
    logs: Tensor  # log c(x_i | x_R) - log c(x_i | x_R, x_A) of the drawn token
    follows: Tensor  # the same, of the next token of a chain alone
    changed: Tensor  # total variation of the two; at temperature 0 whether the most likely token changes
    regret: Tensor  # max_v log c(v | x_R, x_A) - log c(x_i | x_R, x_A)
    recorded: Tensor  # log of the recorded probability - log c(x_i | x_R), the mean over all tokens of the step; at
    # temperature 0 the fraction of them that are not the most likely ones
    apart: Tensor  # the mean of its absolute value


class Pairs(NamedTuple):
    """Ordered pairs (j, i) of tokens of a step, from subsets whose A is j alone."""

    subset: Tensor  # (Q)
    distance: Tensor  # (Q): |i - j|
    nats: Tensor  # (Q): KL(c_i(. | x_R, x_j) || c_i(. | x_R))


class Flips(NamedTuple):
    """Tokens that another token would replace if those of A had been seen."""

    subset: Tensor  # (F)
    entry: Tensor  # (F)
    token: Tensor  # (F): the most likely token given A


def read(reader: Reader, every: Subsets) -> tuple[Readings, Pairs, Flips]:
    """Ask the denoiser about all subsets."""
    none = torch.zeros(0, dtype=torch.int64)
    nothing = none.double()
    parts = [(Readings(*[nothing] * 7), Pairs(none, none, nothing), Flips(none, none, none))]
    sizes = reader.path.size[every.step]
    begins = sizes.cumsum(0) - sizes

    def answer(part: slice) -> tuple[Readings, Pairs, Flips]:
        low, high = int(begins[part.start]), int(begins[part.stop - 1] + sizes[part.stop - 1])
        some = Subsets(
            every.step[part],
            every.weight[part],
            every.subset[low:high] - part.start,
            every.entry[low:high],
            every.inside[low:high],
            every.next[low:high],
        )
        return _read(reader, some, part.start)

    with progress.track("gap", len(every.step)) as advance:
        for part, one in reader.each(answer, every.step, 2):
            parts.append(one)
            advance(part.stop - part.start)
    readings, pairs, flips = (map(torch.cat, zip(*some, strict=True)) for some in zip(*parts, strict=True))
    return Readings(*readings), Pairs(*pairs), Flips(*flips)


def _read(reader: Reader, some: Subsets, first: int) -> tuple[Readings, Pairs, Flips]:
    """first: the number of the first of these subsets."""
    path = reader.path
    own, index = some.step.unique_consecutive(return_inverse=True)  # contexts x_R, shared by the subsets of a step
    whole = reader.entries(own)
    rest = (~some.inside).nonzero().squeeze(1)
    steps = torch.cat([own, some.step])
    shown = len(own) + some.subset[some.inside], some.entry[some.inside]
    wanted = torch.cat([whole[0], len(own) + some.subset[rest]]), torch.cat([whole[1], some.entry[rest]])
    marginals, dead = reader.at(steps, shown, wanted)
    count = len(whole[0])
    before = marginals[torch.arange(count)]
    if reader.temperature == 0:
        recorded = (before.best != path.token[whole[1]]).double()
    else:
        recorded = path.probability[whole[1]].log() - before.of(path.token[whole[1]]).log()
    entry, subset = some.entry[rest], some.subset[rest]
    # the entry of `before` for each token outside A: its step's first, and its place in the step
    size = path.size[own]
    where = (size.cumsum(0) - size)[index[subset]] + entry - path.first[some.step[subset]]
    ours, theirs = marginals[where], marginals[count + torch.arange(len(rest))]
    tokens = path.token[entry]

    ends = torch.zeros(len(some.step), dtype=torch.float64)
    outside = ends.index_add(0, subset, torch.ones(len(subset), dtype=torch.float64))

    def average(values: Tensor) -> Tensor:
        return ends.index_add(0, subset, values) / outside

    drawn = reader.drawn(ours), reader.drawn(theirs)
    logs = _infinite(drawn[0].of(tokens).log() - drawn[1].of(tokens).log())
    nats = drawn[0].divergence(drawn[1])
    if reader.temperature == 0:
        changed = (theirs.best != tokens).double()
    else:
        changed = drawn[0].excess(drawn[1], torch.ones(len(rest)))
    regret = theirs.confidence.log() - theirs.of(tokens).log()
    lost = torch.where(dead[len(own) :] | dead[: len(own)][index], torch.inf, 0.0).double()
    follows = ends.index_add(0, subset[some.next[rest]], logs[some.next[rest]])
    none = torch.zeros(len(own), dtype=torch.float64)
    each, apart = (none.index_add(0, whole[0], part) / size for part in (recorded, recorded.abs()))
    values = Readings(
        nats=average(nats) + lost,
        logs=average(logs) + lost,
        follows=follows + lost,
        changed=torch.where(lost > 0, 1.0, average(changed).clamp(0, 1)),
        regret=average(regret.clamp(min=0)) + lost,
        recorded=each[index],
        apart=apart[index],
    )
    other = theirs.best if reader.temperature == 0 else tokens
    flip = other != tokens
    pair, distance, nats_of = _pairs(some, rest, ours, theirs, path)
    pairs = Pairs(pair + first, distance, nats_of + lost[pair])
    return values, pairs, Flips(subset[flip] + first, entry[flip], other[flip])


def _pairs(
    some: Subsets, rest: Tensor, ours: Marginals, theirs: Marginals, path: Path
) -> tuple[Tensor, Tensor, Tensor]:
    """(subset, distance, nats) of the subsets that reveal one token."""
    alone = torch.zeros(len(some.step), dtype=torch.int64).index_add(0, some.subset, some.inside.long()) == 1
    revealed = torch.zeros(len(some.step), dtype=torch.int64)
    revealed[some.subset[some.inside]] = path.position[some.entry[some.inside]]
    chosen = alone[some.subset[rest]].nonzero().squeeze(1)
    subset = some.subset[rest][chosen]
    distance = (path.position[some.entry[rest][chosen]] - revealed[subset]).abs()
    return subset, distance, theirs[chosen].divergence(ours[chosen])


def _infinite(logs: Tensor) -> Tensor:
    """Log ratios; infinite where both probabilities are zero."""
    return torch.where(logs.isnan(), torch.inf, logs)
