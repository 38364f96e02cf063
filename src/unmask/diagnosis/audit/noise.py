"""Faulty noise of published loops: a race among symbols, with coarse or repeated uniform random numbers.

argmax_v w_v / E_v with E = -log u draws v in proportion to w_v (theory.md 10). With u on a grid of 2^-bits, E has no
value between 0 and 2^-bits, so symbols that need such a value are drawn too rarely.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from unmask.core.chance import Drawable, Randomness, Stream, uniform
from unmask.denoisers import Marginals
from unmask.samplers import Sampler, Session
from unmask.samplers.schedules import Schedule

FINE = 52  # bits of the uniforms of `chance`
BFLOAT16, FLOAT32 = 8, 24  # bits of torch.rand in these types


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
        return race(marginals.dense(), u, self.bits)


@dataclass(frozen=True)
class OneShot(Sampler):
    """The step of MDLM: one race of all tokens, with weights rho_k p_v, and the mask, with weight 1 - rho_k."""

    bits: int = FINE
    shared: str = ""

    def run(self, session: Session) -> None:
        canvas, vocabulary = session.canvas, session.denoiser.vocabulary
        for index, rho in enumerate(Schedule(session.delta).rho.tolist()):
            rows, positions = canvas.hidden.nonzero(as_tuple=True)
            if not len(rows):
                return
            marginals = canvas.at(rows, positions)
            weights = torch.cat([rho * marginals.dense(), torch.full((len(rows), 1), 1 - rho, dtype=torch.float64)], 1)
            places = torch.zeros_like(positions) if self.shared == "positions" else positions
            when = 0 if self.shared == "steps" else index
            won = race(weights, uniforms(session.rng, rows, places, when, vocabulary + 1), self.bits)
            shown = won < vocabulary
            if shown.any():
                rows, positions, tokens = rows[shown], positions[shown], won[shown]
                session.write(rows, positions, tokens, marginals[shown].of(tokens), index + 1)
