"""PC-sampler (arXiv 2508.13021): confident, early positions, and no token that is frequent everywhere.

Each step reveals the schedule's number of positions, those with the highest

    e^(-decay i) min(most, -p log f),   p = max_v p(v), f the frequency of that symbol, i the position

by the logarithm: in float32 the product is 0 from position 420 on. So a likely but common symbol, such as the end of a
text, waits. The paper counts f in a corpus: frequencies=FILE.npy has V counts. Without a file f is the marginal of the
position with nothing revealed: one more model call for each row and block. For a language it is the frequency of the
symbol at that position. Symbols without a frequency have 1e-9. Tokens are drawn after the choice; at temperature 0, the
paper's, the published code does the same, at others it draws first and scores the drawn tokens. `decay` and `most` are
the paper's usual 0.25 and 10; the defaults of its code are 1 and 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from unmask import UnmaskError
from unmask.core import arguments
from unmask.denoisers import Marginals, joined
from unmask.samplers import Choice, ChoosesFirst, View, chosen

RARE = 1e-9


@dataclass(frozen=True)
class PCSampler(ChoosesFirst):
    """PC-sampler: confidence times position, lower for tokens that are frequent everywhere."""

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
        place = torch.arange(view.hidden.shape[1])  # the offset of a block cancels
        scores = surprise.clamp(RARE, self.most).log() - self.decay * place
        return chosen(view, self.surest(view, view.hidden, scores, view.count.unsqueeze(1)), self.temperature)

    def _frequency(self, view: View) -> Tensor:
        """(B, L) frequencies of the most likely symbols, 1 where not hidden."""
        out = torch.ones(view.hidden.shape, dtype=torch.float64)
        if self.frequencies:
            frequency = counted(self.frequencies)
            if len(frequency) != view.canvas.vocabulary:
                problem = f"{self.frequencies} has {len(frequency)} counts"
                raise UnmaskError(f"{problem}; expected {view.canvas.vocabulary}, one for each symbol of the denoiser")
            out[view.places] = frequency[view.marginals.best]
            return out
        blank, at = self._blank(view)
        out[view.places] = blank[at[view.places] - 1].of(view.marginals.best)
        return out

    def _blank(self, view: View) -> tuple[Marginals, Tensor]:
        """The marginals with nothing revealed, and the index (B, L) of each position in them, from 1.

        They are computed where a block begins, and reused within it."""
        at = view.memory.get("blank at", torch.zeros_like(view.tokens))
        new, old = view.hidden & (at == 0), (at > 0) & view.canvas.hidden
        places, positions = new.nonzero(as_tuple=True)
        if len(places):
            rows, contexts = places.unique_consecutive(return_inverse=True)
            inside = torch.arange(at.shape[1]) < view.canvas.lengths[rows].unsqueeze(1)
            tokens = torch.where(inside, view.canvas.vocabulary, view.tokens[rows])
            time = None if view.canvas.time_free else torch.ones(len(rows), dtype=torch.float64)
            blank = view.canvas.ask(tokens, rows, positions, time, contexts)
            if bool(old.any()):
                blank = joined([view.memory["blank"][at[old] - 1], blank])
            at = torch.zeros_like(at).masked_scatter_(old, torch.arange(1, len(blank) + 1))
            at[new] = torch.arange(len(blank) - len(places), len(blank)) + 1
            view.memory.update({"blank": blank, "blank at": at})
        return view.memory["blank"], at


@cache
def counted(path: str) -> Tensor:
    """(V) float64: the counts in a file, normalised."""
    expected = "an .npy file with V counts, 0 or more, not all 0"
    try:
        counts = torch.from_numpy(np.load(path, allow_pickle=False)).double()
    except (OSError, ValueError, TypeError) as error:
        raise UnmaskError(f"{path} has no counts: {error}; expected {expected}") from error
    if counts.dim() != 1 or not bool((counts >= 0).all()) or not bool(0 < counts.sum() < torch.inf):
        raise UnmaskError(f"{path} has {tuple(counts.shape)} numbers; expected {expected}")
    return counts / counts.sum()
