"""Particle Gibbs (PG-DLM, arXiv 2507.08390v2): draw several whole trajectories, and keep one as the next reference.

A sweep has K trajectories of ancestral sampling in N steps; one is that of the sweep before. After each step the others
are resampled from all K by weights; after the last step one of the K is kept, by weight:

    reward   w = exp((r(x') - r(x)) / beta),  x before the step and x' after it: towards p(x) exp(r(x) / beta)
    none     w = q(x') / q(x) / prod_j p(x'_j | x),  j the positions of the step: towards the language q itself

reward is a function of tokens (B, L), V where hidden, that returns nats (B). The paper estimates r of a partly hidden
row by completing it; your function may do the same. Without reward the language of the denoiser gives q of the revealed
tokens; networks have no such q. A sweep preserves its target distribution for any number of particles from 2. The first
sweep has no reference yet, and approaches the target as particles are added. Model calls of every particle count,
except for the reference, which was counted before. With one particle this is the ancestral sampler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from unmask import UnmaskError
from unmask.core import arguments
from unmask.core.chance import MAX_SEED, MAX_VISIT, Stream, categorical
from unmask.samplers import Sampler, Session
from unmask.samplers.rules.fixed_orders import Ancestral

APART = 0x9E3779B97F4A7C15  # the golden ratio in 64 bits: far from the distance of any two seeds that users pick


class Trajectory(NamedTuple):
    """One trajectory per row: tokens, the step and probability of each, and the planned steps."""

    tokens: Tensor  # (B, L), V where hidden
    order: Tensor  # (B, L), 0 where hidden
    probability: Tensor  # (B, L)
    plan: Tensor  # (B, L): steps 1..N


@dataclass(frozen=True)
class ParticleGibbs(Sampler):
    """Trajectories in parallel, weighted after each step; the kept one competes with new ones in each sweep."""

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
        reference = None
        for sweep in range(self.sweeps):
            reference = self._sweep(session, sweep, reference)
        assert reference is not None
        rows, positions = session.hidden.nonzero(as_tuple=True)
        parts = (part[rows, positions] for part in (reference.tokens, reference.probability, reference.order))
        session.write(rows, positions, *parts)

    def _sweep(self, session: Session, sweep: int, reference: Trajectory | None) -> Trajectory:
        """The trajectories that one sweep keeps, given those of the sweep before."""
        rows, steps, seed = torch.arange(len(session.given)), len(session.delta), session.rng.seed
        numbers = range(sweep * self.particles + 1, (sweep + 1) * self.particles + 1)
        tries = [session.attempt(rows, (seed + number * APART) % MAX_SEED) for number in numbers]
        plans = [Ancestral().order(session.delta, session.hidden, one.rng) for one in tries]
        if reference is not None:
            plans[0] = reference.plan
        before = self._value(session, session.given).expand(len(tries), -1)
        for turn in range(1, steps + 1):
            paid = []
            for number, (one, plan) in enumerate(zip(tries, plans, strict=True)):
                row, position = (plan == turn).nonzero(as_tuple=True)
                if reference is not None and number == 0:
                    tokens, chance = reference.tokens[row, position], reference.probability[row, position]
                else:
                    time = torch.full((len(rows),), 1 - (turn - 1) / steps, dtype=torch.float64)
                    marginals = one.canvas.at(row, position, None if session.denoiser.time_free else time)
                    tokens = one.canvas.draw(marginals, row, position)
                    chance = marginals.of(tokens)
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
                if reference is not None and number == 0:
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
        """(B) nats: the reward over beta, or log q of the revealed tokens."""
        if self.reward is not None:
            return self.reward(tokens).double() / self.beta
        language = session.denoiser.language
        if language is None:
            problem = f"particle-gibbs weighs sequences by a language; {session.denoiser.name} has none"
            raise UnmaskError(f"{problem}. Pass reward=, a function of tokens (B, L).")
        value = torch.zeros(len(tokens), dtype=torch.float64)
        lengths = session.valid.sum(1)
        for size in lengths.unique().tolist():
            rows = (lengths == size).nonzero().squeeze(1)
            value[rows] = language.log_evidence(tokens[rows, :size].contiguous())
        return value

    def _weights(self, now: Tensor, before: Tensor, paid: Tensor) -> Tensor:
        """(B, K): weights of each row's particles, equal if none is possible."""
        gained = now - before - (0 if self.reward is not None else paid)
        gained = torch.where(gained.isnan(), -torch.inf, gained)
        dead = (gained == -torch.inf).all(0)
        return torch.where(dead, 0.0, gained).T.contiguous().softmax(1)

    def _drawn(self, session: Session, weights: Tensor, number: int, turn: int) -> Tensor:
        """(B): one particle each, by the weights."""
        rows = torch.arange(len(weights))
        return categorical(weights, session.rng.uniform(Stream.ACCEPT, rows, torch.tensor(number), turn))


def _picked(states: list[Trajectory], which: Tensor) -> Trajectory:
    """The trajectory of one particle (B) for each row."""
    rows = torch.arange(len(which))
    return Trajectory(*(torch.stack(parts)[which, rows] for parts in zip(*states, strict=True)))


def _become(one: Session, state: Trajectory, changed: Tensor, turn: int) -> None:
    """Replace these rows, Bool (B), of a particle's session by the trajectory."""
    if not bool(changed.any()):
        return
    rows, positions = ((one.order > 0) & changed.unsqueeze(1)).nonzero(as_tuple=True)
    one.hide(rows, positions, turn)
    rows, positions = ((state.order > 0) & changed.unsqueeze(1)).nonzero(as_tuple=True)
    parts = (part[rows, positions] for part in (state.tokens, state.probability, state.order))
    one.write(rows, positions, *parts)
