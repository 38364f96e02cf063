"""Convert tensors of a GGUF file to floats. They have 4 or 8 bits per number, and a scale for each 32 numbers.

    Q8_0  x = d q             Q4_0  x = d (q - 8)             Q4_1  x = d q + m           d, m in float16

With 4 bits, the lower halves of 16 bytes are the first 16 numbers, and the upper halves the others. For Llama, queries
and keys rotate rows 2 i and 2 i + 1 as pairs; in transformers the pairs are i and i + D / 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unmask.core.errors import UnmaskError, cut, shown
from unmask.text.gguf import TensorAt, read_header

GROUP = 32  # numbers per scale


class Kind(NamedTuple):
    name: str
    numbers: int  # per group
    size: int  # bytes of a group
    floats: Callable[[np.ndarray], np.ndarray]  # (groups, numbers) of bytes (groups, size)


def _half(raw: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(raw).view(np.float16).astype(np.float32)


def _nibbles(raw: np.ndarray) -> np.ndarray:
    return np.concatenate([raw & 15, raw >> 4], 1).astype(np.float32)


def _bfloat16(raw: np.ndarray) -> np.ndarray:
    return (np.ascontiguousarray(raw).view(np.uint16).astype(np.uint32) << 16).view(np.float32)


KINDS = {
    0: Kind("F32", 1, 4, lambda raw: np.ascontiguousarray(raw).view(np.float32)),
    1: Kind("F16", 1, 2, _half),
    2: Kind("Q4_0", GROUP, 18, lambda raw: _half(raw[:, :2]) * (_nibbles(raw[:, 2:]) - 8)),
    3: Kind("Q4_1", GROUP, 20, lambda raw: _half(raw[:, :2]) * _nibbles(raw[:, 4:]) + _half(raw[:, 2:4])),
    8: Kind("Q8_0", GROUP, 34, lambda raw: _half(raw[:, :2]) * np.ascontiguousarray(raw[:, 2:]).view(np.int8)),
    30: Kind("BF16", 1, 2, _bfloat16),
}


class Header(NamedTuple):
    """A tensor's header with the interface of safetensors; all types are read as floats."""

    place: TensorAt

    def get_shape(self) -> list[int]:
        return list(self.place.shape)

    def get_dtype(self) -> str:
        return "F32"


class Packed(Mapping[str, Any]):
    """The headers of a GGUF file's tensors; `read` converts one to floats."""

    def __init__(self, path: Path) -> None:
        self.directory, self._places = path, read_header(path).tensors
        for name, place in self._places.items():
            if place.kind not in KINDS:
                kinds = ", ".join(kind.name for kind in KINDS.values())
                raise UnmaskError(f"{shown(name)} in {cut(str(path))} is of type {place.kind}; expected {kinds}")

    def __getitem__(self, name: str) -> Header:
        return Header(self._places[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def read(self, name: str) -> Tensor:
        raw, kind = self.bytes_of(name), KINDS[self._places[name].kind]
        floats = kind.floats(raw.reshape(-1, kind.size))
        return torch.from_numpy(floats.reshape(self._places[name].shape))

    def bytes_of(self, name: str) -> np.ndarray:
        place = self._places[name]
        kind, count = KINDS[place.kind], int(np.prod(place.shape))
        size = count // kind.numbers * kind.size
        try:
            raw = np.fromfile(self.directory, np.uint8, size, offset=place.begin)
        except OSError as error:
            raise UnmaskError(f"cannot read {cut(str(self.directory))}: {error.strerror or error}") from error
        if len(raw) < size or count % kind.numbers:
            raise UnmaskError(f"{cut(str(self.directory))} ends within {shown(name)}. Download it again")
        return raw


def unpaired(tensors: Sequence[Tensor], heads: int) -> Tensor:
    """Rows (heads D, ..) of queries or keys in the order of transformers."""
    return tensors[0].unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2).contiguous()
