"""Gibbs sweeps (theory.md 10): after a base sampler, positions are hidden again and redrawn given all others.

    for each of `sweeps`: for each position from left to right: hide x_j, draw it from p(. | x_-j)

With an ideal denoiser each draw preserves the language's distribution, so sweeps bring any base closer to it; an
impossible sequence may stay impossible. `stride` s > 0 redraws the positions j = k mod s together, for k = 0..s-1: this
is exact if positions s apart are independent given the rest. Each draw of a row is a model call: L or s per sweep.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch

from unmask.core import arguments
from unmask.core.chance import MAX_VISIT
from unmask.samplers.contract import CANVAS, SAMPLERS, Places, Reads, Sampler, check_inner, inner_of
from unmask.samplers.loops import fill
from unmask.samplers.session import Session


@SAMPLERS.register("gibbs")
@dataclass(frozen=True)
class Gibbs(Sampler):
    """Another sampler, then sweeps that hide each position again and redraw it given all others."""

    inner: str | Sampler = "ancestral"
    sweeps: Annotated[int, partial(arguments.whole, least=0, most=MAX_VISIT // 2)] = 1
    stride: Places = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_inner(self)

    @property
    def reads(self) -> frozenset[Reads]:
        return inner_of(self).reads | CANVAS

    @property
    def revises(self) -> bool:
        return True

    @property
    def chooses_before_drawing(self) -> bool:
        return inner_of(self).chooses_before_drawing

    def run(self, session: Session) -> None:
        fill(inner_of(self), session)
        session.planned = False
        canvas = session.canvas
        drawn = session.hidden & ~session.settled.unsqueeze(1)
        last = session.order.amax(1)
        size = drawn.shape[1]
        time = session.denoiser.time_at(1 / size, len(drawn))

        stride = min(self.stride or size, size)
        groups = [torch.arange(k, size, stride) for k in range(stride)]
        groups = [group for group in groups if bool(drawn[:, group].any())]
        for _ in range(self.sweeps):
            for group in groups:
                rows, columns = drawn[:, group].nonzero(as_tuple=True)
                positions = group[columns]
                last = last + drawn[:, group].any(1)
                session.hide(rows, positions, last[rows])

                marginals = canvas.at(rows, positions, time)
                tokens = canvas.draw(marginals, rows, positions)
                session.write(rows, positions, tokens, marginals.of(tokens), last[rows])
