"""Samplers with the faults of published loops that have no other form: coarse and shared races, other reverse steps.

Published loops draw by a race: argmax_v w_v / E_v with E = -log u draws v in proportion to w_v (theory.md 10). With u
on a grid of 2^-bits, E has no value between 0 and 2^-bits, so symbols that need such a value are drawn too rarely. With
uniforms of other positions or steps, tokens depend on each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from unmask.core.chance import Drawable, Randomness, Stream, uniform
from unmask.denoisers import Marginals, Table
from unmask.denoisers.contracts import emitted, reverse
from unmask.diagnosis.audit.changes import filtered
from unmask.samplers import Sampler, Session
from unmask.samplers.rules.uniform import UniformAncestral
from unmask.samplers.schedules import Schedule

FINE = 52  # bits of the uniforms of `chance`
BFLOAT16, FLOAT32 = 8, 24  # bits of torch.rand in these types


@dataclass(frozen=True)
class PlugIn(UniformAncestral):
    """The reverse step with q(x_i | y) in place of r."""

    def mu(self, alone: Tensor, tokens: Tensor, before: float, after: float) -> Tensor:
        full = emitted(alone, tokens, before)
        return reverse(full / full.sum(1, keepdim=True), tokens, before, after)


@dataclass(frozen=True)
class EarlyLevels(UniformAncestral):
    """Levels off by one: the reverse step from a_k to a_(k+1) uses r at a_(k+1), or just below 1."""

    def level(self, before: float, after: float) -> float:
        return min(after, (1 + before) / 2)


def race(weights: Tensor, u: Tensor, bits: int) -> Tensor:
    """(K): winner of each race with weights (K, C) and uniforms (K, C)."""
    if bits < FINE:
        u = torch.floor(u * 2**bits) * 2.0**-bits
    return (weights / -torch.log(u.clamp(min=1e-10))).argmax(-1)


def uniforms(rng: Randomness, rows: Tensor, positions: Tensor, visits: Tensor | int, symbols: int) -> Tensor:
    """(K, symbols), keyed by position, visit and symbol."""
    keys = positions.unsqueeze(1) * symbols + torch.arange(symbols)
    when = visits.unsqueeze(1) if isinstance(visits, Tensor) else visits
    return uniform(rng.seed, Stream.TOKEN, rng.row_ids[rows].unsqueeze(1), keys, when)


@dataclass(frozen=True)
class RaceRandomness(Randomness):
    """Randomness that draws tokens by a race: with coarse uniforms, or shared by all positions or all steps."""

    bits: int = FINE
    shared: str = ""
    drawn: list[int] = field(default_factory=list)  # number of positions of each draw so far
    reshape: Callable[[Marginals], Tensor] | None = None  # changes the probabilities that it draws from

    def tokens(self, marginals: Drawable, rows: Tensor, positions: Tensor, visits: Tensor) -> Tensor:
        assert isinstance(marginals, Marginals)
        when: Tensor | int = visits[rows, positions]
        if self.shared == "positions":
            positions, when = torch.zeros_like(positions), len(self.drawn)
        elif self.shared == "steps":
            when = 0
        u = uniforms(self, rows, positions, when, marginals.vocabulary)
        visits[rows, positions] += 1
        self.drawn.append(len(rows))
        return race(marginals.dense() if self.reshape is None else self.reshape(marginals), u, self.bits)


@dataclass(frozen=True)
class OneShot(Sampler):
    """The step of MDLM: one race of all tokens, with weights rho_k p_v, and the mask, with weight 1 - rho_k.

    filters: those of these weights."""

    bits: int = FINE
    shared: str = ""
    filters: dict[str, Any] = field(default_factory=dict)

    def run(self, session: Session) -> None:
        canvas, vocabulary = session.canvas, session.denoiser.vocabulary
        for index, rho in enumerate(Schedule(session.delta).rho.tolist()):
            rows, positions = canvas.hidden.nonzero(as_tuple=True)
            if not len(rows):
                return
            marginals = canvas.at(rows, positions)
            weights = torch.cat([rho * marginals.dense(), torch.full((len(rows), 1), 1 - rho, dtype=torch.float64)], 1)
            weights = filtered(self.filters, Table(weights)).dense()
            places = torch.zeros_like(positions) if self.shared == "positions" else positions
            when = 0 if self.shared == "steps" else index
            won = race(weights, uniforms(session.rng, rows, places, when, vocabulary + 1), self.bits)
            shown = won < vocabulary
            if shown.any():
                rows, positions, tokens = rows[shown], positions[shown], won[shown]
                session.write(rows, positions, tokens, marginals[shown].of(tokens), index + 1)
