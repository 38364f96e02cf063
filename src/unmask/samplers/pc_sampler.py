"""PC-sampler (arXiv 2508.13021): sure, early, and no token that stands everywhere.

Each round reveals as many positions as the schedule gives, those with the highest

    e^(-decay i) min(most, -p log f),   p = max_v p(v), f the frequency of that symbol, i the position

by their logarithms: in float32 all of it is 0 from position 420 on. So a likely but common symbol, such as the end of
a text, waits. The paper counts f in a corpus: frequencies=FILE.npy has V counts. Without a file f is what the denoiser
says of the place where nothing is revealed: one more evaluation of each row and block, which is counted; of a language
it is the symbol's frequency there. What f does not know has 1e-9. Tokens are drawn after the choice, which at
temperature 0, the paper's, is what the published code does; at others it draws first and scores what it drew. `decay`
and `most` are the paper's usual 0.25 and 10; the defaults of its code are 1 and 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.denoisers import Marginals
from unmask.denoisers.marginals import joined
from unmask.samplers.contract import SAMPLERS, Choice
from unmask.samplers.ranking import ChoosesFirst, chosen
from unmask.samplers.view import View

RARE = 1e-9


@SAMPLERS.register("pc-sampler")
@dataclass(frozen=True)
class PCSampler(ChoosesFirst):
    """PC-sampler: confidence times position, less for tokens that are frequent anywhere."""

    decay: float = 0.25
    most: float = 10.0
    frequencies: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.number("decay", self.decay)
        arguments.number("most", self.most, above=True)
        if self.frequencies:
            counted(self.frequencies)

    def choose(self, view: View) -> Choice:
        surprise = view.confidence * -self._frequency(view).clamp(min=RARE).log()
        place = torch.arange(view.hidden.shape[1])  # a block's first one counts for all
        scores = surprise.clamp(RARE, self.most).log() - self.decay * place
        return chosen(view, self.surest(view, view.hidden, scores, view.count.unsqueeze(1)), self.temperature)

    def _frequency(self, view: View) -> Tensor:
        """(B, L) of the most likely symbols, 1 where nothing may be revealed."""
        out = torch.ones(view.hidden.shape, dtype=torch.float64)
        if self.frequencies:
            share = counted(self.frequencies)
            if len(share) != view.canvas.vocabulary:
                what = f"{self.frequencies} has {len(share)} counts; the denoiser has {view.canvas.vocabulary} symbols"
                raise UnmaskError(f"{what}. Give a count for each of them")
            out[view.places] = share[view.marginals.best]
            return out
        blank, at = self._blank(view)
        out[view.places] = blank[at[view.places] - 1].of(view.marginals.best)
        return out

    def _blank(self, view: View) -> tuple[Marginals, Tensor]:
        """What is said where nothing is revealed, and which of it (B, L) a place has, from 1.

        It is asked where a block begins; of rows that are within theirs it is kept."""
        at = view.memory.get("blank at", torch.zeros_like(view.tokens))
        asked, kept = view.hidden & (at == 0), (at > 0) & view.canvas.hidden
        places, positions = asked.nonzero(as_tuple=True)
        if len(places):
            rows, contexts = places.unique_consecutive(return_inverse=True)
            inside = torch.arange(at.shape[1]) < view.canvas.lengths[rows].unsqueeze(1)
            tokens = torch.where(inside, view.canvas.vocabulary, view.tokens[rows])
            time = None if view.canvas.time_free else torch.ones(len(rows), dtype=torch.float64)
            said = view.canvas.ask(tokens, rows, positions, time, contexts)
            if bool(kept.any()):
                said = joined([view.memory["blank"][at[kept] - 1], said])
            at = torch.zeros_like(at).masked_scatter_(kept, torch.arange(1, len(said) + 1))
            at[asked] = torch.arange(len(said) - len(places), len(said)) + 1
            view.memory.update({"blank": said, "blank at": at})
        return view.memory["blank"], at


@cache
def counted(path: str) -> Tensor:
    """(V) float64: the shares of the counts in a file."""
    try:
        counts = torch.from_numpy(np.load(path, allow_pickle=False)).double()
    except (OSError, ValueError, TypeError) as error:
        raise UnmaskError(
            f"{path} holds no counts: {error}. Give an .npy file with a number for each symbol"
        ) from error
    if counts.dim() != 1 or not bool((counts >= 0).all()) or not bool(0 < counts.sum() < torch.inf):
        raise UnmaskError(f"{path} holds {tuple(counts.shape)} numbers; expected (V) counts, 0 or more, not all 0")
    return counts / counts.sum()
