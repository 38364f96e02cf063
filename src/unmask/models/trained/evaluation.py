"""Probabilities from a trunk: on its device, in batches that fit, only at the requested positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from unmask.core.chance import BLOCK
from unmask.core.errors import UnmaskError
from unmask.denoisers import Logits, Marginals, Table
from unmask.denoisers.scan import FLOAT32
from unmask.models.trained.trunk import Trunk

FEW = 4 * BLOCK  # symbols up to which probabilities are float64
TOKENS = 1024  # evaluated at once on the CPU: activations between two layers then stay in its caches
Result = TypeVar("Result")
SHAPES = 256  # compiled at most


class Evaluator:
    """`below` evaluates rows up to the last block; `states` applies the last block at some columns.

    batch: rows computed at once (default: all; on the CPU few). compiled: use torch.compile, with CUDA graphs on CUDA.
    Rows and columns are then padded to powers of two, so that few shapes occur. The distribution is the same.
    """

    def __init__(self, trunk: Trunk, batch: int | None = None, compiled: bool = False) -> None:
        self.trunk, self.batch, self.compiled = trunk, batch, compiled
        self.device, self.vocabulary = trunk.device, trunk.shape.vocabulary
        self._below, self._top, self.step = trunk.below, trunk.top, trunk.step
        if compiled:
            parts = trunk.below, trunk.top, trunk.step
            self._below, self._top, self.step = (compile_for(self.device, part) for part in parts)

    @torch.no_grad()
    def below(self, tokens: Tensor, time: Tensor | None = None) -> Tensor:
        """(R, L, hidden) from contexts (R, L)."""
        return self._in_batches(self._below, tokens.to(self.device, non_blocking=True), _on(time, self.device))

    @torch.no_grad()
    def states(self, below: Tensor, columns: Tensor | None, time: Tensor | None = None) -> Tensor:
        """Input of the head, (R, A, hidden) at columns (R, A), or everywhere."""
        columns, time = (_on(part, self.device) for part in (columns, time))
        return self._in_batches(self._top, below, columns, time)

    @torch.no_grad()
    def head(self, states: Tensor) -> Tensor:
        """Logits (.., V) from states (.., hidden)."""
        return self.trunk.head(states)

    def marginals(self, states: Tensor) -> Marginals:
        """Marginals from states (K, hidden): a table on the host, unless there are many symbols."""
        if self.vocabulary > FEW:
            return Logits(states, self.head, self.vocabulary)
        return Table(probabilities(self.head(states)).cpu(), FLOAT32)

    def _in_batches(self, compute: Callable[..., Tensor], x: Tensor, *rest: Tensor | None) -> Tensor:
        """Apply `compute` to (R, ..) each, one batch of rows at a time."""
        rows, length = x.shape[:2]

        def from_row(first: int) -> Callable[[int], Tensor]:
            def compute_part(count: int) -> Tensor:
                part = slice(first, first + count)
                return self._padded(compute, x[part], *(None if t is None else t[part] for t in rest))

            return compute_part

        batch = self.batch or (max(TOKENS // length, 1) if self.device.type == "cpu" else rows)
        parts = [
            fitted(from_row(first), min(batch, rows - first), f"of {length} tokens", self.device)
            for first in range(0, rows, batch)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _padded(self, compute: Callable[..., Tensor], x: Tensor, *rest: Tensor | None) -> Tensor:
        if not self.compiled:
            return compute(x, *rest)
        rows, columns = len(x), rest[0] if compute is self._top else None
        padded = [None if t is None else widened(t, 0) for t in rest]
        if columns is not None:
            padded[0] = widened(widened(columns, 0), 1)
        with torch._dynamo.config.patch(recompile_limit=SHAPES):
            out = compute(widened(x, 0), *padded)[:rows]
        return (out if columns is None else out[:, : columns.shape[1]]).clone()  # the next CUDA graph overwrites it


def compile_for(device: torch.device, function: Any) -> Any:
    return torch.compile(function, dynamic=False, mode="reduce-overhead" if device.type == "cuda" else None)


def widened(x: Tensor, dim: int) -> Tensor:
    """x, padded with zeros to the next power of two."""
    size = x.shape[dim]
    missing = (1 << (size - 1).bit_length()) - size
    return functional.pad(x, (0, 0) * (x.dim() - 1 - dim) + (0, missing))


def probabilities(logits: Tensor) -> Tensor:
    """(.., V) in float64, unless there are many symbols."""
    return torch.softmax(logits.to(precision(logits.shape[-1])), -1)


def precision(vocabulary: int) -> torch.dtype:
    """float64, unless there are many symbols: such a tensor (.., V) would be too large."""
    return torch.float64 if vocabulary <= FEW else torch.float32


def fitted(compute: Callable[[int], Result], rows: int, what: str, device: torch.device) -> Result:
    """compute(rows); if memory is too small, raise an error with the number of rows that fit."""
    if (result := _attempt(compute, rows)) is not None:
        return result
    fits = rows // 2
    while fits and _attempt(compute, fits) is None:
        fits //= 2
    message = f"out of memory on {device}: {rows} rows {what} at once do not fit"
    if not fits:
        raise UnmaskError(f"{message}; one row does not fit either. Use a smaller network or a shorter length")
    raise UnmaskError(f"{message}; {fits} do. Pass batch={fits}")


def _attempt(compute: Callable[[int], Result], rows: int) -> Result | None:
    """compute(rows), or None if memory is too small."""
    try:
        return compute(rows)
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and "can't allocate memory" not in str(error):
            raise
    return None


def _on(part: Tensor | None, device: torch.device) -> Tensor | None:
    return None if part is None else part.to(device, non_blocking=True)
