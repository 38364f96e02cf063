"""MDLM's sampler as it was published (Sahoo et al., arXiv 2406.07524; code: ddpm_cache), kept as a specimen.

It differs from ancestral sampling, whose law it means to have, in four ways:

    one race     argmax_v q_v / (1e-10 - log(u_v + 1e-10)) in float32, q = (move_t - move_s) p for the tokens and move_s
                 for the mask, u from the grid of 2^-24: what has less than about 6e-8 is drawn too rarely, which is
                 more of the tokens the more rounds there are (arXiv 2409.02908)
    eps          move runs from 1 to 1e-5, not to 0
    last argmax  what is still hidden then is filled by argmax, in one more evaluation of every row ("noise removal")
    batch cache  marginals are kept from one round to the next unless any row of the batch has changed; otherwise all
                 rows of the batch are evaluated again, complete ones too

So evaluations depend on who shares a batch: rows whose numbers agree after division by `batch`, as far as they are
filled together. Tokens do not. batch=1 counts per row. Evaluations are those that the published code pays for; ours
computes rows that are complete no more (`rows_computed`). Its race needs the probabilities of all symbols at once.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Luck, Stream
from unmask.samplers.contract import SAMPLERS, Sampler
from unmask.samplers.session import Session

EPS = 1e-5
CLAMP = 1e-10
GRID = 2.0**-24


@SAMPLERS.register("as-published-mdlm")
@dataclass(frozen=True)
class AsPublishedMDLM(Sampler):
    """MDLM's own code as a specimen: float32 race, final argmax, one cache a batch."""

    batch: int = 16

    def __post_init__(self) -> None:
        arguments.whole("batch", self.batch, 1)

    def run(self, session: Session) -> None:
        canvas, vocabulary = session.canvas, session.denoiser.vocabulary
        _, batch = (session.luck.row_ids // self.batch).unique(return_inverse=True)
        changed = torch.ones(len(batch), dtype=torch.bool)
        move = 1 - (1 - EPS) * torch.nn.functional.pad(session.delta.cumsum(0), (1, 0))
        steps = len(session.delta)
        for k in range(steps + 1):
            canvas.recompute(changed)
            time = None if canvas.time_free else torch.full((len(batch),), 1 - k * (1 - EPS) / steps)
            rows, positions = canvas.hidden.nonzero(as_tuple=True)
            said = canvas.at(rows, positions, time)
            if k == steps:
                tokens = said.dense().argmax(-1)
            else:
                p = said.dense()
                weights = torch.cat([p * (move[k] - move[k + 1]), move[k + 1].expand(len(p), 1)], -1)
                tokens = race(weights.float(), coarse(session.luck, rows, positions, k, vocabulary + 1))
            new = (tokens < vocabulary).nonzero().squeeze(1)
            rows, positions, tokens = rows[new], positions[new], tokens[new]
            session.write(rows, positions, tokens, said[new].of(tokens), k + 1)
            late = k == steps - 1 or not canvas.time_free  # the last look is always a new one
            changed = torch.isin(batch, batch[rows]) | late


def race(weights: Tensor, u: Tensor) -> Tensor:
    """The winner (K) of weights (K, C), as published."""
    return (weights / (CLAMP - (u + CLAMP).log())).argmax(-1)


def coarse(luck: Luck, rows: Tensor, positions: Tensor, turn: int, symbols: int) -> Tensor:
    """(K, symbols) float32 uniforms as torch.rand makes them, keyed by place, symbol and round."""
    places = positions.unsqueeze(1) * symbols + torch.arange(symbols)
    fine = luck.uniform(Stream.TOKEN, rows.unsqueeze(1), places, turn)
    return (torch.floor(fine / GRID) * GRID).float()
