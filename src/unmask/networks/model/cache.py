"""The keys and values of what an AR model has read (its KV cache), in one tensor that is made once."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from unmask.networks.model.shape import Shape


class Reach(NamedTuple):
    """Where some rows read on: K places each, and which of the T places so far each of these may attend to."""

    kept: Tensor  # (layers, 2, B, heads, L + 1, D), the memory's own
    rows: Tensor | None  # (R) of B; None: all
    first: int  # the first place, where all rows stand equally far
    places: Tensor | None  # (R, K) on the device, where they do not
    end: int  # T
    seen: Tensor | None  # Bool (K, T) or (R, 1, K, T); None: all
    prefix: bool  # whether nothing has been read before: attention is plainly causal

    def write(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Keep (R, heads, K, D) each, and return all that may be attended to, (R, heads, T, D) each."""
        kept, rows = self.kept[layer], slice(None) if self.rows is None else self.rows
        for mine, new in zip(kept, (key, value), strict=True):
            if self.places is None:
                mine[rows, :, self.first : self.end] = new
            else:
                each = torch.arange(len(key), device=key.device) if self.rows is None else self.rows
                mine[each.unsqueeze(1), :, self.places] = new.transpose(1, 2)
        if self.prefix:
            return key, value
        return kept[0, rows, :, : self.end], kept[1, rows, :, : self.end]


class Memory:
    """Row b has read lengths[b] symbols, the start included; what lies beyond is overwritten.

    The lengths are kept on the host, so that a device is never waited for. There is one place more than positions: the
    last token of a sequence may be read with others, though nothing follows it; what is read beyond falls on it too.
    """

    def __init__(self, shape: Shape, rows: int, length: int, device: torch.device, dtype: torch.dtype) -> None:
        self.places = length + 1
        size = (shape.layers, 2, rows, shape.heads, self.places, shape.hidden // shape.heads)
        self.kept = torch.zeros(size, device=device, dtype=dtype)  # zeros: what is never attended to is a number
        self.lengths = torch.zeros(rows, dtype=torch.int64)

    def reach(self, width: int, rows: Tensor | None = None) -> Reach:
        """Let rows (R), all unless told otherwise, read `width` symbols each; `lengths` is the caller's to move."""
        lengths = self.lengths if rows is None else self.lengths[rows]
        device = self.kept.device
        which = None if rows is None else rows.to(device)
        first, last = int(lengths.min()), int(lengths.max())
        end = min(last + width, self.places)
        if first == last and first + width <= self.places:
            seen = None if width == 1 else torch.arange(end) <= torch.arange(first, end).unsqueeze(1)
            return Reach(self.kept, which, first, None, end, _on(seen, device), first == 0)
        places = (lengths.unsqueeze(1) + torch.arange(width)).clamp(max=self.places - 1)
        seen = torch.arange(end) <= places.unsqueeze(-1)
        return Reach(self.kept, which, first, places.to(device), end, _on(seen.unsqueeze(1), device), False)


def _on(seen: Tensor | None, device: torch.device) -> Tensor | None:
    return None if seen is None else seen.to(device)
