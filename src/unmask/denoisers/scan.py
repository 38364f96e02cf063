"""One pass over the logits of large vocabularies, in pieces and on their device, and its summary.

The summary of logits (K, V) has the highest logit of each block of symbols, and the block's mass relative to the
highest logit of all; `Logits` (marginals.py) uses it. The logits themselves are stored only if they are few.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property

import torch
from torch import Tensor

from unmask.core.chance import BLOCK, by_block

FLOAT32, BFLOAT16 = 1e-6, 1e-3  # probabilities that differ by less count as equal
PIECE = {"cpu": 2**20, "cuda": 2**26}  # logits that are processed at once
IMPOSSIBLE = -1e4  # a finite logit in place of -inf
STORED = 2**28  # logits that are stored rather than computed again
Combine = Callable[[Tensor, Tensor, Tensor], Tensor]  # of two logits (K, V) and a factor (K, 1)


class Scan(ABC):
    """Logits (K, V) that are processed once, by blocks of symbols, and the summary of that pass."""

    vocabulary: int
    device: torch.device
    resolution: float

    @abstractmethod
    def __len__(self) -> int:
        """K."""

    @abstractmethod
    def rows(self, entries: Tensor) -> Tensor:
        """(K', V) logits of entries (K')."""

    def at(self, symbols: Tensor, entries: Tensor) -> Tensor:
        """(K', n) float32 logits of symbols (K', n) at entries (K')."""
        parts = zip(self.pieces(entries), symbols.split(self._piece), strict=True)
        return torch.cat([x.gather(1, part) for x, part in parts])

    def inside(self, block: Tensor, entries: Tensor) -> Tensor:
        """(K', BLOCK) logits of one block (K') each; -inf beyond the last symbol."""
        symbols = block.unsqueeze(1) * BLOCK + torch.arange(BLOCK, device=block.device)
        logits = self.at(symbols.clamp(max=self.vocabulary - 1), entries)
        return logits.masked_fill(symbols >= self.vocabulary, -torch.inf)

    def pieces(self, entries: Tensor) -> Iterator[Tensor]:
        """(piece, V) in float32, one after another."""
        return (self.rows(part).float() for part in entries.split(self._piece))

    @property
    def _piece(self) -> int:
        return max(PIECE["cuda" if self.device.type == "cuda" else "cpu"] // self.vocabulary, 1)

    @cached_property
    def _all(self) -> Tensor:
        return torch.arange(len(self), device=self.device)

    @cached_property
    def _summary(self) -> tuple[Tensor, Tensor]:
        """The highest logit of each block (K, blocks), and each block's mass relative to the highest logit of all."""
        tops = torch.empty((len(self), -(-self.vocabulary // BLOCK)), device=self.device)
        masses = torch.empty_like(tops)
        parts = zip(self.pieces(self._all), tops.split(self._piece), masses.split(self._piece), strict=True)
        for x, top, mass in parts if len(self) else ():
            top.copy_(by_block(x, lambda part: part.amax(-1)))
            mass.copy_(by_block((x - top.amax(1, keepdim=True)).exp_(), lambda part: part.sum(-1)))
        return tops, masses

    @property
    def tops(self) -> Tensor:
        return self._summary[0]

    @property
    def masses(self) -> Tensor:
        return self._summary[1]

    @cached_property
    def highest(self) -> Tensor:
        return self.tops.amax(1)

    @cached_property
    def total(self) -> Tensor:
        """(K) float64: the mass of all blocks."""
        return self.masses.sum(1, dtype=torch.float64)

    @cached_property
    def best(self) -> Tensor:
        block = self.tops.argmax(1)
        return block * BLOCK + self.inside(block, self._all).argmax(1)

    @cached_property
    def margin(self) -> Tensor:
        block = self.tops.argmax(1)
        second = self.inside(block, self._all).topk(2, dim=1).values[:, 1]
        elsewhere = self.tops.scatter(1, block.unsqueeze(1), -torch.inf).amax(1)
        return (1 - (torch.maximum(second, elsewhere) - self.highest).double().exp()) / self.total

    @cached_property
    def entropy(self) -> Tensor:
        """log Z - sum_v e^(x - top) (x - top) / Z, Z the total below the highest."""
        sums = torch.empty_like(self.highest)
        parts = zip(self.pieces(self._all), self.highest.split(self._piece), sums.split(self._piece), strict=True)
        for x, top, part in parts if len(self) else ():
            below = (x - top.unsqueeze(1)).clamp_(min=IMPOSSIBLE)  # finite, since 0 times -inf is not 0
            part.copy_(torch.linalg.vecdot(below.exp(), below))
        return (self.total.log() - sums.double() / self.total).clamp(min=0)


class Stored(Scan):
    """head(states), computed on demand, and only once if the logits can be stored; without a head, the states."""

    def __init__(self, states: Tensor, head: Callable[[Tensor], Tensor] | None, vocabulary: int) -> None:
        self.states = states
        self.head = head
        self.vocabulary = vocabulary
        self.device = states.device
        self.resolution = BFLOAT16 if states.dtype in (torch.bfloat16, torch.float16) else FLOAT32

    def __len__(self) -> int:
        return len(self.states)

    def rows(self, entries: Tensor) -> Tensor:
        if self._logits is not None:
            return self._logits[entries]
        assert self.head is not None
        return self.head(self.states[entries])

    def at(self, symbols: Tensor, entries: Tensor) -> Tensor:
        if self._logits is None:
            return super().at(symbols, entries)
        return self._logits[entries.unsqueeze(1), symbols].float()

    @cached_property
    def _logits(self) -> Tensor | None:
        """(K, V), if they are not too many."""
        if self.head is None:
            return self.states
        return self.head(self.states) if len(self.states) * self.vocabulary <= STORED else None


class Scaled(Scan):
    """The logits of some entries (K) of another scan, times a factor: one over the temperature."""

    def __init__(self, scan: Scan, entries: Tensor, factor: float) -> None:
        self.scan, self.entries, self.factor = scan, entries, factor
        self.vocabulary, self.device, self.resolution = scan.vocabulary, scan.device, scan.resolution

    def __len__(self) -> int:
        return len(self.entries)

    def rows(self, entries: Tensor) -> Tensor:
        return self.scan.rows(self.entries[entries]).float() * self.factor

    def at(self, symbols: Tensor, entries: Tensor) -> Tensor:
        return self.scan.at(symbols, self.entries[entries]) * self.factor


class Combined(Scan):
    """A function of the logits of two scans, at entries (K) of each, and of a factor (K)."""

    def __init__(
        self,
        scans: tuple[Scan, Scan],
        entries: tuple[Tensor, Tensor],
        combine: Combine,
        factors: Tensor,
    ) -> None:
        self.scans, self.entries, self.combine = scans, entries, combine
        self.vocabulary, self.device, self.resolution = scans[0].vocabulary, scans[0].device, scans[0].resolution
        self.factors = factors.float().unsqueeze(1).to(self.device)

    def __len__(self) -> int:
        return len(self.entries[0])

    def rows(self, entries: Tensor) -> Tensor:
        parts = []
        for scan, numbers in zip(self.scans, self.entries, strict=True):
            parts.append(scan.rows(numbers[entries.to(scan.device)]).float().to(self.device))
        return self.combine(parts[0], parts[1], self.factors[entries.to(self.device)])


def lowest_first(values: Tensor, number: int) -> Tensor:
    """(K, number): indices of the highest values (K, n) in float32, the lowest first among equal ones."""
    bits = (values + 0.0).view(torch.int32)
    rank = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).long()  # in the order of the floats
    last = values.shape[1] - 1
    return (rank * 2**24 + last - torch.arange(last + 1, device=values.device)).topk(number, dim=1).indices
