"""Ranks of samplers on two boards, for example with the ideal denoiser and with a network of the same language.

With accuracies under parallelism a_i on the first board and b_i on the second, over pairs i < j of samplers,

    tau_b = sum sign(a_i - a_j) sign(b_i - b_j) / sqrt(#(a_i != a_j) #(b_i != b_j))

and p is the fraction of permutations, including the measured order, with |tau_b| as large. A board decides a pair if
its 95% intervals are apart. A pair is reversed if both boards decide it differently, which chance rarely does.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from unmask.core.errors import UnmaskError
from unmask.core.reading import read_json

MEASURE = "accuracy_under_parallelism"
PERMUTATIONS = 9999
LEAST = 3  # samplers

Ends = tuple[float, float, float]  # value, low, high


class Entry(msgspec.Struct):
    """The fields of a record for ranks."""

    language: str
    length: int
    sampler: str
    measure: str
    value: float | None = None
    low: float | None = None
    high: float | None = None


class File(msgspec.Struct):
    """The contents of a board.json for ranks."""

    records: list[Entry]
    origin: dict[str, Any] = {}


@dataclass(frozen=True)
class Standing:
    """A sampler on both boards: accuracies with intervals, and mean ranks from 1."""

    sampler: str
    first: Ends
    second: Ends
    first_rank: float
    second_rank: float


@dataclass(frozen=True)
class Ranking:
    """Two boards on one language; the best sampler of the first board is first."""

    language: str
    length: int
    standings: tuple[Standing, ...]
    tau: float
    p: float
    decided: int  # pairs that both boards decide
    turned: tuple[tuple[str, str], ...]  # reversed pairs: (better on the first board, better on the second)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def sentence(self) -> str:
        pairs = f"{len(self.turned)} of {self.decided} pairs decided by both boards are reversed"
        tau = f"Kendall's tau is {self.tau:.2f}, p = {self.p:.2g} by permutation"
        return f"{self.language}, {self.length} tokens, {len(self.standings)} samplers: {tau}; {pairs}"


def read(path: str | Path) -> File:
    """Read a file board.json."""
    content: File = read_json(path, File)
    return content


def ranks(first: str | Path, second: str | Path) -> list[Ranking]:
    """Rank the common samplers of two files board.json, for each common language and length."""
    ones, twos = (_accuracies(path) for path in (first, second))
    places = [place for place in ones if len(ones[place].keys() & twos.get(place, {}).keys()) >= LEAST]
    if not places:
        what = f"share no language with {LEAST} samplers of one length"
        raise UnmaskError(f"{first} and {second} {what}; measure the same samplers on both")
    return [ranking(*place, ones[place], twos[place]) for place in places]


def ranking(language: str, length: int, one: dict[str, Ends], other: dict[str, Ends]) -> Ranking:
    """Rank the samplers of both boards."""
    names = sorted(one.keys() & other.keys(), key=lambda name: (-one[name][0], name))
    sides = [np.array([side[name] for name in names]) for side in (one, other)]
    tau, p = kendall(sides[0][:, 0], sides[1][:, 0])
    better = [side[:, None, 1] > side[None, :, 2] for side in sides]  # [i, j]: the interval of i is above that of j
    decided = np.logical_and(*(above | above.T for above in better))
    turned = np.argwhere(better[0] & better[1].T).tolist()
    places = [_places(side[:, 0]).tolist() for side in sides]
    return Ranking(
        language,
        length,
        tuple(Standing(n, one[n], other[n], a, b) for n, a, b in zip(names, *places, strict=True)),
        tau,
        p,
        int(decided.sum()) // 2,
        tuple((names[i], names[j]) for i, j in turned),
    )


def kendall(first: NDArray[np.float64], second: NDArray[np.float64]) -> tuple[float, float]:
    """(tau_b, p)."""
    a, b = (np.sign(values[:, None] - values[None, :]) for values in (first, second))
    whole = math.sqrt(np.abs(a).sum() * np.abs(b).sum())
    if not whole:
        raise UnmaskError("all samplers are alike on one of the boards; choose other settings")
    observed, random = (a * b).sum(), np.random.default_rng(0)
    orders = (random.permutation(len(first)) for _ in range(PERMUTATIONS))
    as_large = sum(abs((a * b[np.ix_(order, order)]).sum()) >= abs(observed) for order in orders)
    return float(observed / whole), (1 + int(as_large)) / (1 + PERMUTATIONS)


def _places(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1 for the highest; equal values get their mean rank."""
    above = (values[None, :] > values[:, None]).sum(1)
    return above + ((values[None, :] == values[:, None]).sum(1) + 1) / 2


def _accuracies(path: str | Path) -> dict[tuple[str, int], dict[str, Ends]]:
    """Accuracies by language and length, then by sampler."""
    accuracies: dict[tuple[str, int], dict[str, Ends]] = {}
    for entry in read(path).records:
        if entry.measure == MEASURE:
            if entry.value is None or entry.low is None or entry.high is None:
                raise UnmaskError(f"{path} has no {MEASURE} of {entry.sampler} on {entry.language}; measure it again")
            accuracies.setdefault((entry.language, entry.length), {})[entry.sampler] = (
                entry.value,
                entry.low,
                entry.high,
            )
    return accuracies
