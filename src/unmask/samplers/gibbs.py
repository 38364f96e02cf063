"""Gibbs re-draws (theory.md 10): after a base sampler, positions are hidden again and drawn given all others.

    for each of `sweeps`: for each position from left to right: hide x_j, draw it from p(. | x_-j)

Each draw keeps the language's law where the denoiser is ideal, so that sweeps bring any base closer to it; one that was
impossible before may stay so. `stride` s > 0 redraws the positions j = k mod s together, for k = 0..s-1: exact where
positions s apart do not depend on each other given the rest. Each draw of a row is an evaluation: L a sweep, or s.
"""

from dataclasses import dataclass

import torch

from unmask.core import arguments
from unmask.core.chance import MAX_VISIT
from unmask.samplers import checks
from unmask.samplers.contract import CANVAS, SAMPLERS, Reads, Sampler
from unmask.samplers.loops import fill
from unmask.samplers.session import Session


@SAMPLERS.register("gibbs")
@dataclass(frozen=True)
class Gibbs(Sampler):
    """Another sampler, then sweeps that hide each position again and redraw it given all others."""

    inner: str | Sampler = "ancestral"
    sweeps: int = 1
    stride: int = 0

    def __post_init__(self) -> None:
        arguments.whole("sweeps", self.sweeps, 0, MAX_VISIT // 2)
        arguments.whole("stride", self.stride, 0, arguments.MOST_LENGTH)
        checks.inner(self)

    @property
    def reads(self) -> frozenset[Reads]:
        return checks.made(self.inner).reads | CANVAS

    @property
    def revises(self) -> bool:
        return True

    def run(self, session: Session) -> None:
        fill(checks.made(self.inner), session)
        session.planned = False
        canvas, made = session.canvas, session.hidden & ~session.settled.unsqueeze(1)
        last = session.order.amax(1)
        size = made.shape[1]
        time = None if canvas.time_free else torch.full((len(made),), 1 / size, dtype=torch.float64)
        stride = min(self.stride or size, size)
        groups = [group for k in range(stride) if bool(made[:, group := torch.arange(k, size, stride)].any())]
        for _ in range(self.sweeps):
            for group in groups:
                rows, columns = made[:, group].nonzero(as_tuple=True)
                positions = group[columns]
                last = last + made[:, group].any(1)
                session.hide(rows, positions, last[rows])
                said = canvas.at(rows, positions, time)
                tokens = canvas.draw(said, rows, positions)
                session.write(rows, positions, tokens, said.of(tokens), last[rows])
