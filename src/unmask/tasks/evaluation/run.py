"""evaluate(): models write answers to the items of a task, kept in a store of `unmask.sweep`, which are then checked.

Checks run after all samples are written. An answer is checked only as far as it was asked for: `MOST` characters for
each token of its setting.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from unmask.core import arguments, entries, progress
from unmask.core.chance import check_seed
from unmask.core.run import Evaluating
from unmask.experiments.recipe import Recipe, from_dict
from unmask.experiments.run import sweep
from unmask.models.open.prompted import before_any
from unmask.samplers import SAMPLERS
from unmask.tasks import TASKS, Item, Task
from unmask.tasks import sample as samples
from unmask.tasks.contract import fingerprint
from unmask.tasks.evaluation import records
from unmask.tasks.evaluation.records import Group, groups
from unmask.tasks.sample import Sample
from unmask.tasks.writing import How

SWEPT = ("sampler", "steps", "length", "eos", "temperature")  # may have several values
COMMON = ("dtype", "device", "top_p", "top_k", "until", "chat", "system", "each", "batch", "seed")
OF_BOTH = ("length", "eos", "temperature")  # swept options that also apply to AR
OF_MASKED = ("schedule", "guidance")
MOST = 128  # characters of a token: those of the longest spaces in vocabularies
NO_ANSWER, WRONG = "no answer in the text", "another answer"


@dataclass(frozen=True, kw_only=True)
class Settings(Evaluating):
    """Checked settings. The AR model writes from left to right and has no steps."""

    def __post_init__(self) -> None:
        TASKS.make(self.task)
        if self.limit is not None:
            arguments.whole("limit", self.limit, 1)
        arguments.whole("each", self.each, 1, 10**4)
        arguments.whole("batch", self.batch, 1, arguments.MOST_ROWS)
        check_seed(self.seed)
        for point in self.points():
            How(**entries.picked(point, How.__dataclass_fields__))

    @property
    def file(self) -> str:
        """The file of the items; "" if there is none."""
        return "" if self.data is None else os.path.abspath(self.data)

    @property
    def items(self) -> int:
        """The number of items."""
        return len(TASKS.make(self.task).items(self.file or None)[: self.limit])

    def points(self) -> list[dict[str, Any]]:
        """The settings of each cell without its rows: combinations of swept options, then the AR model."""
        own = vars(self)
        common = entries.picked(own, COMMON) | {"task": self.task, "data": self.file}
        masked = common | entries.picked(own, (*OF_MASKED, "model", "card"))

        # a speculative sampler needs the AR model as well
        if any("causal" in SAMPLERS.make(sampler).reads for sampler in self.sampler):
            masked["causal_model"] = self.causal_model

        points = _combined(masked, entries.picked(own, SWEPT))
        if self.causal_model is not None:
            causal = common | {"model": self.causal_model, "card": self.causal_card}
            points += _combined(causal, entries.picked(own, OF_BOTH))
        return list(map(entries.given, points))


def _combined(fixed: Mapping[str, Any], swept: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every combination of the swept options that have values, each with the fixed ones."""
    used = {name: values for name, values in swept.items() if values}
    return [{**fixed, **dict(zip(used, values, strict=True))} for values in product(*used.values())]


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The checked records of a directory."""

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
    engine: str = "local",
    workers: int = 1,
    **how: Any,
) -> Evaluation:
    """Write the missing answers, a batch at a time, then check all answers. An interruption loses at most one batch.

    out: a directory for the store of `unmask.sweep` and the records. how: other options of `unmask.sweep`.
    """
    directory = arguments.path("out", out)
    every = TASKS.make(settings.task).items(settings.file or None)

    # other items under the same name would be mixed with these
    if (directory / records.RECORDS).exists():
        same = [one for one in records.read(directory) if one.about["task"] == settings.task]
        records.check_same_items(same, fingerprint(every), str(directory))

    sweep(plan([settings]), store=directory, engine=engine, workers=workers, **how).whole()
    return check(directory)


def plan(settings: Sequence[Settings]) -> Recipe:
    """The sweep of all items; a store keeps the answers to the first of them."""
    parts = [{"fixed": point, "rows": one.items * one.each} for one in settings for point in one.points()]
    return from_dict({"name": "evaluation", "jobs": ["evaluation"], "parts": parts})


def check(directory: str | Path) -> Evaluation:
    """Check all answers of a store, also of other drivers, and write its records."""
    path = arguments.path("directory", directory)
    done: list[Sample] = []
    for (task, data), own in records.written(path).items():
        items = TASKS.make(task).items(data or None)
        records.check_same_items(own, fingerprint(items), str(path))
        done += checked(own, task, items)
    samples.write(path / records.RECORDS, done)
    return Evaluation(path, done)


def checked(samples: Sequence[Sample], task: str, items: Sequence[Item]) -> list[Sample]:
    """The same samples with their verdicts."""
    target = TASKS.make(task)
    by_name = dict(zip(entries.column(items, "name"), items, strict=True))
    if long := sum(len(sample.text) > MOST * sample.about["how"]["length"] for sample in samples):
        bound = f"only the first {MOST} characters for each token of the length are read"
        progress.note(f"{task}: {long} of {len(samples)} answers are longer than was asked for; {bound}")

    return [_checked(target, by_name[sample.item], sample) for sample in samples]


def _checked(task: Task, item: Item, sample: Sample) -> Sample:
    if not sample.answered:
        return msgspec.structs.replace(sample, answer=None, why=sample.reason, right=None, values={})

    how = sample.about["how"]
    text = before_any(sample.text[: MOST * how["length"]], how["until"])
    answer = task.answer(item, text)
    values = dict(task.values(item, answer, text))

    right, why = False, NO_ANSWER
    if answer is not None:
        right = task.right(item, answer)
        why = "" if right else WRONG
    return msgspec.structs.replace(sample, answer=answer, why=why, right=right, values=values)
