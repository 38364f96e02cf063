"""Results of one model as tables and plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from unmask.core.estimates import Estimate, bounded_mean, share
from unmask.tasks.evaluation.table import without_empty
from unmask.tasks.parallel.pbx import DRAWS, THRESHOLDS, Swept, sweeps
from unmask.tasks.parallel.points import Outcome, Setting, options, settings

Ceilings = Mapping[tuple[str, str, str], float]  # the best possible accuracy, by task, sampler and setting
Grid = tuple[str, list[str], list[list[str]]]


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

    @property
    def messages(self) -> list[str]:
        """Messages on these numbers, most general first."""
        reached = [(one.name, one.pbx(threshold)) for one in self.swept for threshold in self.thresholds]
        warnings = [f"{name}: {warning}" for name, own in reached for warning in own.warnings]
        return [*self.lacking, *dict.fromkeys(warnings)]

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
        head = ["sampler, setting", "score", "ceiling", "tokens per step", "real"]
        rows = []
        for one in self._settings():
            numbers = [_number(one[name], "{:.2f}") for name in ("published", "real")]
            rows.append([self._label(one), _percent(one["score"]), _number(one["ceiling"], "{:.1f}"), *numbers])
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
            "ceiling": fmean(ceilings) if ceilings and None not in ceilings else None,
            "published": one.published,
            "real": one.real,
            "tasks": tasks,
        }

    def _label(self, entry: Mapping[str, Any]) -> str:
        """The sampler with the options in which its settings differ."""
        every = [options(one.setting) for one in self.settings if one.sampler == entry["sampler"]]
        varied = {name: value for name, value in entry["options"].items() if any(o.get(name) != value for o in every)}
        texts = [f"{name}={value:g}" for name, value in varied.items()] or [entry["setting"]]
        return ", ".join([entry["sampler"], *texts])


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
