"""A denoiser that says what another one says, in other words: each marginal is changed by itself."""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.denoisers.contracts import Causal, Denoiser, Engine
from unmask.denoisers.exact import Exact
from unmask.languages import Language


class Reshaped:
    """Another denoiser whose marginals at hidden positions go through `reshape`, whoever reads them."""

    def __init__(self, source: Language | Denoiser) -> None:
        self.inner: Denoiser = Exact(source) if isinstance(source, Language) else source
        self.vocabulary = self.inner.vocabulary
        self.time_free = self.inner.time_free

    def reshape(self, marginals: Tensor, positions: Tensor) -> Tensor:
        """The new form of marginals (..., V) at positions (...)."""
        raise NotImplementedError

    def engine(self, tokens: Tensor) -> Engine:
        return ReshapedEngine(self, tokens)

    def causal(self, rows: int, length: int) -> Causal:
        return ReshapedCausal(self, rows, length)

    def posterior(self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        places = torch.arange(tokens.shape[1]) if positions is None else positions
        places = places.expand(len(tokens), -1)
        marginals = self.inner.posterior(tokens, positions, time)
        hidden = (tokens.gather(1, places) == self.vocabulary).unsqueeze(-1)
        return torch.where(hidden, self.reshape(marginals, places), marginals)

    def row_bytes(self, length: int) -> int:
        return self.inner.row_bytes(length)


def language_of(denoiser: Denoiser) -> Language | None:
    """The language behind an exact denoiser, however it is reshaped; None where there is none."""
    while isinstance(denoiser, Reshaped):
        denoiser = denoiser.inner
    return denoiser.language if isinstance(denoiser, Exact) else None


class ReshapedEngine:
    def __init__(self, denoiser: Reshaped, tokens: Tensor) -> None:
        self.denoiser = denoiser
        self.tokens = tokens
        self.inner = denoiser.inner.engine(tokens)

    def renew(self, rows: Tensor, positions: Tensor) -> None:
        self.inner.renew(rows, positions)

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Tensor:
        return self.denoiser.reshape(self.inner.at(rows, positions, time), positions)

    def over(self, window: slice, time: Tensor | None) -> Tensor:
        marginals = self.inner.over(window, time)
        positions = torch.arange(self.tokens.shape[1])[window].expand(marginals.shape[:2])
        hidden = (self.tokens[:, window] == self.denoiser.vocabulary).unsqueeze(-1)
        return torch.where(hidden, self.denoiser.reshape(marginals, positions), marginals)

    def dead(self) -> Tensor | None:
        return self.inner.dead()


class ReshapedCausal:
    def __init__(self, denoiser: Reshaped, rows: int, length: int) -> None:
        self.denoiser = denoiser
        self.inner = denoiser.inner.causal(rows, length)
        self.lengths = torch.full((rows,), -1)

    @property
    def evaluations(self) -> Tensor:
        return self.inner.evaluations

    @property
    def forwards(self) -> int:
        return self.inner.forwards

    def extend(self, tokens: Tensor, counts: Tensor | None = None) -> Tensor:
        counts = torch.full((len(tokens),), tokens.shape[1]) if counts is None else counts
        marginals = self.inner.extend(tokens, counts)
        positions = self.lengths.unsqueeze(1) + 1 + torch.arange(tokens.shape[1])
        self.lengths = self.lengths + counts
        asked = marginals.sum(-1, keepdim=True) > 0
        return torch.where(asked, self.denoiser.reshape(marginals, positions), marginals)

    def rewind(self, lengths: Tensor) -> None:
        self.inner.rewind(lengths)
        self.lengths = torch.minimum(self.lengths, lengths)
