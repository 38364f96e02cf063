"""Results of one model as tables and plain values: PBx, settings, tasks, and the messages that belong to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import fmean
from typing import Any

import torch

from unmask.core.estimates import Estimate, bounded_mean, share
from unmask.tasks.evaluation.table import without_empty
from unmask.tasks.parallel.pbx import DRAWS, THRESHOLDS, Lead, Swept, leads, sweeps
from unmask.tasks.parallel.points import Outcome, Setting, options, settings
from unmask.tasks.parallel.published import Claim, Published

Ceilings = Mapping[tuple[str, str, str], float]  # the best possible accuracy, by task, sampler and setting
Grid = tuple[str, list[str], list[list[str]]]
PADDED = 0.75  # a part of real tokens among all: below it, padding is worth a message
SAME = 5e-3  # tokens per step between a published PBx and that of its points


@dataclass(frozen=True)
class Suite:
    """All results of one model from one source."""

    source: str
    model: str
    settings: Sequence[Setting]  # with all tasks
    lacking: Sequence[str]  # messages on settings that lack tasks
    swept: Sequence[Swept]
    claims: Sequence[Claim] = ()
    thresholds: Sequence[float] = THRESHOLDS
    ceilings: Ceilings | None = None

    @cached_property
    def leads(self) -> dict[float, list[Lead]]:
        return {threshold: leads(self.swept, threshold) for threshold in self.thresholds}

    @property
    def messages(self) -> list[str]:
        """Messages on these numbers, most general first."""
        return [*self.lacking, *self._of_speed(), *self._rankings(), *self._of_pbx(), *self._of_claims()]

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
            "published": [claim._asdict() for claim in self.claims],
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
        """One dict for each setting, in percent."""
        left = {(one.sampler, one.setting): one for one in self.settings}
        entries = []
        for swept in self.swept:
            for column, point in enumerate(swept.points):
                known = left.pop((point.sampler, point.setting), None)
                score = swept.score(column) or Estimate(point.score, point.score, point.score, 0, method="no items")
                entries.append(self._entry(point.sampler, point.setting, score, point.speed, known))
        for (sampler, setting), one in left.items():  # without model calls
            every = [outcome for own in one.tasks.values() for outcome in own]
            alone = accuracy(every).map(_as_percent) if len(one.tasks) == 1 else None
            value = 100 * one.score
            score = Estimate(value, value, value, 0, method="no interval") if alone is None else alone
            entries.append(self._entry(sampler, setting, score, None, one))
        return entries

    def _entry(
        self, sampler: str, setting: str, score: Estimate, speed: float | None, one: Setting | None
    ) -> dict[str, Any]:
        tasks = {} if one is None else dict(self._tasks(one))
        ceilings = [cell["ceiling"] for cell in tasks.values()]
        strict = None if one is None else one.strict
        return {
            "sampler": sampler,
            "setting": setting,
            "options": options(setting),
            "score": score.to_dict(),
            "strict": None if strict is None else 100 * strict,
            "ceiling": fmean(ceilings) if ceilings and None not in ceilings else None,
            "published": speed,
            "by_totals": None if one is None else one.by_totals,
            "real": None if one is None else one.real,
            "tasks": tasks,
        }

    def _label(self, entry: Mapping[str, Any]) -> str:
        """The sampler with the options in which its settings differ."""
        every = [options(one.setting) for one in self.settings if one.sampler == entry["sampler"]]
        varied = {name: value for name, value in entry["options"].items() if any(o.get(name) != value for o in every)}
        texts = [f"{name}={value:g}" for name, value in varied.items()] or [entry["setting"]]
        return ", ".join([entry["sampler"], *texts])

    def _tasks(self, one: Setting) -> Iterable[tuple[str, dict[str, Any]]]:
        for task, own in one.tasks.items():
            ceiling = (self.ceilings or {}).get((task, one.sampler, one.setting))
            measured = accuracy(own).map(_as_percent)
            yield task, {"accuracy": measured.to_dict(), "ceiling": None if ceiling is None else _as_percent(ceiling)}

    def _of_speed(self) -> list[str]:
        messages = []
        if not any(one.draws for one in self.swept) and self.swept:
            messages.append("the results have no items, so there are no intervals")
        canvases = sorted({canvas for setting in self.settings for canvas in setting.canvases})
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

    def _of_claims(self) -> list[str]:
        messages = []
        own = {one.name: one for one in self.swept}
        for claim in self.claims:
            if claim.sampler in own:
                value = own[claim.sampler].pbx(claim.threshold).value
                if abs((value or 0.0) - (claim.value or 0.0)) > SAME:
                    pair = " and ".join("never" if one is None else f"{one:.3f}" for one in (claim.value, value))
                    messages.append(f"{claim.sampler}: PB{claim.threshold:g} as published and by its points: {pair}")
        return messages


def suites(
    published: Published,
    thresholds: Sequence[float] = THRESHOLDS,
    ceilings: Ceilings | None = None,
    draws: int = DRAWS,
) -> list[Suite]:
    """The results by source and model. ceilings: the best possible accuracies, from 0 to 1."""
    every = settings(published.outcomes)
    places = [(one.source, one.model) for one in every] + [(one.source, one.model) for one in published.points]
    result = []
    for place in dict.fromkeys(places):
        own, lacking = _complete([one for one in every if (one.source, one.model) == place])
        points = [one for one in published.points if (one.source, one.model) == place]
        claims = [one for one in published.claims if (one.source, one.model) == place]
        result.append(Suite(*place, own, lacking, sweeps(own, points, draws), claims, thresholds, ceilings))
    return result


def accuracy(outcomes: Sequence[Outcome]) -> Estimate:
    """The mean score, with a binomial interval if all scores are 0 or 1, and Gaffke's otherwise."""
    scores = torch.tensor([one.score for one in outcomes], dtype=torch.float64)
    whole = bool(((scores == 0) | (scores == 1)).all())
    return share(scores == 1) if whole else bounded_mean(scores)


def _complete(own: Sequence[Setting]) -> tuple[list[Setting], list[str]]:
    """(settings with all tasks of the model, messages on others)."""
    tasks = {task for one in own for task in one.tasks}
    lacking = [one for one in own if len(one.tasks) < len(tasks)]
    messages = [
        f"{one.sampler}, {one.setting}: left out; it has {len(one.tasks)} of {len(tasks)} tasks" for one in lacking
    ]
    return [one for one in own if one not in lacking], messages


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
