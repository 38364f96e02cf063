"""evaluate(): models write the answers of a task's items, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.core import arguments
from unmask.experiments.evaluation import checking, records
from unmask.experiments.evaluation.settings import Settings
from unmask.experiments.evaluation.summary import Group, groups
from unmask.experiments.jobs.cells import canonical, cells_of
from unmask.experiments.jobs.opening import FILE
from unmask.experiments.jobs.recipe import Recipe, from_dict
from unmask.experiments.jobs.run import EngineName, sweep
from unmask.experiments.jobs.store import Store
from unmask.tasks import TASKS, asking
from unmask.tasks import sample as samples
from unmask.tasks.contract import fingerprint
from unmask.tasks.sample import Sample

if TYPE_CHECKING:
    from unmask.sandbox import Sandbox

FIRST = 64  # items after which it is asked for the first time whether they are enough; then twice as many


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The records of a directory, each with what became of it."""

    directory: Path
    samples: Sequence[Sample]

    def __repr__(self) -> str:
        return f"<Evaluation of {len(self.samples)} samples in {self.directory}>"

    @property
    def groups(self) -> list[Group]:
        return groups(self.samples)


def evaluate(
    settings: Settings,
    *,
    out: str | Path,
    sandbox: Sandbox | None = None,
    until_decided: float | None = None,
    engine: EngineName = "local",
    workers: int = 1,
    **how: Any,
) -> Evaluation:
    """What is not there yet is written, a batch at a time, so that little is lost whatever stops it; then all of it is
    held against the truth.

    out: a directory: a store of `unmask.sweep`, and the records. sandbox: programs are run in it, or not at all.
    until_decided: stop at so few items that every accuracy is known to within it. how: other options of `unmask.sweep`.
    """
    if until_decided is not None:
        arguments.number("until_decided", until_decided, 0.0, 1.0, above=True)
    directory = arguments.path("out", out)
    every = TASKS.make(settings.task).items(settings.file or None)
    if (directory / records.RECORDS).exists():
        same = [one for one in records.read(directory) if one.about["task"] == asking(settings.task)]
        records.check_same_items(same, fingerprint(every), str(directory))
    wanted = len(every[: settings.limit])
    end = wanted if until_decided is None else min(FIRST, wanted)
    while True:
        sweep(plan(settings, directory, end), store=directory, engine=engine, workers=workers, **how).whole()
        made = check(directory, sandbox=sandbox, reading=settings.task)
        if end == wanted or _decided(made.groups, until_decided):
            return made
        end = min(2 * end, wanted)


def check(directory: str | Path, *, sandbox: Sandbox | None = None, reading: str | None = None) -> Evaluation:
    """All that a store has written, whoever drove it, held against the truth; its records are left there.

    reading: a task with options that say how its answers are read: "gsm8k(answer_by=strict)".
    """
    place = arguments.path("directory", directory)
    found: list[Sample] = []
    for (task, data), own in records.written(place).items():
        way = reading if reading is not None and asking(reading) == task else task
        items = TASKS.make(way).items(data or None)
        records.check_same_items(own, fingerprint(items), str(place))
        found += checking.checked(own, way, items, sandbox)
    samples.write(place / records.RECORDS, found)
    return Evaluation(place, found)


def plan(settings: Settings, directory: Path, end: int) -> Recipe:
    """The sweep of the first so many items: the cells that the store has of them already, and one for the rest."""
    known: dict[str, list[tuple[int, int]]] = {}
    if (directory / FILE).exists():
        with Store.create(directory) as store:  # a store that a full disk has left without tables gets them
            for spec in map(store.spec, store.keys()):
                known.setdefault(_but_rows(spec), []).append((spec.get("first_row", 0), spec.get("rows", 0)))
    parts = []
    for point in settings.points():
        (cell,) = cells_of(from_dict({"metrics": ["evaluation"], "fixed": point}, "evaluation"))
        for first, rows in _spans(known.get(_but_rows(cell.spec), []), end * settings.each):
            parts.append({"fixed": point | {"first_row": first}, "rows": rows})
    return from_dict({"name": "evaluation", "metrics": ["evaluation"], "parts": parts})


def _but_rows(spec: Mapping[str, Any]) -> str:
    return canonical({name: value for name, value in spec.items() if name not in ("first_row", "rows")})


def _spans(known: Sequence[tuple[int, int]], end: int) -> list[tuple[int, int]]:
    """(first, how many) of what is known from 0 on without a gap, and then of the rest."""
    found, at = [], 0
    for first, many in sorted(known):
        if first == at < end:
            found.append((first, many))
            at += many
    return [*found, (at, end - at)] if at < end else found


def _decided(found: Sequence[Group], within: float | None) -> bool:
    accuracies = [group.accuracy for group in found]
    return within is not None and all(
        accuracy is not None and accuracy.high - accuracy.low <= 2 * within for accuracy in accuracies
    )
