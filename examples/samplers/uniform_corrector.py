"""Uniform noise with correctors: single tokens are drawn again between the steps, given all others (theory.md 13).

Between two steps of `uniform-ancestral`, at level a, `correctors` times: one random position i of each row is drawn
again from a r_i + (1 - a) / V, r_i its posterior given all other tokens. This preserves the distribution q_a of the
level, so it repairs what a step has drawn together.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import MAX_VISIT, Stream
from unmask.denoisers import Denoiser
from unmask.samplers import Session
from unmask.samplers.rules.uniform import UniformAncestral, draw, of_every, predicted, transitions


@dataclass(frozen=True)
class UniformCorrector(UniformAncestral):
    """Uniform noise with correctors: single tokens are drawn again between the steps, given all others."""

    correctors: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.whole("correctors", self.correctors, 0, MAX_VISIT // 2)

    def between(self, session: Session, level: float, step: int) -> None:
        rows = session.hidden.any(1).nonzero().squeeze(1)
        for visit in range(step * self.correctors, (step + 1) * self.correctors) if len(rows) else ():
            score = session.rng.grid(Stream.ORDER, session.hidden.shape[1], visit)
            positions = torch.where(session.hidden, score, -1.0).argmax(1)[rows]
            alone = predicted(session, rows, positions, level)
            draw(session, rows, positions, level * alone + (1 - level) / alone.shape[1], step)

    def corrected(self, p: Tensor, denoiser: Denoiser, every: Tensor, level: float) -> Tensor:
        """(V^L): the probabilities p after the correctors, for the claimed distribution."""
        stays = torch.nn.functional.one_hot(every, denoiser.vocabulary).double()
        alone = level * of_every(denoiser, every, level) + (1 - level) / denoiser.vocabulary
        places = torch.arange(every.shape[1]).view(-1, 1)
        one = [transitions(torch.where(places == j, alone, stays), every) for j in range(len(places))]
        matrix = torch.stack(one).mean(0)
        for _ in range(self.correctors):
            p = p @ matrix
        return p
