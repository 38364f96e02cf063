"""The results of a benchmark of parallel decoding: an outcome for each item, a point for each setting.

An item has a canvas of masked positions, and a sampler needs some model calls to fill it. Tokens per step have three
definitions. Each is a mean over tasks:

    published    the mean over items of canvas / model calls; padding counts as tokens
    by totals    mean canvas / mean model calls
    real         mean number of written tokens / mean model calls, without padding
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from unmask.core.registry import parse, written
from unmask.experiments.board.families import STEPS, apart
from unmask.tasks.sample import Sample

OPTION = re.compile(r"([A-Za-z][A-Za-z_]*?)=?(-?\d+(?:\.\d+)?)(?:_|$)")
OWN = "unmask"  # the source of own records


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of one item. With several samples of it, all numbers are means."""

    source: str  # whose result
    model: str
    sampler: str
    setting: str  # of the sampler's main option: k4, t0.9
    task: str
    item: str  # a hash of the item, equal in all settings; pairs are made by it
    score: float  # from 0 to 1
    strict: float | None = None  # the score with strict reading of the answer
    forwards: float | None = None  # model calls
    canvas: int | None = None  # masked positions at the beginning
    written: float | None = None  # tokens without padding

    @property
    def place(self) -> tuple[str, str, str, str]:
        return self.source, self.model, self.sampler, self.setting


@dataclass(frozen=True)
class Point:
    """The mean of a setting over all tasks."""

    source: str
    model: str
    sampler: str
    setting: str
    speed: float  # R: tokens per step as published
    score: float  # S: percent

    @property
    def top_k(self) -> bool:
        """Whether each step reveals a fixed number k of positions."""
        return list(options(self.setting)) == ["k"]


@dataclass(frozen=True)
class Setting:
    """All outcomes of one setting of a sampler."""

    source: str
    model: str
    sampler: str
    setting: str
    tasks: Mapping[str, Sequence[Outcome]]  # sorted by item; each item once

    @cached_property
    def point(self) -> Point | None:
        """R and S; None if the model calls are unknown."""
        speed = self.published
        who = self.source, self.model, self.sampler, self.setting
        return None if speed is None else Point(*who, speed, 100 * self.score)

    @property
    def score(self) -> float:
        """The mean over tasks of the mean score, from 0 to 1."""
        return fmean(fmean(one.score for one in own) for own in self.tasks.values())

    @property
    def strict(self) -> float | None:
        return self._mean(lambda one: one.strict)

    @property
    def published(self) -> float | None:
        return self._mean(tokens_per_step)

    @property
    def by_totals(self) -> float | None:
        return self._ratio(lambda one: one.canvas)

    @property
    def real(self) -> float | None:
        return self._ratio(lambda one: one.written)

    @property
    def canvases(self) -> set[int]:
        return {one.canvas for own in self.tasks.values() for one in own if one.canvas is not None}

    def _mean(self, number: Callable[[Outcome], float | None]) -> float | None:
        means = [_mean(map(number, own)) for own in self.tasks.values()]
        return _mean(means)

    def _ratio(self, above: Callable[[Outcome], float | None]) -> float | None:
        pairs = [(_mean(map(above, own)), _mean(one.forwards for one in own)) for own in self.tasks.values()]
        return _mean(a / b if a is not None and b else None for a, b in pairs)


def settings(outcomes: Iterable[Outcome]) -> list[Setting]:
    """Outcomes by setting, in their order. Of an item that occurs twice in a setting, the last outcome counts."""
    places: dict[tuple[str, str, str, str], dict[str, dict[str, Outcome]]] = {}
    for one in outcomes:
        places.setdefault(one.place, {}).setdefault(one.task, {})[one.item] = one
    return [
        Setting(*place, {task: [own[item] for item in sorted(own)] for task, own in tasks.items()})
        for place, tasks in places.items()
    ]


def options(setting: str) -> dict[str, float]:
    """The options in the name of a setting: k4, t0.9, or several, joined by underscores; empty for other names."""
    pairs = OPTION.findall(setting)
    return {name: float(value) for name, value in pairs} if not OPTION.sub("", setting) else {}


def tokens_per_step(one: Outcome) -> float | None:
    return one.canvas / one.forwards if one.canvas is not None and one.forwards else None


def item_key(*parts: object) -> str:
    """A hash of an item, from everything that makes it another item."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()


def of_samples(samples: Iterable[Sample]) -> list[Outcome]:
    """Outcomes of own records that have a verdict. `values["strict"]` of a sample is its strict score."""
    own: dict[tuple[str, str, str, str, str], list[Sample]] = {}
    for sample in samples:
        if sample.right is not None and sample.answered:
            about = sample.about
            item = item_key(about["task"], about["data"], sample.item)
            setting = about["model"]["card"], *_named(about["how"]), short(about["task"])
            own.setdefault((*setting, item), []).append(sample)
    return [
        Outcome(
            source=OWN,
            model=model,
            sampler=sampler,
            setting=setting,
            task=task,
            item=item,
            score=fmean(bool(one.right) for one in same),
            strict=_mean(one.values.get("strict") for one in same),
            forwards=fmean(one.needed for one in same),
            canvas=same[0].about["how"]["length"],
            written=fmean(len(one.tokens) for one in same),
        )
        for (model, sampler, setting, task, item), same in own.items()
    ]


def _named(how: Mapping[str, object]) -> tuple[str, str]:
    """(sampler, setting): its main option is the setting, or k tokens in each of N steps."""
    sampler, knob, value = apart(str(how["sampler"]))
    name, options = parse("sampler", sampler)
    options.pop("temperature", None)  # of all settings
    sampler = written(name, options)
    if knob != STEPS:
        return sampler, f"usual {knob}" if value is None else f"{knob}={value}"
    steps, length = how.get("steps"), how["length"]
    assert isinstance(length, int)  # by the schema of a sample
    return sampler, f"k{length / steps:g}" if isinstance(steps, int) else "k1"


def short(task: str) -> str:
    """A task's specification; for `lists`, the name of the operation in place of that of the task."""
    _, options = parse("task", task)
    return written(str(options.pop("operation")), options) if "operation" in options else task


def _mean(numbers: Iterable[float | None]) -> float | None:
    """The mean; None if there is nothing, or any number is unknown."""
    known = list(numbers)
    return None if not known or any(one is None for one in known) else fmean(one for one in known if one is not None)
