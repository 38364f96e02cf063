"""The results of a benchmark of parallel decoding: an outcome for each item, in settings of samplers; and their files.

An item has a canvas of masked positions, and a sampler needs some model calls to fill it. Tokens per step have two
definitions. Each is a mean over tasks:

    published    the mean over items of canvas / model calls; padding counts as tokens
    real         mean number of written tokens / mean model calls, without padding

Files are records of `unmask eval`, or lines of JSON of any program, one for each item, with the fields of `Line`: item,
right and calls.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated

import msgspec

from unmask.core.errors import UnmaskError, cut
from unmask.core.reading import read_lines
from unmask.core.registry import parse, written
from unmask.experiments.board.families import STEPS, apart
from unmask.tasks.evaluation import records
from unmask.tasks.sample import Sample

OPTION = re.compile(r"([A-Za-z][A-Za-z_]*?)=?(-?\d+(?:\.\d+)?)(?:_|$)")
OWN, ITEMS = "unmask", "items"  # sources: own records, files of items
LAYOUTS = "files of items (.jsonl with item, right and calls) or records of `unmask eval`"
Amount = Annotated[float, msgspec.Meta(ge=0)]
Word = Annotated[str, msgspec.Meta(max_length=200)]


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
    forwards: float | None = None  # model calls
    canvas: int | None = None  # masked positions at the beginning
    written: float | None = None  # tokens without padding
    seconds: float | None = None


@dataclass(frozen=True)
class Setting:
    """All outcomes of one setting of a sampler."""

    source: str
    model: str
    sampler: str
    setting: str
    tasks: Mapping[str, Sequence[Outcome]]  # sorted by item; each item once

    @property
    def score(self) -> float:
        """S: the mean over tasks of the mean score, from 0 to 1."""
        return fmean(fmean(one.score for one in own) for own in self.tasks.values())

    @property
    def published(self) -> float | None:
        """R: tokens per step; None if the model calls are unknown."""
        return _mean(_mean(map(tokens_per_step, own)) for own in self.tasks.values())

    @property
    def real(self) -> float | None:
        pairs = [(_mean(one.written for one in own), _mean(one.forwards for one in own)) for own in self.tasks.values()]
        return _mean(a / b if a is not None and b else None for a, b in pairs)

    @property
    def top_k(self) -> bool:
        """Whether each step reveals a fixed number k of positions."""
        return list(options(self.setting)) == ["k"]


def settings(outcomes: Iterable[Outcome]) -> list[Setting]:
    """Outcomes by setting, in their order. Of an item that occurs twice in a setting, the last outcome counts."""
    places: dict[tuple[str, str, str, str], dict[str, dict[str, Outcome]]] = {}
    for one in outcomes:
        place = one.source, one.model, one.sampler, one.setting
        places.setdefault(place, {}).setdefault(one.task, {})[one.item] = one
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


def of_samples(samples: Iterable[Sample]) -> list[Outcome]:
    """Outcomes of own records that have a verdict."""
    own: dict[tuple[str, str, str, str, str], list[Sample]] = {}
    for sample in samples:
        if sample.right is not None and sample.answered:
            about = sample.about
            key = hashlib.sha256("\0".join((about["task"], about["data"], sample.item)).encode()).hexdigest()
            setting = about["model"]["card"], *_named(about["how"]), short(about["task"])
            own.setdefault((*setting, key), []).append(sample)
    return [
        Outcome(
            source=OWN,
            model=model,
            sampler=sampler,
            setting=setting,
            task=task,
            item=item,
            score=fmean(bool(one.right) for one in same),
            forwards=fmean(one.needed for one in same),
            canvas=same[0].about["how"]["length"],
            written=fmean(len(one.tokens) for one in same),
            seconds=fmean(one.seconds for one in same),
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


class Line(msgspec.Struct, forbid_unknown_fields=True):
    """One item of a file. Without a name of the sampler, it is that of the file."""

    item: Word | int
    right: Annotated[float, msgspec.Meta(ge=0, le=1)]
    calls: Amount | None = None  # model calls
    canvas: Annotated[int, msgspec.Meta(gt=0)] | None = None  # masked positions at the beginning
    written: Amount | None = None  # tokens without padding
    seconds: Amount | None = None
    tokens_per_call: Amount | None = None
    task: Word = "task"
    setting: Word = "usual"
    sampler: Word = ""
    model: Word = "model"


def read(paths: Sequence[str | Path]) -> list[Outcome]:
    """Read all results of some files or directories."""
    everything: list[Outcome] = []
    for path in map(Path, paths):
        if not path.exists():
            raise UnmaskError(f"cannot read {cut(str(path))}: it does not exist; expected {LAYOUTS}")
        if (path / records.RECORDS).exists() or path.name == records.RECORDS:
            outcomes = of_samples(records.read(path))
        else:
            files = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
            outcomes = [_outcome(line, file) for file in files for _, line in read_lines(file, Line)]
        if not outcomes:
            raise UnmaskError(f"there are no results in {cut(str(path))}; expected {LAYOUTS}")
        everything += outcomes
    return everything


def _outcome(line: Line, file: Path) -> Outcome:
    return Outcome(
        source=ITEMS,
        model=line.model,
        sampler=line.sampler or file.stem,
        setting=line.setting,
        task=line.task,
        item=str(line.item),
        score=line.right,
        forwards=line.calls,
        canvas=line.canvas,
        written=line.written,
        seconds=line.seconds,
    )


def _mean(numbers: Iterable[float | None]) -> float | None:
    """The mean; None if there is nothing, or any number is unknown."""
    known = list(numbers)
    return None if not known or any(one is None for one in known) else fmean(one for one in known if one is not None)
