"""DiffusionGemma's sampler as published: uniform noise, but not its exact reverse step.

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
from typing import Annotated

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Stream
from unmask.denoisers import Marginals, Table
from unmask.denoisers.noise import emitted
from unmask.samplers.contract import SAMPLERS, Sampler
from unmask.samplers.rules.uniform import Even, answer_at, begin, exchange
from unmask.samplers.schedules import Schedule
from unmask.samplers.session import Session


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
