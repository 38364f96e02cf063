"""Uniform noise: every step draws all tokens again, each from the exact reverse step (denoisers/noise.py).

The levels 0 = a_0 < .. < a_N = 1 are the fractions alpha_k of a schedule: a token is clean with probability a_k. At the
start all positions that are not given have random tokens. Step k leads from a_(k-1) to a_k:

    uniform-ancestral   z_i ~ mu_i for all i at once

With an exact denoiser the loss of a step is the dependence of tokens that it draws together, as under masks. Later
steps repair the errors of earlier ones, so most steps belong near a = 1: `geometric(last=.01)`, with `last` below 1/L,
makes 1 - a fall geometrically to `last` before the last step.

A step writes only the tokens that change: in the session each is hidden and written in the same step. Each step is one
model call. No token is final before the last step, so a stop rule applies to complete sequences.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.denoisers import Denoiser, Table, as_marginals
from unmask.denoisers.canvas import Places
from unmask.denoisers.noise import reverse, without_own
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
    time = session.denoiser.time_at(level, len(canvas.tokens))
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

    rows, positions = where[0][new], where[1][new]
    session.canvas.hide((rows, positions))
    session.write(rows, positions, tokens[new], probability[new], step)

    rows, positions = where[0][started], where[1][started]
    session.hide(rows, positions, step)
    session.write(rows, positions, tokens[started], probability[started], step)


def sequences(vocabulary: int, length: int) -> Tensor:
    """(V^L, L): every sequence."""
    if vocabulary**length > ENUMERABLE:
        raise UnmaskError(
            f"there are {vocabulary}^{length} sequences",
            f"expected at most {ENUMERABLE:,} to list",
            "Use shorter sequences, or draw samples.",
        )
    return torch.cartesian_prod(*[torch.arange(vocabulary)] * length).view(-1, length)


def of_every(denoiser: Denoiser, every: Tensor, level: float) -> Tensor:
    """(V^L, L, V): r of every sequence without given tokens."""
    engine = denoiser.engine(every.clone(), torch.full_like(every, denoiser.vocabulary))
    rows, positions = torch.ones_like(every).nonzero(as_tuple=True)
    time = denoiser.time_at(level, len(every))
    answer = as_marginals(engine.at(rows, positions, time)).dense().double()
    if not engine.hollow:
        answer = without_own(answer, every.flatten(), level)
    return answer.view(*every.shape, denoiser.vocabulary)


def transitions(mu: Tensor, every: Tensor) -> Tensor:
    """(K, K): the probability prod_i mu_i(z_i) of every sequence z after every y; mu (K, L, V)."""
    product = torch.ones((len(every), len(every)), dtype=torch.float64)
    for j in range(every.shape[1]):
        product *= mu[:, j, every[:, j]]
    return product
