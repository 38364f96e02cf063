"""The probability of every text under a sampler, by enumeration: a sum over contexts, not over paths.

    w_0(start) = 1,    w_(n+1)(z') = sum over z of w_n(z) P(z -> z' in step n + 1)

Samplers that choose decide themselves (contexts.py): drawn tokens may decide which of them are kept, and tokens may be
hidden again. Orders reveal a set F of h hidden positions and draw there, P = P(F) prod_{i in F} p(y_i | z):

    fixed-size, first-hitting   P(F) = 1 / C(h, |F|)           ancestral   P(F) = rho^|F| (1 - rho)^(h - |F|)

The model's probabilities carry their gradient, so w does. With `of_paths` the values are the same, and the gradient is
that of the tokens that each path has kept, as trainers on trajectories take it:

    grad w = sum over paths of P(path) grad sum_n sum_{i written in step n} log p(y_i | z_n)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from operator import itemgetter

import torch
from torch import Tensor

from unmask.core import entries
from unmask.core.errors import UnmaskError
from unmask.diagnosis.contexts import Contexts, States, Step, Ties, chosen, combinations, own_gradient
from unmask.samplers.contract import CANVAS, Sampler, inner_of
from unmask.samplers.rules.blocks import Blocks, FirstAlone
from unmask.samplers.rules.fixed_orders import Ancestral, FirstHitting, FixedSize
from unmask.samplers.schedules import BlockSchedules, Schedule

MOST_STEPS = 1000
RANDOM_SETS = (FixedSize, FirstHitting, Ancestral)


def enumerated(contexts: Contexts, sampler: Sampler, delta: Tensor, of_paths: bool = False) -> Tensor:
    """(V^H): the probability of each of the texts, with its gradient."""
    inner, blocks = stages(sampler, contexts.start == contexts.vocabulary, delta)
    states = States(contexts.start.unsqueeze(0), torch.ones(1, dtype=torch.float64), {})

    try:
        for inside, part in blocks:
            order = fixed_order(inner, inside, part)
            states = states._replace(memory={})
            for index in range(MOST_STEPS if inner.pace == "free" else len(part)):
                step = Step(inside, part, index, order, of_paths)
                states = merged(contexts, after(contexts, inner, states, step))
                if inner.pace == "free" and bool((states.tokens[:, inside] != contexts.vocabulary).all()):
                    break
    except UnmaskError as error:
        raise UnmaskError(f"sampler {sampler.spec} cannot be enumerated: {error}") from error

    nothing = torch.zeros(len(contexts.tokens), dtype=torch.float64)
    return nothing.index_add(0, contexts.number(states.tokens), states.mass)[contexts.number(contexts.texts)]


def stages(sampler: Sampler, hidden: Tensor, delta: Tensor) -> tuple[Sampler, list[tuple[Tensor, Tensor]]]:
    """The sampler inside blocks; and (positions Bool (L), schedule) of each block of one row, Bool (L)."""
    numbers = torch.where(hidden, 0, -1).unsqueeze(0)
    inner = sampler
    if isinstance(sampler, Blocks) and sampler.nucleus == 1:
        numbers = sampler.numbered(hidden.unsqueeze(0), None)
        inner = inner_of(sampler) if sampler.first is None else FirstAlone(inner_of(sampler), sampler.first)

    for problem, there in (
        ("reads an AR model", sampler.reads != CANVAS),
        ("has its own loop", inner.implements("run")),
        ("adds noise to its scores", getattr(inner, "noise", 0)),
    ):
        if there:
            raise UnmaskError(f"sampler {sampler.spec} {problem}; expected one that chooses positions in each step")

    parts = BlockSchedules.of(numbers, delta, inner.pace == "free").deltas[0]
    return inner, [(numbers[0] == block, part) for block, part in enumerate(parts)]


def fixed_order(sampler: Sampler, inside: Tensor, delta: Tensor) -> Tensor | None:
    """(L): the steps of an order that uses no random numbers; None for others."""
    if not sampler.implements("order") or type(sampler) in RANDOM_SETS:
        return None
    return sampler.order(delta, inside.unsqueeze(0), Ties(0, torch.zeros(1, dtype=torch.int64)))[0]


def after(contexts: Contexts, sampler: Sampler, states: States, step: Step) -> States:
    """The states after a step; a context may occur several times."""
    hidden = (states.tokens == contexts.vocabulary) & step.inside
    if sampler.implements("choose"):
        if sampler.pace == "counts" and not step.count:
            return states
        return chosen(contexts, sampler, states, hidden, step)
    parts = [revealed(contexts, states, *one, step.of_paths) for one in sets(sampler, hidden, step)]
    return States(torch.cat(entries.column(parts, "tokens")), torch.cat(entries.column(parts, "mass")), {})


def sets(sampler: Sampler, hidden: Tensor, step: Step) -> Iterator[tuple[Tensor, Tensor]]:
    """Sets F of positions (k), and the chance (S) that a state with these hidden positions, Bool (S, L), reveals F."""
    places = step.inside.nonzero().squeeze(1)
    left = hidden.sum(1)
    if step.order is not None:
        yield (step.order == step.index + 1).nonzero().squeeze(1), torch.ones(len(left), dtype=torch.float64)
        return

    most = int(left.max())
    if type(sampler) is Ancestral:
        rho = float(Schedule(step.delta).rho[step.index])
        chances = {size: rho**size * (1 - rho) ** (left.double() - size) for size in range(most + 1)}
    else:
        size = 1 if type(sampler) is FirstHitting else step.count
        chances = {size: torch.full((len(left),), 1 / math.comb(most, size), dtype=torch.float64)}

    for size, chance in chances.items():
        for some in itertools.combinations(places.tolist(), size):
            positions = torch.tensor(some, dtype=torch.int64)
            yield positions, torch.where(hidden[:, positions].all(1), chance, 0.0)


def revealed(contexts: Contexts, states: States, positions: Tensor, chance: Tensor, of_paths: bool) -> States:
    """The states that reveal these positions (k) with this chance (S), for every draw."""
    some = chance.nonzero().squeeze(1)
    draws = combinations(contexts.vocabulary, len(positions))
    tokens = states.tokens[some].repeat_interleave(len(draws), 0)

    rows = contexts.number(tokens).unsqueeze(1)
    tokens[:, positions] = draws.repeat(len(some), 1)
    written = contexts.p[rows, positions, tokens[:, positions]].prod(1)
    mass = (states.mass * chance)[some].repeat_interleave(len(draws))
    return States(tokens, mass * (own_gradient(written, written) if of_paths else written), {})


def merged(contexts: Contexts, states: States) -> States:
    """Each context and memory once, with the sum of its mass; states without mass are left out."""
    columns = [contexts.number(states.tokens).double().unsqueeze(1)]
    for value in states.memory.values():
        columns.append(value.double().reshape(len(value), -1))
    distinct, which = torch.cat(columns, 1).unique(dim=0, return_inverse=True)
    mass = torch.zeros(len(distinct), dtype=torch.float64).index_add(0, which, states.mass)
    first = torch.empty(len(distinct), dtype=torch.int64).scatter_(0, which, torch.arange(len(which)))
    return States(states.tokens[first], mass, entries.mapped(itemgetter(first), states.memory))
