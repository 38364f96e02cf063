"""The keys and values of what an AR model has read (its KV cache), in tensors that are made once."""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.networks.shape import Shape


class Memory:
    """Keys and values (layers, B, heads, T, D). Row b has read lengths[b] tokens; what lies beyond is overwritten.

    The lengths are kept on the host, so that a device is never waited for. Rows that have read equally much, which is
    plain AR generation, need neither a scatter nor a mask.
    """

    def __init__(self, shape: Shape, rows: int, device: torch.device, dtype: torch.dtype) -> None:
        size = (2, shape.layers, rows, shape.heads, shape.length, shape.hidden // shape.heads)
        self.kept = torch.empty(size, device=device, dtype=dtype)
        self.lengths = torch.zeros(rows, dtype=torch.int64)  # on the host
        self.even = True  # whether all lengths are equal

    def places(self, width: int) -> Tensor:
        """Positions of the next `width` tokens: (width) where all rows are equally long, else (B, width)."""
        steps = torch.arange(width)
        if self.even:
            return steps + int(self.lengths[0])
        return self.lengths.unsqueeze(1) + steps

    def write(self, layer: int, key: Tensor, value: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Keep (B, heads, K, D) at places, and return all that may be attended to: (B, heads, T', D) each."""
        keys, values = self.kept[0, layer], self.kept[1, layer]
        if places.dim() == 1:
            first, end = int(places[0]), int(places[-1]) + 1
            keys[:, :, first:end], values[:, :, first:end] = key, value
        else:
            end = min(int(places.max()) + 1, keys.shape[2])
            where = places.clamp(max=keys.shape[2] - 1).to(keys.device)  # beyond the end nothing is asked for
            index = where[:, None, :, None].expand(key.shape)
            keys.scatter_(2, index, key)
            values.scatter_(2, index, value)
        return keys[:, :, :end], values[:, :, :end]

    def move(self, lengths: Tensor) -> None:
        """The rows have read lengths (B) tokens now."""
        self.lengths = lengths
        self.even = bool((lengths == lengths[0]).all())
