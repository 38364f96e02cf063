"""Results of one model as tables and plain values, and two samplers on the same items.

Samplers are compared by their whole curves, with the board's rule (board/difference.py), and at equal speed. A row is
an item, and each item counts the same. The cost of a setting is its model calls for a canvas of L positions,
L * mean(model calls / canvas), where L is the largest canvas: then tasks with other canvases have equal costs. At equal
speed, a sampler between two settings scores the mean of both, weighted as on the line of PBx. This has no allowance for
the unknown course between two settings; the curves have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, bounded_mean, share
from unmask.experiments.board.compare import Difference, difference
from unmask.tasks.evaluation.compare import Comparison, compare_shares
from unmask.tasks.evaluation.table import without_empty
from unmask.tasks.parallel.pbx import DRAWS, THRESHOLDS, Lead, Swept, leads, sweeps
from unmask.tasks.parallel.points import Outcome, Setting, options, settings

Ceilings = Mapping[tuple[str, str, str], float]  # the best possible accuracy, by task, sampler and setting
Grid = tuple[str, list[str], list[list[str]]]
Item = tuple[str, str]  # (task, key)
PADDED = 0.75  # a part of real tokens among all: below it, padding is worth a message


@dataclass(frozen=True)
class Suite:
    """All results of one model from one source."""

    source: str
    model: str
    settings: Sequence[Setting]  # with all tasks
    lacking: Sequence[str]  # messages on settings that lack tasks
    swept: Sequence[Swept]
    thresholds: Sequence[float] = THRESHOLDS
    ceilings: Ceilings | None = None

    @cached_property
    def leads(self) -> dict[float, list[Lead]]:
        return {threshold: leads(self.swept, threshold) for threshold in self.thresholds}

    @property
    def messages(self) -> list[str]:
        """Messages on these numbers, most general first."""
        return [*self.lacking, *self._of_speed(), *self._rankings(), *self._of_pbx()]

    def to_dict(self) -> dict[str, Any]:
        samplers = [
            {"sampler": one.name, "pbx": [one.pbx(threshold).to_dict() for threshold in self.thresholds]}
            for one in self.swept
        ]
        return {
            "source": self.source,
            "model": self.model,
            "samplers": samplers,
            "settings": self._settings(),
            "leads": [lead.to_dict() for own in self.leads.values() for lead in own],
            "messages": self.messages,
        }

    def pbx(self) -> Grid:
        """PBx of each sampler, with its interval."""
        head = ["sampler", *(f"PB{threshold:g}" for threshold in self.thresholds)]
        ordered = sorted(self.swept, key=lambda one: [-float(one.reached(x)[0]) for x in self.thresholds])
        rows = [[one.name, *(str(one.pbx(threshold)) for threshold in self.thresholds)] for one in ordered]
        return f"{self.source}, {self.model}: tokens per step at a score of x percent (PBx)", head, rows

    def by_setting(self) -> Grid:
        """Score and tokens per step of each setting."""
        head = ["sampler, setting", "score", "strict", "ceiling", "tokens per step", "by totals", "real"]
        rows = []
        for one in self._settings():
            numbers = [_number(one[name], "{:.2f}") for name in ("published", "by_totals", "real")]
            parts = [_number(one[name], "{:.1f}") for name in ("strict", "ceiling")]
            rows.append([self._label(one), _percent(one["score"]), *parts, *numbers])
        return f"{self.source}, {self.model}: settings", *without_empty(head, rows)

    def by_task(self) -> Grid:
        """The accuracy of each setting on each task, with its ceiling if known."""
        tasks = list(dict.fromkeys(task for setting in self.settings for task in setting.tasks))
        rows = []
        for one in self._settings():
            cells = [one["tasks"].get(task, {}) for task in tasks]
            texts = [_percent(cell.get("accuracy")) + _of(cell.get("ceiling")) for cell in cells]
            rows.append([self._label(one), *texts])
        return f"{self.source}, {self.model}: tasks", ["sampler, setting", *tasks], rows

    def _settings(self) -> list[dict[str, Any]]:
        """One dict for each setting, in percent; those without model calls, which have no PBx, last."""
        left = {(one.sampler, one.setting): one for one in self.settings}
        entries = []
        for swept in self.swept:
            for column, one in enumerate(swept.settings):
                del left[one.sampler, one.setting]
                entries.append(self._entry(one, swept.score(column)))
        for one in left.values():
            every = [outcome for own in one.tasks.values() for outcome in own]
            score = Estimate(100 * one.score, 100 * one.score, 100 * one.score, 0, method="no interval")
            entries.append(self._entry(one, accuracy(every).map(_as_percent) if len(one.tasks) == 1 else score))
        return entries

    def _entry(self, one: Setting, score: Estimate) -> dict[str, Any]:
        tasks: dict[str, dict[str, Any]] = {}
        for task, own in one.tasks.items():
            ceiling = (self.ceilings or {}).get((task, one.sampler, one.setting))
            measured = accuracy(own).map(_as_percent).to_dict()
            tasks[task] = {"accuracy": measured, "ceiling": None if ceiling is None else 100 * ceiling}
        ceilings = [cell["ceiling"] for cell in tasks.values()]
        return {
            "sampler": one.sampler,
            "setting": one.setting,
            "options": options(one.setting),
            "score": score.to_dict(),
            "strict": None if one.strict is None else 100 * one.strict,
            "ceiling": fmean(ceilings) if ceilings and None not in ceilings else None,
            "published": one.published,
            "by_totals": one.by_totals,
            "real": one.real,
            "tasks": tasks,
        }

    def _label(self, entry: Mapping[str, Any]) -> str:
        """The sampler with the options in which its settings differ."""
        every = [options(one.setting) for one in self.settings if one.sampler == entry["sampler"]]
        varied = {name: value for name, value in entry["options"].items() if any(o.get(name) != value for o in every)}
        texts = [f"{name}={value:g}" for name, value in varied.items()] or [entry["setting"]]
        return ", ".join([entry["sampler"], *texts])

    def _of_speed(self) -> list[str]:
        messages = []
        every = (one for setting in self.settings for own in setting.tasks.values() for one in own)
        canvases = sorted({one.canvas for one in every if one.canvas is not None})
        if len(canvases) > 1:
            sizes = " and ".join(map(str, canvases))
            messages.append(f"tokens per step are a mean over canvases of {sizes} positions")
        ratios = [(one.real, one.by_totals) for one in self.settings]
        parts = [real / totals for real, totals in ratios if real is not None and totals]
        if parts and (part := fmean(parts)) < PADDED:
            messages.append(
                f"{1 - part:.0%} of the tokens per step are padding, mean over settings; see the column real"
            )
        return messages

    def _rankings(self) -> list[str]:
        lines = []
        for threshold, own in self.leads.items():
            if not own:
                continue
            pairs = {(lead.first, lead.second): lead for lead in own}
            names = list(dict.fromkeys(name for pair in pairs for name in pair))
            signs = [" > " if pairs[pair].sure else " ~ " for pair in pairwise(names)]
            ranking = "".join(part for both in zip(names, [*signs, ""], strict=True) for part in both)
            lines.append(f"PB{threshold:g}: {ranking} (>: more than chance at a level of 5% for all pairs)")
        return lines

    def _of_pbx(self) -> list[str]:
        every = ((one, one.pbx(threshold)) for one in self.swept for threshold in self.thresholds)
        return list(dict.fromkeys(f"{one.name}: {warning}" for one, reached in every for warning in reached.warnings))


def suites(
    outcomes: Iterable[Outcome],
    thresholds: Sequence[float] = THRESHOLDS,
    ceilings: Ceilings | None = None,
    draws: int = DRAWS,
) -> list[Suite]:
    """The results by source and model. ceilings: the best possible accuracies, from 0 to 1."""
    models: dict[tuple[str, str], list[Setting]] = {}
    for one in settings(outcomes):
        models.setdefault((one.source, one.model), []).append(one)
    result = []
    for model, every in models.items():
        tasks = {task for one in every for task in one.tasks}
        own = [one for one in every if len(one.tasks) == len(tasks)]
        lacking = [
            f"{one.sampler}, {one.setting}: left out; it has {len(one.tasks)} of {len(tasks)} tasks"
            for one in every
            if len(one.tasks) < len(tasks)
        ]
        result.append(Suite(*model, own, lacking, sweeps(own, draws), thresholds, ceilings))
    return result


def accuracy(outcomes: Sequence[Outcome]) -> Estimate:
    """The mean score, with a binomial interval if all scores are 0 or 1, and Gaffke's otherwise."""
    scores = torch.tensor([one.score for one in outcomes], dtype=torch.float64)
    whole = bool(((scores == 0) | (scores == 1)).all())
    return share(scores == 1) if whole else bounded_mean(scores)


def _as_percent(fraction: float) -> float:
    return 100 * fraction


def _percent(estimate: Mapping[str, Any] | None) -> str:
    if estimate is None:
        return ""
    value, low, high = (estimate[name] for name in ("value", "low", "high"))
    return f"{value:.1f} [{low:.1f}, {high:.1f}]" if low < high else f"{value:.1f}"


def _of(ceiling: float | None) -> str:
    return "" if ceiling is None else f" of {ceiling:.1f}"


def _number(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


@dataclass(frozen=True)
class Items:
    """The curve of a sampler over items, by model calls."""

    length: int
    model_calls: Sequence[float]
    right: Sequence[Tensor]  # (items) for each setting

    @property
    def sizes(self) -> list[int]:
        return [len(self.right[0])]

    def at(self, calls: float) -> Tensor:
        """(items) the score at this cost, linear in speed L / calls between two settings."""
        above = next(number for number, cost in enumerate(self.model_calls) if cost >= calls)
        if above == 0:
            return self.right[0]
        slow, speed, fast = (1 / cost for cost in (self.model_calls[above], calls, self.model_calls[above - 1]))
        part = (speed - slow) / (fast - slow)
        return part * self.right[above - 1] + (1 - part) * self.right[above]


def versus(one: Sequence[Setting], other: Sequence[Setting]) -> Difference:
    """The difference of two samplers, the settings of each, on the items that all settings have."""
    return difference(*_curves(one, other))


def at_speed(one: Sequence[Setting], other: Sequence[Setting], speed: float) -> Comparison:
    """The paired comparison at equal tokens per model call."""
    curves = _curves(one, other)
    calls = curves[0].length / speed
    least, most = (side(end(curve.model_calls) for curve in curves) for side, end in ((max, min), (min, max)))
    if not least <= calls <= most:
        length = curves[0].length
        span = f"{length / most:.4g} to {length / least:.4g}" if least <= most else "none"
        raise UnmaskError(f"--speed is {speed:g} tokens per model call; both samplers were measured at {span}")
    return compare_shares(list(zip(*(curve.at(calls).tolist() for curve in curves), strict=True)))


def _curves(one: Sequence[Setting], other: Sequence[Setting]) -> tuple[Items, Items]:
    every = [
        {(task, single.item): single for task, own in setting.tasks.items() for single in own}
        for setting in (*one, *other)
    ]
    common = sorted(set.intersection(*map(set, every)))
    if not common:
        raise UnmaskError("the samplers have no items in common. Compare results on the same items of one model")
    length = max(own[item].canvas or 0 for own in every for item in common)
    return _curve(every[: len(one)], common, length), _curve(every[len(one) :], common, length)


def _curve(settings: Sequence[dict[Item, Outcome]], items: Sequence[Item], length: int) -> Items:
    points = []
    for own in settings:
        costs = [_cost(own[item]) for item in items]
        scores = torch.tensor([own[item].score for item in items], dtype=torch.float64)
        points.append((length * fmean(costs), scores))
    points.sort(key=lambda point: point[0])
    return Items(length, [calls for calls, _ in points], [scores for _, scores in points])


def _cost(one: Outcome) -> float:
    if one.forwards is None or not one.canvas:
        raise UnmaskError(f"{one.sampler}, {one.setting}: {one.task} has no model calls. Compare records with them")
    return one.forwards / one.canvas
