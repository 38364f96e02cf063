"""Logits of many symbols, gone through once, piece by piece where they were computed, and what is remembered of it.

Of logits (K, V) the highest of each block of symbols and the block's mass below the highest of all are kept; `Logits`
(marginals.py) answers from these. The logits themselves are kept only where they are few.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property

import torch
from torch import Tensor

from unmask.core.chance import BLOCK, by_block

FLOAT32, BFLOAT16 = 1e-6, 1e-3  # how close two probabilities are that count as equal
PIECE = {"cpu": 2**20, "cuda": 2**26}  # logits that are gone through at once
IMPOSSIBLE = -1e4  # a logit so low that the difference to another one is certain, and yet a number
KEPT = 2**28  # logits that are kept from one question to the next, rather than computed again


class Scan(ABC):
    """Logits (K, V) gone through once by blocks of symbols, and what is remembered of it."""

    vocabulary: int
    device: torch.device
    resolution: float

    @abstractmethod
    def __len__(self) -> int:
        """K."""

    @abstractmethod
    def rows(self, places: Tensor) -> Tensor:
        """(K', V) logits at places (K')."""

    def at(self, symbols: Tensor, places: Tensor) -> Tensor:
        """(K', n) float32 logits of symbols (K', n) at places (K')."""
        parts = zip(self.pieces(places), symbols.split(self._piece), strict=True)
        return torch.cat([x.gather(1, part) for x, part in parts])

    def inside(self, block: Tensor, places: Tensor) -> Tensor:
        """(K', BLOCK) logits of one block (K') each; -inf beyond the last symbol."""
        symbols = block.unsqueeze(1) * BLOCK + torch.arange(BLOCK, device=block.device)
        found = self.at(symbols.clamp(max=self.vocabulary - 1), places)
        return found.masked_fill(symbols >= self.vocabulary, -torch.inf)

    def pieces(self, places: Tensor) -> Iterator[Tensor]:
        """(piece, V) in float32, one after another."""
        return (self.rows(part).float() for part in places.split(self._piece))

    @property
    def _piece(self) -> int:
        return max(PIECE["cuda" if self.device.type == "cuda" else "cpu"] // self.vocabulary, 1)

    @cached_property
    def _all(self) -> Tensor:
        return torch.arange(len(self), device=self.device)

    @cached_property
    def _found(self) -> tuple[Tensor, Tensor]:
        """The highest logit of each block (K, blocks), and each block's mass below the highest of all."""
        tops = torch.empty((len(self), -(-self.vocabulary // BLOCK)), device=self.device)
        masses = torch.empty_like(tops)
        parts = zip(self.pieces(self._all), tops.split(self._piece), masses.split(self._piece), strict=True)
        for x, top, mass in parts if len(self) else ():
            top.copy_(by_block(x, lambda part: part.amax(-1)))
            mass.copy_(by_block((x - top.amax(1, keepdim=True)).exp_(), lambda part: part.sum(-1)))
        return tops, masses

    @property
    def tops(self) -> Tensor:
        return self._found[0]

    @property
    def masses(self) -> Tensor:
        return self._found[1]

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
            below = (x - top.unsqueeze(1)).clamp_(min=IMPOSSIBLE)  # a number, 0 times which is 0
            part.copy_(torch.linalg.vecdot(below.exp(), below))
        return (self.total.log() - sums.double() / self.total).clamp(min=0)


class Stored(Scan):
    """head(states), applied when something is asked, and once if its answer can be kept; no head: the states are it."""

    def __init__(self, states: Tensor, head: Callable[[Tensor], Tensor] | None, vocabulary: int) -> None:
        self.states, self.head, self.vocabulary, self.device = states, head, vocabulary, states.device
        self.resolution = BFLOAT16 if states.dtype in (torch.bfloat16, torch.float16) else FLOAT32

    def __len__(self) -> int:
        return len(self.states)

    def rows(self, places: Tensor) -> Tensor:
        if self._kept is not None:
            return self._kept[places]
        assert self.head is not None
        return self.head(self.states[places])

    def at(self, symbols: Tensor, places: Tensor) -> Tensor:
        return super().at(symbols, places) if self._kept is None else self._kept[places.unsqueeze(1), symbols].float()

    @cached_property
    def _kept(self) -> Tensor | None:
        """(K, V), where they are not too many."""
        if self.head is None:
            return self.states
        return self.head(self.states) if len(self.states) * self.vocabulary <= KEPT else None


class Scaled(Scan):
    """The logits of some places (K) of another scan, times a factor: one over the temperature."""

    def __init__(self, scan: Scan, places: Tensor, factor: float) -> None:
        self.scan, self.places, self.factor = scan, places, factor
        self.vocabulary, self.device, self.resolution = scan.vocabulary, scan.device, scan.resolution

    def __len__(self) -> int:
        return len(self.places)

    def rows(self, places: Tensor) -> Tensor:
        return self.scan.rows(self.places[places]).float() * self.factor

    def at(self, symbols: Tensor, places: Tensor) -> Tensor:
        return self.scan.at(symbols, self.places[places]) * self.factor


Combine = Callable[[Tensor, Tensor, Tensor], Tensor]  # of two logits (K, V) and a factor (K, 1)


class Combined(Scan):
    """What a function makes of the logits of two scans, at places (K) of each, and of a factor (K)."""

    def __init__(
        self,
        scans: tuple[Scan, Scan],
        places: tuple[Tensor, Tensor],
        combine: Combine,
        factors: Tensor,
    ) -> None:
        self.scans, self.places, self.combine = scans, places, combine
        self.factors = factors.float().unsqueeze(1).to(scans[0].device)
        self.vocabulary, self.device, self.resolution = scans[0].vocabulary, scans[0].device, scans[0].resolution

    def __len__(self) -> int:
        return len(self.places[0])

    def rows(self, places: Tensor) -> Tensor:
        one, other = (
            scan.rows(numbers[places.to(scan.device)]).float().to(self.device)
            for scan, numbers in zip(self.scans, self.places, strict=True)
        )
        return self.combine(one, other, self.factors[places.to(self.device)])


def lowest_first(values: Tensor, number: int) -> Tensor:
    """(K, number): where the highest of values (K, n) in float32 are, the first of those that are equal."""
    bits = (values + 0.0).view(torch.int32)
    rank = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).long()  # in the order of the floats
    last = values.shape[1] - 1
    return (rank * 2**24 + last - torch.arange(last + 1, device=values.device)).topk(number, dim=1).indices
