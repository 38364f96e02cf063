"""evaluate(): models write answers to the items of a task, which are then checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unmask.core import arguments
from unmask.experiments.pool import EngineName
from unmask.experiments.recipe import Recipe, from_dict
from unmask.experiments.run import sweep
from unmask.tasks import TASKS, asking
from unmask.tasks import sample as samples
from unmask.tasks.contract import fingerprint
from unmask.tasks.evaluation import checking, records
from unmask.tasks.evaluation.settings import Settings
from unmask.tasks.evaluation.summary import Group, groups
from unmask.tasks.sample import Sample

FIRST = 64  # items before the first test whether they suffice; then twice as many


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The checked records of a directory."""

    directory: Path
    samples: Sequence[Sample]
    too_long_is_wrong: bool = False  # otherwise the accuracy leaves them out

    def __repr__(self) -> str:
        return f"<Evaluation of {len(self.samples)} samples in {self.directory}>"

    @property
    def groups(self) -> list[Group]:
        return groups(self.samples, self.too_long_is_wrong)


def evaluate(
    settings: Settings,
    *,
    out: str | Path,
    until_decided: float | None = None,
    engine: EngineName = "local",
    workers: int = 1,
    **how: Any,
) -> Evaluation:
    """Write the missing answers, a batch at a time, then check all answers. An interruption loses at most one batch.

    out: a directory for the store of `unmask.sweep` and the records. until_decided: stop once every accuracy has an
    interval of at most +- this. how: other options of `unmask.sweep`.
    """
    if until_decided is not None:
        arguments.number("until_decided", until_decided, 0.0, 1.0, above=True)
    directory = arguments.path("out", out)
    every = TASKS.make(settings.task).items(settings.file or None)
    if (directory / records.RECORDS).exists():
        same = [one for one in records.read(directory) if one.about["task"] == asking(settings.task)]
        records.check_same_items(same, fingerprint(every), str(directory))
    limit = len(every[: settings.limit])
    end = limit if until_decided is None else min(FIRST, limit)
    while True:
        sweep(plan([settings], end), store=directory, engine=engine, workers=workers, **how).whole()
        result = check(directory, reading=settings.task)
        if end == limit or _decided(result.groups, until_decided):
            return result
        end = min(2 * end, limit)


def check(directory: str | Path, *, reading: str | None = None) -> Evaluation:
    """Check all answers of a store, also of other drivers, and write its records.

    reading: a task with options for reading answers: "gsm8k(answer_by=strict)".
    """
    path = arguments.path("directory", directory)
    checked: list[Sample] = []
    for (task, data), own in records.written(path).items():
        way = reading if reading is not None and asking(reading) == task else task
        items = TASKS.make(way).items(data or None)
        records.check_same_items(own, fingerprint(items), str(path))
        checked += checking.checked(own, way, items)
    samples.write(path / records.RECORDS, checked)
    return Evaluation(path, checked)


def plan(settings: Sequence[Settings], end: int | None = None) -> Recipe:
    """The sweep of the items before `end` (default: all); a store keeps the answers to the first of them."""
    parts = [
        {"fixed": point, "rows": (one.items if end is None else end) * one.each}
        for one in settings
        for point in one.points()
    ]
    return from_dict({"name": "evaluation", "jobs": ["evaluation"], "parts": parts})


def _decided(settings: Sequence[Group], within: float | None) -> bool:
    accuracies = [group.accuracy for group in settings]
    return within is not None and all(
        accuracy is not None and accuracy.high - accuracy.low <= 2 * within for accuracy in accuracies
    )
