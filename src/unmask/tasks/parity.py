"""Parities: the xor of the bits at some positions, with or without the running xors."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate
from operator import xor
from typing import ClassVar, NamedTuple

from unmask.core import arguments
from unmask.tasks.contract import TASKS
from unmask.tasks.lines import Stepwise


class Row(NamedTuple):
    bits: tuple[int, ...]
    positions: tuple[int, ...]  # from 1


@TASKS.register("parity")
@dataclass(frozen=True, kw_only=True)
class Parity(Stepwise):
    """The xor of the bits at `positions` listed positions of `bits` bits; the results are the running xors."""

    bits: int = 8
    positions: int = 3
    shots: int = 3

    length: ClassVar[int] = 32
    wordings = (
        "Bits: {bits}\nXor the bits at the positions {positions} in this order.\nAnswer:",
        "The positions of {bits} count from 1. Take the running xor of the bits at {positions}.\nResult:",
        "Positions: {positions}\nBits: {bits}\nWhat is the parity of the bits at these positions?\nParity:",
        "Start with 0 and flip it for each of the positions {positions} that has a 1 in {bits}.\nAnswer:",
        "Row: {bits}. Add the bits number {positions} modulo 2, one after another.\nSum:",
    )

    def __post_init__(self) -> None:
        arguments.whole("bits", self.bits, 1, 256)
        arguments.whole("positions", self.positions, 1, min(self.bits, 64), ", as many as bits at most")
        self._check()

    def make(self, rng: random.Random) -> Row:
        bits = tuple(rng.randrange(2) for _ in range(self.bits))
        return Row(bits, tuple(sorted(rng.sample(range(1, self.bits + 1), self.positions))))

    def question(self, row: Row) -> str:
        bits, positions = (sign.join(map(str, part)) for sign, part in zip((" ", ", "), row, strict=True))
        return self.wording.format(bits=bits, positions=positions)

    def results(self, row: Row) -> list[int]:
        return list(accumulate((row.bits[position - 1] for position in row.positions), xor))
