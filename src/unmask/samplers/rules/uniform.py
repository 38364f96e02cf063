"""Uniform noise: every step draws all tokens again, each from the exact reverse step (denoisers/contracts.py).

The levels 0 = a_0 < .. < a_N = 1 are the fractions alpha_k of a schedule: a token is clean with probability a_k. At the
start all positions that are not given have random tokens. Step k leads from a_(k-1) to a_k:

    uniform-ancestral   z_i ~ mu_i for all i at once

With an exact denoiser the loss of a step is the dependence of tokens that it draws together, as under masks. Later
steps repair the errors of earlier ones, so most steps belong near a = 1: `geometric(last=.01)`, with `last` below 1/L,
makes 1 - a fall geometrically to `last` before the last step.

A step writes only the tokens that change: in the session each is hidden and written in the same step. Each step is one
model call. No token is final before the last step, so a stop rule applies to complete sequences.

DiffusionGemma's sampler as published: uniform noise, but not its exact reverse step.

All positions start with random tokens. In each step, at a temperature that falls linearly from t_max to t_min:

    draw a token at every position from p_i ~ q(x_i | y)^(1/T)
    keep the positions with the lowest entropies, as many as the bound allows: their entropies, without the largest,
        sum to at most entropy_bound nats
    all other positions get new random tokens; the next step decides again about all positions

A row ends when the most likely tokens are those of the step before and the mean entropy is below `stop` nats. Its
result is the most likely token of each position. The model is called with the level alpha_k of the schedule.

More steps give fewer impossible sequences, but also less variety: the distribution does not approach the language's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Annotated

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Stream
from unmask.core.errors import UnmaskError
from unmask.denoisers import Denoiser, Marginals, Table, as_marginals
from unmask.denoisers.canvas import Places
from unmask.denoisers.contracts import emitted, reverse, without_own
from unmask.samplers.contract import SAMPLERS, Distribution, Sampler
from unmask.samplers.schedules import Schedule, deltas
from unmask.samplers.session import Session

ENUMERABLE = 2**12  # sequences V^L whose transitions are listed


class Even:
    """Draws each of V symbols with the same probability."""

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary

    def draw(self, u: Tensor) -> Tensor:
        return (u * self.vocabulary).long()


@SAMPLERS.register("uniform-ancestral")
@dataclass(frozen=True)
class UniformAncestral(Sampler):
    """Uniform noise: draws all tokens again in every step, each from the exact reverse step."""

    removes = "uniform"
    revises = True
    grid: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.grid is not None:
            deltas(arguments.of_kind("grid", self.grid, str, "the name of a schedule"), 2)

    @property
    def distribution(self) -> Distribution:
        return self.enumerated

    def levels(self, delta: Tensor) -> list[float]:
        """a_0 = 0 to a_N = 1: of the grid, or of the schedule delta (N)."""
        alpha = Schedule(delta if self.grid is None else deltas(self.grid, len(delta))).alpha
        return [*alpha[:-1].clamp(max=1.0).tolist(), 1.0]

    def run(self, session: Session) -> None:
        levels = self.levels(session.delta)
        begin(session)
        for step, (before, after) in enumerate(pairwise(levels), 1):
            if before == after and step > 1:  # a step of a schedule that reveals nothing
                continue
            rows, positions = session.hidden.nonzero(as_tuple=True)
            alone = predicted(session, rows, positions, self.level(before, after))
            draw(session, rows, positions, self.mu(alone, session.tokens[rows, positions], before, after), step)
            if after < 1:
                self.between(session, after, step)

    def between(self, session: Session, level: float, step: int) -> None:
        """Nothing: for correctors (examples/samplers/uniform_corrector.py)."""

    def enumerated(self, denoiser: Denoiser, length: int, delta: Tensor) -> Tensor:
        """(V^L): the probability of each sequence, by products of transitions between all of them."""
        every = sequences(denoiser.vocabulary, length)
        p = torch.full((len(every),), 1 / len(every), dtype=torch.float64)
        for before, after in pairwise(self.levels(delta)):
            if before == after:
                continue
            alone = of_every(denoiser, every, self.level(before, after))
            mu = self.mu(alone.flatten(0, 1), every.flatten(), before, after)
            p = p @ transitions(mu.view_as(alone), every)
            if after < 1:
                p = self.corrected(p, denoiser, every, after)
        return p

    def mu(self, alone: Tensor, tokens: Tensor, before: float, after: float) -> Tensor:
        """(K, V): the probabilities of new tokens from r (K, V) and tokens (K)."""
        return reverse(alone, tokens, before, after)

    def level(self, before: float, after: float) -> float:
        """The level of the predictions for a step between two levels."""
        return before

    def corrected(self, p: Tensor, denoiser: Denoiser, every: Tensor, level: float) -> Tensor:
        return p


def begin(session: Session) -> None:
    """Put random tokens at the positions that are not given."""
    rows, positions = session.hidden.nonzero(as_tuple=True)
    noise = session.rng.tokens(Even(session.denoiser.vocabulary), rows, positions, session.canvas.visits)
    session.canvas.reveal((rows, positions), noise)


def answer_at(session: Session, rows: Tensor, positions: Tensor, level: float) -> Tensor:
    """(K, V): the predictions of the denoiser at a level."""
    canvas = session.canvas
    time = None if canvas.time_free else torch.full((len(canvas.tokens),), level, dtype=torch.float64)
    return canvas.at(rows, positions, time).dense().double()


def predicted(session: Session, rows: Tensor, positions: Tensor, level: float) -> Tensor:
    """(K, V): leave-one-out posteriors r at a level."""
    answer = answer_at(session, rows, positions, level)
    if session.canvas.hollow:
        return answer
    return without_own(answer, session.tokens[rows, positions], level)


def draw(session: Session, rows: Tensor, positions: Tensor, weights: Tensor, step: int) -> None:
    """Draw tokens with probabilities (K, V) and exchange them."""
    table = Table(weights)
    tokens = session.canvas.draw(table, rows, positions)
    exchange(session, (rows, positions), tokens, table.of(tokens), step)


def exchange(session: Session, where: Places, tokens: Tensor, probability: Tensor, step: int) -> None:
    """Write the tokens (K) that differ; in the first step all, in place of the noise."""
    new = session.order[where] == 0
    started = ~new & (tokens != session.tokens[where])

    rows, positions = (part[new] for part in where)
    session.canvas.hide((rows, positions))
    session.write(rows, positions, tokens[new], probability[new], step)

    rows, positions = (part[started] for part in where)
    session.hide(rows, positions, step)
    session.write(rows, positions, tokens[started], probability[started], step)


def sequences(vocabulary: int, length: int) -> Tensor:
    """(V^L, L): every sequence."""
    if vocabulary**length > ENUMERABLE:
        problem = f"there are {vocabulary}^{length} sequences; expected at most {ENUMERABLE:,} to list"
        raise UnmaskError(f"{problem}. Use shorter sequences, or draw samples.")
    return torch.cartesian_prod(*[torch.arange(vocabulary)] * length).view(-1, length)


def of_every(denoiser: Denoiser, every: Tensor, level: float) -> Tensor:
    """(V^L, L, V): r of every sequence without given tokens."""
    engine = denoiser.engine(every.clone(), torch.full_like(every, denoiser.vocabulary))
    rows, positions = torch.ones_like(every).nonzero(as_tuple=True)
    time = None if denoiser.time_free else torch.full((len(every),), level, dtype=torch.float64)
    answer = as_marginals(engine.at(rows, positions, time)).dense().double()
    alone = answer if engine.hollow else without_own(answer, every.flatten(), level)
    return alone.view(*every.shape, denoiser.vocabulary)


def transitions(mu: Tensor, every: Tensor) -> Tensor:
    """(K, K): the probability prod_i mu_i(z_i) of every sequence z after every y; mu (K, L, V)."""
    product = torch.ones((len(every), len(every)), dtype=torch.float64)
    for j in range(every.shape[1]):
        product *= mu[:, j, every[:, j]]
    return product


@SAMPLERS.register("renoise")
@dataclass(frozen=True)
class Renoise(Sampler):
    """DiffusionGemma: keeps drawn tokens within an entropy budget, and gives all others new noise."""

    removes = "uniform"
    revises = True
    entropy_bound: Annotated[float, arguments.number] = 0.1
    t_max: Annotated[float, partial(arguments.number, above=True)] = 0.8
    t_min: float = 0.4
    stop: Annotated[float, arguments.number] = 0.005

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.number("t_min", self.t_min, most=self.t_max, above=True)

    def run(self, session: Session) -> None:
        steps = len(session.delta)
        alpha = Schedule(session.delta).alpha.clamp(max=1.0).tolist()
        even = Even(session.denoiser.vocabulary)
        begin(session)
        answer = torch.full_like(session.tokens, -1)  # the most likely tokens
        for step in range(1, steps + 1):
            rows, positions = (session.hidden & ~session.settled.unsqueeze(1)).nonzero(as_tuple=True)
            if not len(rows):
                return

            temperature = self.t_max + (self.t_min - self.t_max) * (step - 1) / max(steps - 1, 1)
            p = self._seen(session, rows, positions, alpha[step - 1]).sharpened(temperature)

            # a row ends when its most likely tokens are those of the step before, and it is sure of them
            entropy = torch.zeros(answer.shape, dtype=torch.float64)
            entropy[rows, positions] = p.entropy
            changed = rows[answer[rows, positions] != p.best]
            answer[rows, positions] = p.best
            calm = (entropy.sum(1) < self.stop * session.hidden.sum(1)).index_fill_(0, changed, False)
            ended = ~session.settled & session.hidden.any(1) & (calm | (step == steps))

            drawn = session.canvas.draw(p, rows, positions)
            keep = self._kept(session, entropy, rows, positions, step)
            fresh = session.rng.tokens(even, rows, positions, session.canvas.visits)

            tokens = torch.where(ended[rows], p.best, torch.where(keep, drawn, fresh))
            chance = torch.where(ended[rows] | keep, p.of(tokens), 1 / even.vocabulary)
            exchange(session, (rows, positions), tokens, chance, step)
            if step < steps:
                session.settle(ended, torch.full_like(session.lengths, step), "done")

    def _seen(self, session: Session, rows: Tensor, positions: Tensor, level: float) -> Marginals:
        """The full posteriors (K)."""
        answer = answer_at(session, rows, positions, level)
        if session.canvas.hollow:
            answer = emitted(answer, session.tokens[rows, positions], level)
        return Table(answer / answer.sum(1, keepdim=True))

    def _kept(self, session: Session, entropy: Tensor, rows: Tensor, positions: Tensor, step: int) -> Tensor:
        """Bool (K): the positions to keep, the least entropy (B, L) first and equal ones in random order."""
        here = torch.zeros(entropy.shape, dtype=torch.bool)
        here[rows, positions] = True
        rank = torch.where(here, (entropy / 1e-9).round(), torch.inf)
        by_chance = session.rng.grid(Stream.TIE, entropy.shape[1], step).argsort(1)
        order = by_chance.gather(1, rank.gather(1, by_chance).argsort(dim=1, stable=True))
        before = entropy.gather(1, order).cumsum(1) - entropy.gather(1, order)
        allowed = torch.zeros_like(here).scatter_(1, order, before <= self.entropy_bound)
        return allowed[rows, positions]
