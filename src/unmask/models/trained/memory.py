"""The KV cache of an AR model: keys, values and symbols of the positions that rows have read.

A `Memory` holds the keys and values of all layers. For each forward pass it gives a `Reach`: the positions at which
rows continue, and the cached positions that each may attend to. Open models use a reach with a cache of their own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from unmask.core.entries import chosen
from unmask.models.trained.shape import Shape


def sent(tensor: Tensor | None, device: torch.device) -> Tensor | None:
    """The tensor on a device, if there is one; the host does not wait."""
    return None if tensor is None else tensor.to(device, non_blocking=True)


class Reach(NamedTuple):
    """The K positions at which some rows continue, and the mask of the T cached positions that each may attend to."""

    cache: Tensor  # (layers, 2, B, heads, L + 1, D), shared with the memory
    rows: Tensor | None  # (R) of B; None: all
    first: int  # the first position, if it is the same in all rows
    places: Tensor | None  # (R, K) on the device, if it differs
    end: int  # T
    seen: Tensor | None  # Bool (K, T) or (R, 1, K, T); None: all
    prefix: bool  # nothing is cached yet: attention is plainly causal
    past: Tensor | None = None  # (R, before): the last symbols, for an n-gram memory

    def write(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Cache keys and values (R, heads, K, D); return all that can be attended to, (R, heads, T, D) each."""
        cache = self.cache[layer]
        rows: Any = chosen(self.rows, slice(None))
        for mine, new in zip(cache, (key, value), strict=True):
            if self.places is None:
                mine[rows, :, self.first : self.end] = new
            else:
                each = chosen(self.rows, torch.arange(len(key), device=key.device))
                mine[each.unsqueeze(1), :, self.places] = new.transpose(1, 2)

        if self.prefix:
            return key, value
        return cache[0, rows, :, : self.end], cache[1, rows, :, : self.end]


class Memory:
    """The KV cache of an AR model, allocated once. Row b has read lengths[b] symbols, including the start; entries
    beyond are overwritten.

    The lengths are on the host, so that the host never waits for a device. There are L + 1 entries: the last token of a
    sequence can be read together with others, although nothing follows it. Reads beyond the end write there too.
    """

    def __init__(self, shape: Shape, rows: int, length: int, device: torch.device, dtype: torch.dtype) -> None:
        self.places = length + 1
        size = (shape.layers, 2, rows, shape.heads, self.places, shape.hidden // shape.heads)
        self.cache = torch.zeros(size, device=device, dtype=dtype)  # zeros: masked entries must be finite
        self.lengths = torch.zeros(rows, dtype=torch.int64)
        self.before = max(shape.neighbours - 1, 0)  # that a window of the n-gram memory reads besides the last
        self.symbols = torch.full((rows, self.before + self.places), shape.vocabulary, device=device)

    def past(self, tokens: Tensor, rows: Tensor | None = None) -> Tensor:
        """(R, before): the last symbols of rows (R) (default: all), before tokens (R, K), which are kept."""
        rows = chosen(rows, torch.arange(len(self.lengths)))
        ends = self.lengths[rows].unsqueeze(1)
        each = rows.unsqueeze(1).to(tokens.device)
        past = self.symbols[each, (ends + torch.arange(self.before)).to(tokens.device)]
        places = (ends + torch.arange(tokens.shape[1])).clamp(max=self.places - 1) + self.before
        self.symbols[each, places.to(tokens.device)] = tokens
        return past

    def recent(self, last: Tensor, rows: Tensor) -> Tensor:
        """(R, before + 1): the symbols with which rows (R) end after reading `last` (B)."""
        new = last[rows].unsqueeze(1).to(self.symbols.device)
        return torch.cat([self.past(new, rows), new], 1)

    def reach(self, tokens: Tensor, rows: Tensor | None = None) -> Reach:
        """Let rows (R) (default: all) read tokens (R, K); the caller updates `lengths`."""
        width = tokens.shape[1]
        past = self.past(tokens, rows)
        lengths = self.lengths[chosen(rows, torch.arange(len(self.lengths)))]
        device = self.cache.device
        which = sent(rows, device)

        first, last = int(lengths.min()), int(lengths.max())
        end = min(last + width, self.places)
        if first == last and first + width <= self.places:
            seen = None
            if width > 1 and first > 0:
                seen = (torch.arange(end) <= torch.arange(first, end).unsqueeze(1)).to(device)
            return Reach(self.cache, which, first, None, end, seen, first == 0, past)

        places = (lengths.unsqueeze(1) + torch.arange(width)).clamp(max=self.places - 1)
        seen = (torch.arange(end) <= places.unsqueeze(-1)).unsqueeze(1)
        return Reach(self.cache, which, first, places.to(device), end, seen.to(device), False, past)
