"""MDLM's sampler as published (Sahoo et al., arXiv 2406.07524; code: ddpm_cache), as a reference.

It differs from ancestral sampling, its intended distribution, in four ways:

    one race     argmax_v q_v / (1e-10 - log(u_v + 1e-10)) in float32, q = (move_t - move_s) p for the tokens and move_s
                 for the mask, u from the grid of 2^-24: probabilities below about 6e-8 are drawn too rarely, which
                 concerns more tokens the more steps there are (arXiv 2409.02908)
    eps          move runs from 1 to 1e-5, not to 0
    last argmax  the positions left are filled by argmax, in one more model call for every row ("noise removal")
    batch cache  marginals are reused in the next step unless any row of the batch has changed; otherwise all rows of
                 the batch are computed again, also complete ones

So model calls depend on the rows of a batch: rows with equal numbers after division by `batch`, if they are filled
together. Tokens do not depend on it. batch=1 counts per row. Model calls are those of the published code; our code does
not compute complete rows (`rows_computed`). The race needs the probabilities of all symbols at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Randomness, Stream
from unmask.samplers.contract import SAMPLERS, Sampler
from unmask.samplers.session import Session

EPS = 1e-5
CLAMP = 1e-10
GRID = 2.0**-24


@SAMPLERS.register("as-published-mdlm")
@dataclass(frozen=True)
class AsPublishedMDLM(Sampler):
    """MDLM's own code as a reference: float32 race, final argmax, one cache per batch."""

    batch: Annotated[int, arguments.whole] = 16

    def run(self, session: Session) -> None:
        canvas, vocabulary = session.canvas, session.denoiser.vocabulary
        _, batch = (session.rng.row_ids // self.batch).unique(return_inverse=True)

        changed = torch.ones(len(batch), dtype=torch.bool)
        move = 1 - (1 - EPS) * torch.nn.functional.pad(session.delta.cumsum(0), (1, 0))
        steps = len(session.delta)

        for k in range(steps + 1):
            canvas.recompute(changed)
            time = None if canvas.time_free else torch.full((len(batch),), 1 - k * (1 - EPS) / steps)
            rows, positions = canvas.hidden.nonzero(as_tuple=True)
            marginals = canvas.at(rows, positions, time)
            p = marginals.dense()

            if k == steps:
                tokens = p.argmax(-1)
            else:
                weights = torch.cat([p * (move[k] - move[k + 1]), move[k + 1].expand(len(p), 1)], -1)
                tokens = race(weights.float(), coarse(session.rng, rows, positions, k, vocabulary + 1))

            new = (tokens < vocabulary).nonzero().squeeze(1)
            rows, positions, tokens = rows[new], positions[new], tokens[new]
            session.write(rows, positions, tokens, marginals[new].of(tokens), k + 1)

            late = k == steps - 1 or not canvas.time_free  # the last model call always counts
            changed = torch.isin(batch, batch[rows]) | late


def race(weights: Tensor, u: Tensor) -> Tensor:
    """The winner (K) of weights (K, C), as published."""
    return (weights / (CLAMP - (u + CLAMP).log())).argmax(-1)


def coarse(rng: Randomness, rows: Tensor, positions: Tensor, turn: int, symbols: int) -> Tensor:
    """(K, symbols) float32 uniforms like torch.rand's, keyed by position, symbol and step."""
    places = positions.unsqueeze(1) * symbols + torch.arange(symbols)
    fine = rng.uniform(Stream.TOKEN, rows.unsqueeze(1), places, turn)
    return (torch.floor(fine / GRID) * GRID).float()
