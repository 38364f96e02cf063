"""Two samplers at the board's fixed budgets: one verdict for each language, and one for all (difference.py)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unmask.core.errors import UnmaskError
from unmask.experiments.board.difference import Difference, difference, pooled
from unmask.experiments.board.families import Family, lists_budgets
from unmask.experiments.board.grid import Settings, recipe
from unmask.experiments.board.measures import Measured
from unmask.experiments.board.run import measured
from unmask.experiments.pool import EngineName
from unmask.experiments.run import sweep

ALL = "all languages"


@dataclass(frozen=True)
class Versus:
    """The comparison on one language, or on all; without a difference `note` gives the reason."""

    language: str
    length: int | None
    budgets: tuple[str, str] | None  # of each sampler; None for all languages
    difference: Difference | None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in ("language", "length", "budgets", "note")}
        return fields | {"difference": self.difference and self.difference.to_dict()}

    def sentence(self, first: str, second: str) -> str:
        """The verdict, then its number."""
        result = self.difference
        if result is None:
            return f"{self.language}: not comparable: {self.note}."
        verdict = f"not conclusive: {result.why}" if result.why else f"{first} is {result.verdict} than {second}"
        span = "" if self.length is None else f" from 1 to {self.length}"
        number = f"Fraction correct, mean over log2 of model calls{span}: {result.mean.points}"
        return f"{self.language}: {verdict}. {number}, {result.mean.n} sequences."


def versus(
    first: str, second: str, settings: Settings, *, store: str | Path, engine: EngineName = "local"
) -> list[Versus]:
    """The verdict on each language of the settings and, if there are several, on all sequences together.

    Both samplers have the usual budgets of the board, so the choice of budgets decides nothing.
    """
    ones, others = (_measured(name, settings, store, engine) for name in (first, second))
    results, pairs = [], []
    for place in [place for place in ones if place in others]:
        one, other = ones[place], others[place]
        budgets = _budgets(one.family), _budgets(other.family)
        try:
            results.append(Versus(*place, budgets, difference(one.curve, other.curve)))
            pairs.append((one.curve, other.curve))
        except UnmaskError as error:
            results.append(Versus(*place, budgets, None, note=str(error)))
    if not pairs:
        raise UnmaskError(results[0].note if results else f"{first} and {second} have no language in common")
    return [*results, Versus(ALL, None, None, pooled(pairs))] if len(pairs) > 1 else results


def _measured(name: str, settings: Settings, store: str | Path, engine: EngineName) -> dict[tuple[str, int], Measured]:
    """By language and length."""
    if lists_budgets(name):
        raise UnmaskError(f"{name} sets its budgets. A comparison has fixed budgets. Leave them out")
    plan = recipe(replace(settings, samplers=(name,), steps=(), quick=False, against=Settings.against))
    curves, failures = measured(sweep(plan, store=store, engine=engine, fresh=True))
    if not curves:
        raise UnmaskError(f"{name} could not be measured: {failures[0].message if failures else 'it has no budget'}")
    return {(one.language, one.length): one for one in curves}


def _budgets(member: Family) -> str:
    values = (f"{value:g}" if isinstance(value, float) else str(value) for value in member.values)
    return f"{member.knob} {', '.join(values)}"
