"""evaluate(): models write answers to the items of a task, which are then checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unmask.core import arguments
from unmask.experiments.sweeps.cells import canonical, cells_of
from unmask.experiments.sweeps.recipe import Recipe, from_dict
from unmask.experiments.sweeps.run import EngineName, sweep
from unmask.experiments.sweeps.store import Store
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
        sweep(plan([settings], directory, end), store=directory, engine=engine, workers=workers, **how).whole()
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


def plan(settings: Sequence[Settings], directory: Path, end: int | None = None) -> Recipe:
    """The sweep of the items before `end` (default: all): their existing cells, and a cell for the rest."""
    known: dict[str, list[tuple[int, int]]] = {}
    if (store := Store.find(directory)) is not None:
        with store:
            for spec in map(store.spec, store.keys()):
                known.setdefault(_but_rows(spec), []).append((spec.get("first_row", 0), spec.get("rows", 0)))
    parts = []
    for one in settings:
        last = (one.items if end is None else end) * one.each
        for point in one.points():
            (cell,) = cells_of(from_dict({"jobs": ["evaluation"], "fixed": point}, "evaluation"))
            for first, rows in _spans(known.get(_but_rows(cell.spec), []), last):
                parts.append({"fixed": point | {"first_row": first}, "rows": rows})
    return from_dict({"name": "evaluation", "jobs": ["evaluation"], "parts": parts})


def _but_rows(spec: Mapping[str, Any]) -> str:
    return canonical({name: value for name, value in spec.items() if name not in ("first_row", "rows")})


def _spans(known: Sequence[tuple[int, int]], end: int) -> list[tuple[int, int]]:
    """(first, number) of the known cells from 0 on without a gap, then of the rest."""
    spans, at = [], 0
    for first, many in sorted(known):
        if first == at < end:
            spans.append((first, many))
            at += many
    return [*spans, (at, end - at)] if at < end else spans


def _decided(settings: Sequence[Group], within: float | None) -> bool:
    accuracies = [group.accuracy for group in settings]
    return within is not None and all(
        accuracy is not None and accuracy.high - accuracy.low <= 2 * within for accuracy in accuracies
    )
