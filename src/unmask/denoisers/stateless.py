"""Engines for any denoiser that can only answer from scratch: each row is evaluated again when it has changed."""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.denoisers.contracts import Denoiser


class StatelessEngine:
    """Keeps the last marginals (B, L, V) of each row and recomputes those of the rows that have changed."""

    def __init__(self, denoiser: Denoiser, tokens: Tensor) -> None:
        self.denoiser = denoiser
        self.tokens = tokens
        self.stale = torch.ones(len(tokens), dtype=torch.bool, device=tokens.device)
        self.marginals: Tensor | None = None

    def renew(self, rows: Tensor, positions: Tensor) -> None:
        self.stale[rows] = True

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Tensor:
        return self._current(rows, time)[rows, positions]

    def over(self, window: slice, time: Tensor | None) -> Tensor:
        return self._current(torch.arange(len(self.tokens), device=self.tokens.device), time)[:, window]

    def dead(self) -> None:
        return None

    def _current(self, rows: Tensor, time: Tensor | None) -> Tensor:
        wanted = rows.unique()
        if self.denoiser.time_free:
            wanted = wanted[self.stale[wanted]]
        if len(wanted):
            computed = self.denoiser.posterior(self.tokens[wanted], time=None if time is None else time[wanted])
            if self.marginals is None:
                self.marginals = computed.new_empty((*self.tokens.shape, computed.shape[-1]))
            self.marginals[wanted] = computed
            self.stale[wanted] = False
        assert self.marginals is not None
        return self.marginals


class PrefixCausal:
    """Any denoiser as a causal reader: the marginal at the first hidden position, one evaluation a read prefix."""

    def __init__(self, denoiser: Denoiser, rows: int, length: int) -> None:
        self.vocabulary = denoiser.vocabulary
        self.tokens = torch.full((rows, length), self.vocabulary)
        self.lengths = torch.full((rows,), -1)
        self.evaluations = torch.zeros(rows, dtype=torch.int64)
        self.forwards = 0
        self._engine = denoiser.engine(self.tokens)

    def extend(self, tokens: Tensor, counts: Tensor | None = None) -> Tensor:
        rows, width = tokens.shape
        counts = torch.full((rows,), width) if counts is None else counts
        self.evaluations += counts > 0
        self.forwards += 1
        out = torch.zeros((rows, width, self.vocabulary), dtype=torch.float64)
        for k in range(width):
            active = (counts > k).nonzero().squeeze(1)
            places = self.lengths[active]
            written = places >= 0
            self._write(active[written], places[written], tokens[active[written], k])
            self.lengths[active] += 1
            asked = active[self.lengths[active] < self.tokens.shape[1]]
            if len(asked):
                out[asked, k] = self._engine.at(asked, self.lengths[asked], None).double()
        return out

    def rewind(self, lengths: Tensor) -> None:
        positions = torch.arange(self.tokens.shape[1])
        rows, places = ((positions >= lengths.unsqueeze(1)) & (self.tokens != self.vocabulary)).nonzero(as_tuple=True)
        self._write(rows, places, self.vocabulary)
        self.lengths = torch.minimum(self.lengths, lengths)

    def _write(self, rows: Tensor, positions: Tensor, tokens: Tensor | int) -> None:
        self.tokens[rows, positions] = tokens
        self._engine.renew(rows, positions)
