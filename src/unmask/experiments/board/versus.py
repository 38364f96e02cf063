"""Two samplers for the same evaluations, row by row: one verdict a language, and one of all.

A sampler at e evaluations, between budgets that take e_1 < e_2 of a row in the mean, is the mixture that writes a row
with the dearer one with probability pi and else with the other:

    e = (1 - pi) e_1 + pi e_2        wrong(row) = (1 - pi) wrong_1(row) + pi wrong_2(row)

It is a sampler that anybody can run, and takes e in the mean: its SER is on the straight line between theirs. (pi is
known as well as the mean evaluations are, of the same rows.) Over a range from e_1 to e_2 it is the mean over log2 e.
So each sampler is right on a share of each row, and the shares of two are compared as accuracies of tasks are
(experiments/evaluation/compare.py): by McNemar's exact test where they are all 0 or 1, which is at a budget of both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.experiments.board.grid import Settings, recipe
from unmask.experiments.board.measures import Curve, sum_of
from unmask.experiments.board.run import measured
from unmask.experiments.evaluation.compare import Comparison, compare_shares
from unmask.experiments.jobs.run import EngineName, sweep

PLACES = 65  # of a range, over which the mean is taken
ALL = "all"
DIGITS = 12  # of a share: what sums of weights are off by is no difference

Range = tuple[float, float]


@dataclass(frozen=True)
class Versus:
    """On one language, or on all; without a comparison `note` says why."""

    language: str
    length: int | None
    evaluations: tuple[Range, Range] | None  # from, to: of the first and of the second; None of all
    comparison: Comparison | None
    by_seed: tuple[float, ...] = ()  # the difference by each seed's rows
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in ("language", "length", "evaluations", "by_seed", "note")}
        return found | {"comparison": self.comparison and self.comparison.to_dict()}

    def sentence(self, first: str, second: str) -> str:
        if self.comparison is None:
            return f"{self.language}: {self.note}"
        said = self.comparison.sentence(first, second, "rows")
        how = "" if self.comparison.p is None else f"; p = {self.comparison.p:.2g} by McNemar's exact test"
        seeds = f"; by seed {', '.join(f'{value:+.1%}' for value in self.by_seed)}" if len(self.by_seed) > 1 else ""
        where = "" if self.evaluations is None else f", {_told(*self.evaluations)} evaluations"
        return f"{self.language}{where}: {said}{how}{seeds}"


def versus(
    first: str,
    second: str,
    settings: Settings,
    evaluations: float | None = None,
    *,
    store: str | Path,
    engine: EngineName = "local",
) -> list[Versus]:
    """Which is right more often, on each language of the settings and, of several, on the rows of all together.

    evaluations: at how many a row; else those of the one that has a single budget, or the range that both can take.
    """
    if evaluations is not None:
        arguments.number("evaluations", evaluations, above=True, what=" a row")
    ones, others = (_curves(name, settings, store, engine) for name in (first, second))
    found, shares = [], []
    for place in [place for place in ones if place in others]:
        one, other = ones[place], others[place]
        try:
            asked = meeting(one, other, evaluations)
        except UnmaskError as error:
            found.append(Versus(*place, None, None, note=str(error)))
            continue
        told = torch.stack([right(curve, *ends) for curve, ends in zip((one, other), asked, strict=True)], 1)
        by_seed = tuple(one.by_seed(told[:, 0] - told[:, 1]))
        found.append(Versus(*place, asked, _compared(told), by_seed))
        shares.append(told)
    if not shares:
        raise UnmaskError(found[0].note if found else f"{first} and {second} have no language in common")
    return [*found, Versus(ALL, None, None, _compared(torch.cat(shares)))] if len(shares) > 1 else found


def meeting(one: Curve, other: Curve, asked: float | None = None) -> tuple[Range, Range]:
    """From how many evaluations to how many each is looked at; an error where the two have none in common."""
    alone = [len(curve.points) == 1 for curve in (one, other)]
    spans = [(curve.evaluations[0], curve.evaluations[-1]) for curve in (one, other)]
    if asked is None and all(alone):
        return spans[0], spans[1]
    low, high = (asked, asked) if asked is not None else (max(s[0] for s in spans), min(s[1] for s in spans))
    if low > high or any(not s[0] <= e <= s[1] for s in spans for e in (low, high)):
        takes = " and ".join(f"{_told(s)}" for s in spans)
        wanted = "have none in common" if asked is None else f"do not both hold {asked:g}"
        raise UnmaskError(f"their budgets take {takes} evaluations, which {wanted}; list budgets that do")
    return (low, high), (low, high)


def weights(evaluations: Sequence[float], low: float, high: float) -> list[float]:
    """What each budget counts in the mean over log2 e from low to high of the mixtures that take e."""
    grid = np.exp(np.linspace(math.log(low), math.log(high), PLACES)) if high > low else np.array([low])
    grid = grid.clip(evaluations[0], evaluations[-1])
    return [float(np.interp(grid, evaluations, each).mean()) for each in np.eye(len(evaluations))]


def right(curve: Curve, low: float, high: float) -> Tensor:
    """(rows of all seeds): the share of each row that is right."""
    counts = weights(curve.evaluations, low, high)
    return sum_of(counts, [1 - point.wrong.double() for point in curve.points]).round(decimals=DIGITS)


def _compared(told: Tensor) -> Comparison:
    return compare_shares([(a, b) for a, b in told.tolist()])


def _curves(name: str, settings: Settings, store: str | Path, engine: EngineName) -> dict[tuple[str, int], Curve]:
    """By language and length."""
    plan = recipe(replace(settings, samplers=(name,), against=Settings.against))
    found, failures = measured(sweep(plan, store=store, engine=engine, fresh=True))
    curves = {(m.language, m.length): m.curve for m in found}
    if not curves:
        raise UnmaskError(f"{name} could not be measured: {failures[0].message if failures else 'it has no budget'}")
    return curves


def _told(one: Range, other: Range | None = None) -> str:
    said = f"{one[0]:.4g}" if one[0] == one[1] else f"{one[0]:.4g} to {one[1]:.4g}"
    return said if other is None or other == one else f"{said} and {_told(other)}"
