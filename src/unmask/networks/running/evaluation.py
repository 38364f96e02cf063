"""A trunk as it is asked for probabilities: on its device, in batches that fit, without what nobody asks for."""

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
from unmask.networks.model.trunk import Trunk

FEW = 4 * BLOCK  # symbols up to which probabilities are float64
TOKENS = 1024  # that the CPU evaluates at once: what they become between two layers stays in its caches
Result = TypeVar("Result")
SHAPES = 256  # that are compiled at most


class Evaluator:
    """`below` is an evaluation of some rows up to the last block; `at` finishes it where it is asked to.

    batch: rows that are computed at once; unless told otherwise all of them, but on the CPU few. compiled: by
    torch.compile, with CUDA graphs where there is CUDA; rows and columns are then padded to powers of two, so that only
    a few shapes are met. The law is the same.
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
        """(R, L, hidden) of contexts (R, L)."""
        return self._in_batches(self._below, tokens.to(self.device, non_blocking=True), _on(time, self.device))

    @torch.no_grad()
    def states(self, below: Tensor, asked: Tensor | None, time: Tensor | None = None) -> Tensor:
        """What the head reads, (R, A, hidden) at columns asked (R, A), or everywhere."""
        asked, time = (_on(part, self.device) for part in (asked, time))
        return self._in_batches(self._top, below, asked, time)

    @torch.no_grad()
    def head(self, states: Tensor) -> Tensor:
        """Logits (.., V) of states (.., hidden)."""
        return self.trunk.head(states)

    def said(self, states: Tensor) -> Marginals:
        """What the head makes of states (K, hidden): a table on the host, unless there are many symbols."""
        if self.vocabulary > FEW:
            return Logits(states, self.head, self.vocabulary)
        return Table(probabilities(self.head(states)).cpu(), FLOAT32)

    def _in_batches(self, compute: Callable[..., Tensor], x: Tensor, *rest: Tensor | None) -> Tensor:
        """compute of (R, ..) each, so many rows at a time."""
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
        rows, asked = len(x), rest[0] if compute is self._top else None
        others = [None if t is None else widened(t, 0) for t in rest]
        if asked is not None:
            others[0] = widened(widened(asked, 0), 1)
        with torch._dynamo.config.patch(recompile_limit=SHAPES):
            out = compute(widened(x, 0), *others)[:rows]
        return (out if asked is None else out[:, : asked.shape[1]]).clone()  # the next CUDA graph overwrites it


def compile_for(device: torch.device, function: Any) -> Any:
    return torch.compile(function, dynamic=False, mode="reduce-overhead" if device.type == "cuda" else None)


def widened(x: Tensor, dim: int) -> Tensor:
    """x with zeros, up to the next power of two."""
    size = x.shape[dim]
    missing = (1 << (size - 1).bit_length()) - size
    return functional.pad(x, (0, 0) * (x.dim() - 1 - dim) + (0, missing))


def probabilities(logits: Tensor) -> Tensor:
    """(.., V) in float64, unless there are many symbols."""
    return torch.softmax(logits.to(precision(logits.shape[-1])), -1)


def precision(vocabulary: int) -> torch.dtype:
    """A float64 tensor (.., V) of many symbols is never made."""
    return torch.float64 if vocabulary <= FEW else torch.float32


def fitted(compute: Callable[[int], Result], rows: int, what: str, device: torch.device) -> Result:
    """compute(rows); where memory does not suffice for them, an error that says for how many it does."""
    if (result := _attempt(compute, rows)) is not None:
        return result
    fits = rows // 2
    while fits and _attempt(compute, fits) is None:
        fits //= 2
    message = f"out of memory on {device}: {rows} rows {what} at once are too many"
    if not fits:
        raise UnmaskError(f"{message}, and so is one; take a smaller network or a shorter length")
    raise UnmaskError(f"{message}; {fits} fit, so take batch={fits}")


def _attempt(compute: Callable[[int], Result], rows: int) -> Result | None:
    """None where memory does not suffice; whatever was made on the way is let go."""
    try:
        return compute(rows)
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and "can't allocate memory" not in str(error):
            raise
    return None


def _on(part: Tensor | None, device: torch.device) -> Tensor | None:
    return None if part is None else part.to(device, non_blocking=True)
