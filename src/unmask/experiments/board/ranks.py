"""How samplers rank on two boards: whether who is better on the one is better on the other, as on an ideal denoiser
and on a network that has learned the same language.

Of accuracies under parallelism a_i on the one and b_i on the other, over pairs i < j of samplers,

    tau_b = sum sign(a_i - a_j) sign(b_i - b_j) / sqrt(#(a_i != a_j) #(b_i != b_j))

and p is the share of permutations of the one, with that which was measured, whose |tau_b| is as large. A pair is turned
where both boards decide it, its 95% intervals being apart on each, and decide it differently: chance hardly does that.
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
    """What is read of a record."""

    language: str
    length: int
    sampler: str
    measure: str
    value: float | None = None
    low: float | None = None
    high: float | None = None


class File(msgspec.Struct):
    """What is read of a board.json: where it is from, and its numbers."""

    records: list[Entry]
    origin: dict[str, Any] = {}


@dataclass(frozen=True)
class Standing:
    """A sampler on both boards: its accuracy with its interval, and its rank from 1, which equal ones share."""

    sampler: str
    first: Ends
    second: Ends
    first_rank: float
    second_rank: float


@dataclass(frozen=True)
class Ranking:
    """Two boards on one language, the best of the first board first."""

    language: str
    length: int
    standings: tuple[Standing, ...]
    tau: float
    p: float
    decided: int  # pairs that both boards decide
    turned: tuple[tuple[str, str], ...]  # of those: (better on the first board, better on the second)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def sentence(self) -> str:
        pairs = f"{len(self.turned)} of {self.decided} pairs that both decide are turned"
        tau = f"Kendall's tau is {self.tau:.2f}, p = {self.p:.2g} by permutation"
        return f"{self.language}, {self.length} tokens, {len(self.standings)} samplers: {tau}; {pairs}"


def read(path: str | Path) -> File:
    """A file board.json."""
    found: File = read_json(path, File)
    return found


def ranks(first: str | Path, second: str | Path) -> list[Ranking]:
    """Of two files board.json, each language and length that both have, by the samplers that both have there."""
    ones, others = (_accuracies(path) for path in (first, second))
    places = [place for place in ones if len(ones[place].keys() & others.get(place, {}).keys()) >= LEAST]
    if not places:
        raise UnmaskError(
            f"{first} and {second} share no language with {LEAST} samplers of one length; measure both so"
        )
    return [ranking(*place, ones[place], others[place]) for place in places]


def ranking(language: str, length: int, one: dict[str, Ends], other: dict[str, Ends]) -> Ranking:
    """Of the samplers that both have."""
    names = sorted(one.keys() & other.keys(), key=lambda name: (-one[name][0], name))
    sides = [np.array([side[name] for name in names]) for side in (one, other)]
    tau, p = kendall(sides[0][:, 0], sides[1][:, 0])
    better = [side[:, None, 1] > side[None, :, 2] for side in sides]  # [i, j]: i is above j beyond its interval
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
        raise UnmaskError("all samplers are alike on one of the boards; there is nothing to rank")
    found, random = (a * b).sum(), np.random.default_rng(0)
    orders = (random.permutation(len(first)) for _ in range(PERMUTATIONS))
    as_large = sum(abs((a * b[np.ix_(order, order)]).sum()) >= abs(found) for order in orders)
    return float(found / whole), (1 + int(as_large)) / (1 + PERMUTATIONS)


def _places(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each rank from 1 for the highest; equal ones share the mean of theirs."""
    above = (values[None, :] > values[:, None]).sum(1)
    return above + ((values[None, :] == values[:, None]).sum(1) + 1) / 2


def _accuracies(path: str | Path) -> dict[tuple[str, int], dict[str, Ends]]:
    """By language and length, then by sampler."""
    found: dict[tuple[str, int], dict[str, Ends]] = {}
    for entry in read(path).records:
        if entry.measure == MEASURE:
            if entry.value is None or entry.low is None or entry.high is None:
                raise UnmaskError(f"{path} has no {MEASURE} of {entry.sampler} on {entry.language}; measure it again")
            found.setdefault((entry.language, entry.length), {})[entry.sampler] = (entry.value, entry.low, entry.high)
    return found
