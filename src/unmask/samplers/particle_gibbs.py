"""Particle Gibbs (PG-DLM, arXiv 2507.08390v2): whole trajectories are drawn again, beside the one that there is.

A sweep has K trajectories of ancestral sampling in N rounds, of which one is that of the sweep before. After each round
the others are drawn anew from all K, by weights; after the last one of the K stays, by its weight:

    reward   w = exp((r(x') - r(x)) / beta),  x before the round and x' after it: towards p(x) exp(r(x) / beta)
    none     w = q(x') / q(x) / prod_j p(x'_j | x),  j what the round revealed: towards the language q itself

reward is a function of tokens (B, L), V where they are hidden, that returns nats (B): the paper estimates r of a row
that is partly hidden by completing it, and so may yours. Without one the language behind the denoiser says q of what is
revealed, which no network knows. A sweep leaves the law that it aims at as it is, for any number of particles from 2;
the first one, which has no trajectory yet, comes near it as there are more. The looks of every particle are counted,
but for the trajectory that is kept: it has been paid for. With one particle this is the ancestral sampler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import MAX_SEED, MAX_VISIT, Stream, categorical
from unmask.core.errors import UnmaskError
from unmask.denoisers.canvas import by_length
from unmask.samplers.contract import SAMPLERS, Sampler
from unmask.samplers.session import Session
from unmask.samplers.verify_and_restart import APART
from unmask.schedules import orders


class Trajectory(NamedTuple):
    """A row each: what is revealed of it, in which round, how probable it was then, and what is revealed when."""

    tokens: Tensor  # (B, L), V where hidden
    order: Tensor  # (B, L), 0 where hidden
    probability: Tensor  # (B, L)
    plan: Tensor  # (B, L): rounds 1..N


@SAMPLERS.register("particle-gibbs")
@dataclass(frozen=True)
class ParticleGibbs(Sampler):
    """Trajectories in parallel, weighed after each round; the one that is kept meets new ones in each sweep."""

    particles: int = 2
    sweeps: int = 2
    reward: Callable[[Tensor], Tensor] | None = None
    beta: float = 1.0

    def __post_init__(self) -> None:
        arguments.whole("particles", self.particles, 1, MAX_VISIT)
        arguments.whole("sweeps", self.sweeps, 1, MAX_VISIT)
        arguments.number("beta", self.beta, above=True)
        if self.reward is not None and not callable(self.reward):
            arguments.refuse("reward", self.reward, "a function of tokens (B, L), or None")

    def run(self, session: Session) -> None:
        kept = None
        for sweep in range(self.sweeps):
            kept = self._sweep(session, sweep, kept)
        assert kept is not None
        rows, positions = session.hidden.nonzero(as_tuple=True)
        parts = (part[rows, positions] for part in (kept.tokens, kept.probability, kept.order))
        session.write(rows, positions, *parts)

    def _sweep(self, session: Session, sweep: int, kept: Trajectory | None) -> Trajectory:
        """The trajectories that stay of one sweep, beside those of the sweep before."""
        rows, steps, seed = torch.arange(len(session.given)), len(session.delta), session.luck.seed
        numbers = range(sweep * self.particles + 1, (sweep + 1) * self.particles + 1)
        tries = [session.attempt(rows, (seed + number * APART) % MAX_SEED) for number in numbers]
        plans = [orders.independent(session.delta, session.hidden, one.luck) for one in tries]
        if kept is not None:
            plans[0] = kept.plan
        before = self._value(session, session.given).expand(len(tries), -1)
        for turn in range(1, steps + 1):
            paid = []
            for number, (one, plan) in enumerate(zip(tries, plans, strict=True)):
                row, position = (plan == turn).nonzero(as_tuple=True)
                if kept is not None and number == 0:
                    tokens, chance = kept.tokens[row, position], kept.probability[row, position]
                else:
                    time = torch.full((len(rows),), 1 - (turn - 1) / steps, dtype=torch.float64)
                    said = one.canvas.at(row, position, None if session.denoiser.time_free else time)
                    tokens = one.canvas.draw(said, row, position)
                    chance = said.of(tokens)
                one.write(row, position, tokens, chance, turn)
                paid.append(torch.zeros(len(rows), dtype=torch.float64).index_add_(0, row, chance.log()))
            now = torch.stack([self._value(session, one.tokens) for one in tries])  # (K, B)
            weights = self._weights(now, before, torch.stack(paid))
            states = [
                Trajectory(one.tokens.clone(), one.order.clone(), one.probability.clone(), plan)
                for one, plan in zip(tries, plans, strict=True)
            ]
            if turn == steps:
                break
            for number, one in enumerate(tries):
                ancestor = self._drawn(session, weights, number, sweep * steps + turn)
                if kept is not None and number == 0:
                    ancestor = torch.zeros_like(ancestor)
                state = _picked(states, ancestor)
                _become(one, state, ancestor != number, turn)
                plans[number] = state.plan
                before = before.clone()
                before[number] = now[ancestor, rows]
        for one in tries:
            session.charge(rows, one)
        return _picked(states, self._drawn(session, weights, 0, (sweep + 1) * steps))

    def _value(self, session: Session, tokens: Tensor) -> Tensor:
        """(B) nats: the reward over beta, or log q of what is revealed."""
        if self.reward is not None:
            return self.reward(tokens).double() / self.beta
        language = session.denoiser.language
        if language is None:
            what = f"particle-gibbs weighs by what a language says of a row; {session.denoiser.name} has none"
            raise UnmaskError(f"{what}. Give reward=, a function of tokens (B, L)")
        value = torch.zeros(len(tokens), dtype=torch.float64)
        for size, rows in by_length(session.valid.sum(1)):
            value[rows] = language.log_evidence(tokens[rows, :size].contiguous())
        return value

    def _weights(self, now: Tensor, before: Tensor, paid: Tensor) -> Tensor:
        """(B, K): of each row's particles, alike where none is possible."""
        gained = now - before - (0 if self.reward is not None else paid)
        gained = torch.where(gained.isnan(), -torch.inf, gained)
        dead = (gained == -torch.inf).all(0)
        return torch.where(dead, 0.0, gained).T.contiguous().softmax(1)

    def _drawn(self, session: Session, weights: Tensor, number: int, turn: int) -> Tensor:
        """(B): one particle each, by the weights."""
        rows = torch.arange(len(weights))
        return categorical(weights, session.luck.uniform(Stream.ACCEPT, rows, torch.tensor(number), turn))


def _picked(states: list[Trajectory], which: Tensor) -> Trajectory:
    """Of each row the trajectory of one particle (B)."""
    rows = torch.arange(len(which))
    return Trajectory(*(torch.stack(parts)[which, rows] for parts in zip(*states, strict=True)))


def _become(one: Session, state: Trajectory, changed: Tensor, turn: int) -> None:
    """Let these rows, Bool (B), of a particle's session be what the trajectory is."""
    if not bool(changed.any()):
        return
    rows, positions = ((one.order > 0) & changed.unsqueeze(1)).nonzero(as_tuple=True)
    one.hide(rows, positions, turn)
    rows, positions = ((state.order > 0) & changed.unsqueeze(1)).nonzero(as_tuple=True)
    parts = (part[rows, positions] for part in (state.tokens, state.probability, state.order))
    one.write(rows, positions, *parts)
