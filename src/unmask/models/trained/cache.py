"""The KV cache of an AR model, allocated once as one tensor."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from unmask.models.trained.shape import Shape


class Reach(NamedTuple):
    """The K positions at which some rows continue, and the mask of the T cached positions that each may attend to."""

    cache: Tensor  # (layers, 2, B, heads, L + 1, D), shared with the memory
    rows: Tensor | None  # (R) of B; None: all
    first: int  # the first position, if it is the same in all rows
    places: Tensor | None  # (R, K) on the device, if it differs
    end: int  # T
    seen: Tensor | None  # Bool (K, T) or (R, 1, K, T); None: all
    prefix: bool  # nothing is cached yet: attention is plainly causal

    def write(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Cache keys and values (R, heads, K, D); return all that can be attended to, (R, heads, T, D) each."""
        cache, rows = self.cache[layer], slice(None) if self.rows is None else self.rows
        for mine, new in zip(cache, (key, value), strict=True):
            if self.places is None:
                mine[rows, :, self.first : self.end] = new
            else:
                each = torch.arange(len(key), device=key.device) if self.rows is None else self.rows
                mine[each.unsqueeze(1), :, self.places] = new.transpose(1, 2)
        if self.prefix:
            return key, value
        return cache[0, rows, :, : self.end], cache[1, rows, :, : self.end]


class Memory:
    """Row b has read lengths[b] symbols, including the start; entries beyond are overwritten.

    The lengths are on the host, so that the host never waits for a device. There are L + 1 entries: the last token of a
    sequence can be read together with others, although nothing follows it. Reads beyond the end write there too.
    """

    def __init__(self, shape: Shape, rows: int, length: int, device: torch.device, dtype: torch.dtype) -> None:
        self.places = length + 1
        size = (shape.layers, 2, rows, shape.heads, self.places, shape.hidden // shape.heads)
        self.cache = torch.zeros(size, device=device, dtype=dtype)  # zeros: masked entries must be finite
        self.lengths = torch.zeros(rows, dtype=torch.int64)

    def reach(self, width: int, rows: Tensor | None = None) -> Reach:
        """Let rows (R) (default: all) read `width` symbols each; the caller updates `lengths`."""
        lengths = self.lengths if rows is None else self.lengths[rows]
        device = self.cache.device
        which = None if rows is None else rows.to(device)
        first, last = int(lengths.min()), int(lengths.max())
        end = min(last + width, self.places)
        if first == last and first + width <= self.places:
            seen = None if width == 1 else torch.arange(end) <= torch.arange(first, end).unsqueeze(1)
            return Reach(self.cache, which, first, None, end, _on(seen, device), first == 0)
        places = (lengths.unsqueeze(1) + torch.arange(width)).clamp(max=self.places - 1)
        seen = torch.arange(end) <= places.unsqueeze(-1)
        return Reach(self.cache, which, first, places.to(device), end, _on(seen.unsqueeze(1), device), False)


def _on(seen: Tensor | None, device: torch.device) -> Tensor | None:
    return None if seen is None else seen.to(device)
