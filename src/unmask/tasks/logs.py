"""Logs of lm-eval, of any model: the score of each item, beside the cost that the model `unmask` records.

A directory of `--output_path` with `--log_samples` has samples_TASK_DATE.jsonl for each task: a line for each item
under one filter, with its metrics. A request to `unmask` also has a line in requests.jsonl (tasks/lm_eval.py).
`read` joins both in one outcome per item; `write` keeps them in items.jsonl.

Outcomes of other programs are lines of JSON with item and right (0 to 1), and some of model, task, calls, written and
seconds; `item` names an item in all files that are compared.

lm-eval writes each model into its own directory below --output_path. The newest run of a task by a model counts.
An item is a document by its number and the digest of its content: data sets repeat questions, and change.

Metrics that are not numbers from 0 to 1 per item, such as the perplexity of a whole text, are left out by name. Two
logs are compared item by item, with McNemar's exact test (evaluation/compare.py).
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Annotated, Any

import msgspec

from unmask.core import entries, progress
from unmask.core.errors import UnmaskError, cut, listed
from unmask.core.files import atomic
from unmask.core.reading import fit, read_json, read_lines
from unmask.tasks.evaluation.compare import Comparison, compare_shares, in_common

SAMPLES = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[^_]+)\.jsonl")
REQUESTS, ITEMS = "requests.jsonl", "items.jsonl"
MOST = 2**32  # bytes of a file
HASH = 16  # characters of the digest of a document
NAMES = ("model", "pretrained")  # arguments of a model that name it
UNNAMED = (*NAMES, "record", "card", "device", "dtype")  # arguments that do not make it another model
Amount = Annotated[float, msgspec.Meta(ge=0)]
Word = Annotated[str, msgspec.Meta(max_length=200)]


class Outcome(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The result of one item: a line of a file of items."""

    model: Word = "model"
    task: Word = "task"  # with its metric
    item: Word | int  # pairs are made by it
    right: Annotated[float, msgspec.Meta(ge=0, le=1)]
    calls: Amount | None = None  # of the model
    written: Amount | None = None  # tokens without padding
    seconds: Amount | None = None
    tokens_per_call: Amount | None = None

    def __post_init__(self) -> None:
        self.item = str(self.item)


class Line(msgspec.Struct):
    """The entries of a line of samples that are used, besides its metrics."""

    doc_id: int
    filter: str = "none"
    metrics: list[str] = []
    doc_hash: str = ""


class Config(msgspec.Struct):
    """The entries of the configuration of a run that are used."""

    model: str | None = None
    model_args: dict[str, Any] | str | None = None


class Results(msgspec.Struct):
    """The entry of results_DATE.json that is used."""

    config: Config = msgspec.field(default_factory=Config)


class Request(msgspec.Struct):
    """The entries of a line of requests.jsonl that are used."""

    task: str
    doc: int
    model_calls: int
    seconds: float
    tokens: int = 0  # written


def is_log(path: Path) -> bool:
    """Whether a directory has logs of lm-eval."""
    return path.is_dir() and any(_dated(path))


def read(place: str | Path) -> list[Outcome]:
    """The outcomes of a directory of logs, or of a file of items."""
    path = Path(place)
    if is_log(path):
        return _logged(path)
    if not path.is_file():
        raise UnmaskError(
            f"there are no results in {cut(str(path))}",
            "expected logs of lm-eval, a file of items, or records of `unmask eval`",
        )
    return list(map(itemgetter(1), read_lines(path, Outcome)))


def named(metric: str, filter: str) -> str:
    """A metric with its filter, if there is one."""
    return metric if filter == "none" else f"{metric}, {filter}"


def is_score(value: Any) -> bool:
    """Whether it is a number from 0 to 1."""
    return isinstance(value, int | float) and 0 <= value <= 1


def arguments_of(text: str) -> dict[str, Any]:
    """The arguments of a model as lm-eval takes them: name=value,name=value."""
    return dict(part.partition("=")[::2] for part in text.split(",") if part)


def _logged(path: Path) -> list[Outcome]:
    """An outcome for each model, item, task, filter and metric; a note names the metrics that are left out."""
    left_out, outcomes = [], list[Outcome]()
    for model, task, file, newest in _newest(path):
        costs = _costs(file.parent)
        # a run in the directory itself has its requests beside it; of several, the newest
        if newest and task not in map(itemgetter(0), costs):
            costs = _costs(path)
        for metric, items in _scores(file).items():
            if not all(is_score(score) for _, score in items.values()):
                left_out.append(f"{task} ({metric})")
                continue
            for item, (doc, score) in items.items():
                cost = costs.get((task, doc), {})
                outcomes.append(Outcome(model=model, task=f"{task}: {metric}", item=item, right=float(score), **cost))

    if not outcomes:
        raise UnmaskError(
            f"{cut(str(path))} has no score of single items ({listed(left_out) or 'no samples'})",
            "expected metrics from 0 to 1",
            "Run lm-eval with --log_samples --output_path DIR",
        )
    if left_out:
        progress.tell(f"{cut(str(path))}: no score of single items in {listed(dict.fromkeys(left_out))}; left out")
    return outcomes


def _scores(file: Path) -> dict[str, dict[str, tuple[int, Any]]]:
    """The number and the score of each item, by metric."""
    by_metric: dict[str, dict[str, tuple[int, Any]]] = defaultdict(dict)
    for number, content in read_lines(file, dict[str, Any], MOST):
        line = fit(content, Line, f"{file}, line {number}")
        item = f"{line.doc_id} {line.doc_hash[:HASH]}".rstrip()
        for metric in dict.fromkeys(line.metrics):
            items = by_metric[named(metric, line.filter)]
            if item in items:
                raise UnmaskError(
                    f"{file}, line {number} has document {line.doc_id} of {metric} again",
                    "expected each document once",
                    "Keep the lines of one run.",
                )
            items[item] = line.doc_id, content.get(metric)
    return by_metric


def _newest(path: Path) -> Iterator[tuple[str, str, Path, bool]]:
    """(model, task, its last file of samples, whether it is of the last run of all); a note counts the older files."""
    dated = sorted(_dated(path))
    files = {(_model(file), file.parent, task): (date, file) for date, task, file in dated}
    if older := len(dated) - len(files):
        progress.tell(f"{cut(str(path))}: {older} older files of samples are left out; the newest of each model counts")

    places = defaultdict[str, set[Path]](set)  # of a name: two models may have the same
    for model, place, _ in files:
        places[model].add(place)

    for (model, place, task), (date, file) in sorted(files.items()):
        name = model if len(places[model]) == 1 else f"{model} ({place.relative_to(path)})"
        yield name, task, file, date == dated[-1][0]


def _dated(path: Path) -> Iterator[tuple[str, str, Path]]:
    """(date, task, file) of each file of samples."""
    for file in path.rglob("samples_*.jsonl"):
        if name := SAMPLES.fullmatch(file.name):
            yield name["date"], name["task"], file


def costs_of(requests: Iterable[Request]) -> dict[tuple[str, int], dict[str, Any]]:
    """Model calls, written tokens and seconds of each document of a task: sums over its requests."""
    sums: dict[tuple[str, int], dict[str, Any]] = {}
    for one in requests:
        known = sums.setdefault((one.task, one.doc), {"calls": 0, "written": 0, "seconds": 0.0})
        known["calls"] += one.model_calls
        known["written"] += one.tokens
        known["seconds"] += one.seconds
    return sums


def _costs(directory: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """The costs in a directory; none without its file of requests."""
    if not (directory / REQUESTS).exists():
        return {}
    return costs_of(map(itemgetter(1), read_lines(directory / REQUESTS, Request, MOST)))


def _model(samples: Path) -> str:
    """The model of a run, with its arguments, from results_DATE.json beside the samples."""
    results = samples.with_name(f"results_{samples.stem.rpartition('_')[2]}.json")
    config = (read_json(results, Results, MOST) if results.exists() else Results()).config
    given = config.model_args or {}
    if isinstance(given, str):
        given = arguments_of(given)
    names = list(map(str, entries.picked(given, NAMES).values())) or [config.model or samples.parent.name]
    return ", ".join(names + entries.assignments(entries.without(given, UNNAMED)))


def write(directory: str | Path) -> Path:
    """Write the outcomes of a directory as items.jsonl, a line for each item and metric; return its path."""
    path = Path(directory) / ITEMS
    with atomic(path) as file:
        for one in read(directory):
            one.tokens_per_call = one.written / one.calls if one.written and one.calls else None
            file.write(json.dumps(entries.given(msgspec.structs.asdict(one))).encode() + b"\n")
    return path


def paired(first: Sequence[Outcome], second: Sequence[Outcome]) -> dict[str, Comparison]:
    """Compare the common items of each task and metric that both have; each side has one model."""
    for side in (first, second):
        if len(models := dict.fromkeys(entries.column(side, "model"))) > 1:
            raise UnmaskError(
                f"{len(models)} models are to be compared as one: {listed(models)}",
                "expected one on each side",
                "Pass the directory of a model.",
            )

    ones = entries.grouped(first, attrgetter("task"))
    others = entries.grouped(second, attrgetter("task"))
    compared = {}
    for task, own in ones.items():
        if common := in_common(_scored(own), _scored(others.get(task, []))):
            compared[task] = compare_shares(common)

    if not compared:
        raise UnmaskError(
            "they have no items in common", f"expected the same tasks, and they are {listed(ones)} and {listed(others)}"
        )
    return compared


def _scored(outcomes: Sequence[Outcome]) -> dict[str | int, float]:
    """The score of each item."""
    return dict(map(attrgetter("item", "right"), outcomes))
