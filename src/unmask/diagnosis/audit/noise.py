"""Noise as strangers make it: a race among symbols, with uniforms that are too coarse or used more than once.

argmax_v w_v / E_v with E = -log u draws v in proportion to w_v (theory.md 10). With u on a grid of 2^-bits, E has no
value between 0 and 2^-bits, and what is likely to need one is drawn too rarely.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from unmask.core.chance import Drawable, Luck, Stream, uniform
from unmask.denoisers import Marginals
from unmask.samplers import Sampler, Session
from unmask.schedules import Schedule

FINE = 52  # bits: the uniforms of `chance` as they are
BFLOAT16, FLOAT32 = 8, 24  # bits of torch.rand in these types


def race(weights: Tensor, u: Tensor, bits: int) -> Tensor:
    """The winner (K) of each race with weights (K, C) and uniforms (K, C)."""
    if bits < FINE:
        u = torch.floor(u * 2**bits) * 2.0**-bits
    return (weights / -torch.log(u.clamp(min=1e-10))).argmax(-1)


def uniforms(luck: Luck, rows: Tensor, positions: Tensor, visits: Tensor | int, symbols: int) -> Tensor:
    """(K, symbols), keyed by place, visit and symbol."""
    places = positions.unsqueeze(1) * symbols + torch.arange(symbols)
    when = visits.unsqueeze(1) if isinstance(visits, Tensor) else visits
    return uniform(luck.seed, Stream.TOKEN, luck.row_ids[rows].unsqueeze(1), places, when)


@dataclass(frozen=True)
class RaceLuck(Luck):
    """Luck that draws tokens by a race: with coarse uniforms, or the same ones at all positions or in all rounds."""

    bits: int = FINE
    shared: str = ""
    drawn: list[int] = field(default_factory=list)  # places of each draw so far

    def tokens(self, marginals: Drawable, rows: Tensor, positions: Tensor, visits: Tensor) -> Tensor:
        assert isinstance(marginals, Marginals)
        when: Tensor | int = visits[rows, positions]
        if self.shared == "positions":
            positions, when = torch.zeros_like(positions), len(self.drawn)
        elif self.shared == "rounds":
            when = 0
        u = uniforms(self, rows, positions, when, marginals.vocabulary)
        visits[rows, positions] += 1
        self.drawn.append(len(rows))
        return race(marginals.dense(), u, self.bits)


@dataclass(frozen=True)
class OneShot(Sampler):
    """MDLM's step: one race of all tokens, weighing rho_k p_v, and the mask, weighing 1 - rho_k."""

    bits: int = FINE
    shared: str = ""

    def run(self, session: Session) -> None:
        canvas, vocabulary = session.canvas, session.denoiser.vocabulary
        for index, rho in enumerate(Schedule(session.delta).rho.tolist()):
            rows, positions = canvas.hidden.nonzero(as_tuple=True)
            if not len(rows):
                return
            said = canvas.at(rows, positions)
            weights = torch.cat([rho * said.dense(), torch.full((len(rows), 1), 1 - rho, dtype=torch.float64)], 1)
            places = torch.zeros_like(positions) if self.shared == "positions" else positions
            when = 0 if self.shared == "rounds" else index
            won = race(weights, uniforms(session.luck, rows, places, when, vocabulary + 1), self.bits)
            shown = won < vocabulary
            if shown.any():
                rows, positions, tokens = rows[shown], positions[shown], won[shown]
                session.write(rows, positions, tokens, said[shown].of(tokens), index + 1)
