"""Denoisers that modify each marginal of another denoiser."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from unmask.denoisers.contracts import Causal, Cost, Engine
from unmask.denoisers.denoiser import Denoiser, checked
from unmask.denoisers.marginals import Marginals, as_marginals
from unmask.denoisers.stateless import followed


class Reshaped(Denoiser, ABC):
    """Another denoiser with `reshape` applied to its marginals at hidden positions."""

    def __init__(self, inner: Denoiser) -> None:
        self.inner = checked(inner)
        self.vocabulary, self.language, self.grid = self.inner.vocabulary, self.inner.language, self.inner.grid
        self.removes = self.inner.removes
        self.time_free, self.calls, self.concurrent = self.inner.time_free, self.inner.calls, self.inner.concurrent

    @abstractmethod
    def reshape(self, marginals: Marginals, positions: Tensor) -> Marginals | Tensor:
        """Return the modified marginals at positions (K): Marginals, or probabilities (K, V)."""

    def options(self) -> Mapping[str, Any]:
        """The options of the modification, for `source`."""
        return {}

    @property
    def name(self) -> str:
        return f"{type(self).__name__} of {self.inner.name}"

    def source(self) -> dict[str, Any]:
        return super().source() | dict(self.options()) | {"of": self.inner.source()}

    def engine(self, tokens: Tensor, given: Tensor | None = None, valid: Tensor | None = None) -> Engine:
        return ReshapedEngine(self, tokens, given, valid)

    def causal(self, rows: int, length: int, valid: Tensor | None = None) -> Causal:
        return ReshapedCausal(self, rows, length, valid)

    def rows_at_once(self, length: int) -> int | None:
        return self.inner.rows_at_once(length)


class ReshapedEngine(Engine):
    def __init__(self, denoiser: Reshaped, tokens: Tensor, given: Tensor | None, valid: Tensor | None) -> None:
        super().__init__(tokens)
        self.denoiser = denoiser
        self.inner = denoiser.inner.engine(tokens, given, valid)

    def renew(self, rows: Tensor, positions: Tensor) -> None:
        self.inner.renew(rows, positions)

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Tensor | Marginals:
        return self.denoiser.reshape(as_marginals(self.inner.at(rows, positions, time)), positions)

    @property
    def hollow(self) -> bool:
        return self.inner.hollow

    def dead(self) -> Tensor | None:
        return self.inner.dead()

    @property
    def positions(self) -> Tensor | None:
        return self.inner.positions

    @property
    def spent(self) -> Cost:
        return self.inner.spent


class ReshapedCausal(Causal):
    def __init__(self, denoiser: Reshaped, rows: int, length: int, valid: Tensor | None) -> None:
        self.denoiser, self.length = denoiser, length
        self.inner = denoiser.inner.causal(rows, length, valid)
        self.lengths = torch.full((rows,), -1)

    @property
    def model_calls(self) -> Tensor:
        return self.inner.model_calls

    @property
    def positions(self) -> Tensor:
        return self.inner.positions

    @property
    def spent(self) -> Cost:
        return self.inner.spent

    def extend(
        self, tokens: Tensor, counts: Tensor | None = None, selected: Tensor | None = None
    ) -> Tensor | Marginals:
        counts = torch.full((len(tokens),), tokens.shape[1]) if counts is None else counts
        rows, steps = followed(self.lengths, counts, tokens.shape[1], self.length, selected).nonzero(as_tuple=True)
        positions = self.lengths[rows] + 1 + steps
        self.lengths = self.lengths + counts
        return self.denoiser.reshape(as_marginals(self.inner.extend(tokens, counts, selected)), positions)

    def rewind(self, lengths: Tensor) -> None:
        self.inner.rewind(lengths)
        self.lengths = torch.minimum(self.lengths, lengths)
