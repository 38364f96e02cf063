"""The results of all kinds of stores as one tidy table: each number is a point, with its setting and cost.

    of         the language, task or text            model     "ideal", "trained", or a network's name
    kind       mdm, ar, or text (itself)             sampler, schedule, length, batch; setting: other varied options
    steps      N, or None                            knob      "threshold = 0.9", of a sampler without N
    measure    value, low, high, n, level, method    `model_calls` (model calls), flops, seconds per sequence
    flops      relative to AR                        causal    model calls of an AR model among `model_calls`

Cells that differ only in their random seeds are one point. No job is known by name: the kind of a record follows from
the fields of its cell.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, starmap
from operator import attrgetter, itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from unmask.core import entries
from unmask.core.errors import UnmaskError, cut
from unmask.core.estimates import LEVEL, Estimate, proportion
from unmask.core.files import finite
from unmask.core.means import of_variance
from unmask.core.reading import read_text
from unmask.core.specs import parse, written
from unmask.experiments.board.families import STEPS, apart
from unmask.experiments.jobs.sources import OF_AR
from unmask.experiments.jobs.texts import EXAMPLE
from unmask.experiments.store import FILE, Store
from unmask.experiments.tables import AFTER, FAILURES_SHOWN
from unmask.languages.presets import unseeded
from unmask.models.trained.checkpoints import CONFIG, read_shape
from unmask.models.trained.shape import preset
from unmask.planning.flops import break_even
from unmask.report.select import among, column, different, having, indexed, key_of, where
from unmask.tasks.evaluation import records
from unmask.tasks.evaluation.published import SECONDS, of_cell
from unmask.tasks.evaluation.records import RECORDS
from unmask.tasks.logs import ITEMS

Point = dict[str, Any]

STORE = "sweep"  # next to a page: the store from which an interrupted command resumes
WHO = ("of", "model", "kind", "sampler", "schedule", "length", "steps", "knob", "batch", "setting")  # identify a point
IDEAL, TRAINED = "ideal", "trained"
OF = ("language", "task", "text")
RANDOM = ("seed", "first_row", "digest", "code", "rows", "ter_rows", "device", "quick", "keep")
OWN = {*OF, *RANDOM, *WHO, *AFTER, "draw", "job", "noise", "causal_model", "metric", SECONDS}
AR = "autoregressive"
JOINT = " + "  # "ancestral + fitted": a sampler with a joint draw
ENDS = ("value", "low", "high")
RATIO, EVALUATION = "generative_perplexity_ratio", "evaluation"
COLUMNS = (*WHO, "measure", *ENDS, "n", "method", "model_calls", "flops", "seconds", "causal", "job")  # of files
USUAL = preset("paper", "mdm", 8)  # its compute is assumed for cells without a network


@dataclass
class Results:
    """The contents of some stores."""

    points: list[Point] = field(default_factory=list)
    networks: dict[str, Path] = field(default_factory=dict)  # the directories of the trained ones
    missing: list[str] = field(default_factory=list)  # messages: cells to do, failed cells with the error
    sources: list[str] = field(default_factory=list)  # the directories
    work: float = 0.0  # seconds of all cells
    examples: dict[str, str] = field(default_factory=dict)  # a text by its model
    items: dict[str, dict[str, float]] = field(default_factory=dict)  # scores of the items of a task, by cell
    answers: list[tuple[str, Point, records.Group]] = field(default_factory=list)  # of settings, each with its name
    _of: dict[tuple[str, ...], list[Point]] = field(default_factory=dict, init=False, repr=False)  # asked before

    def of(self, *measures: str) -> list[Point]:
        if measures not in self._of:
            self._of[measures] = among(self.points, "measure", measures)
        return self._of[measures]

    def choices(self, name: str) -> list[Any]:
        """The values of a field, in the order of the points."""
        return different(having(self.points, name), name)


def read(directories: Sequence[str | Path], keys: Collection[str] | None = None) -> Results:
    """Read the results of some stores; keys: only these cells of sweeps."""
    if not directories:
        raise UnmaskError("no directory is given; expected that of a sweep or an evaluation")

    results = Results(sources=list(map(str, directories)))
    rows: dict[str, list[dict[str, Any]]] = {}  # by cell: a cell of two stores is one measurement
    other: list[Point] = []

    for given in directories:
        directory = place(Path(given))
        if (directory / FILE).exists():
            rows = of_sweep(Store.open(directory), keys, results) | rows
        if (directory / RECORDS).exists():
            other += of_evaluation(directory, results)

    results.points = points(chain.from_iterable(rows.values())) + other
    return results


def place(directory: Path) -> Path:
    """The directory of a store: itself, or its `sweep` if it contains a page."""
    for candidate in (directory, directory / STORE):
        if (candidate / FILE).exists() or (candidate / RECORDS).exists():
            return candidate
    if not directory.exists():
        raise UnmaskError(
            f"there is no directory {cut(str(directory))}", "Pass the directory of a sweep, a page or an evaluation"
        )
    raise UnmaskError(
        f"{cut(str(directory))} contains no results",
        f"expected {FILE} or {RECORDS} in it, or in its {STORE}",
        "Measure with `unmask sweep run RECIPE`",
    )


def of_sweep(store: Store, keys: Collection[str] | None, results: Results) -> dict[str, list[dict[str, Any]]]:
    """The rows of a store by cell; files, missing cells and seconds of work go to `results`."""
    cells = entries.grouped(store.rows(keys), itemgetter("key"))

    if os.path.lexists(store.files):
        for key, own in cells.items():
            of_files(store.place(key), own, results)

    if store.todo:
        left = f"{len(store.todo)} of {len(store.cells)} cells of {store.directory}"
        results.missing.append(f"{left} are not measured yet")

    for key, failed in list(store.failed.items())[:FAILURES_SHOWN]:
        cell = store.spec(key)
        about = filter(None, key_of(cell, *OF[:2], "model", "sampler", "steps"))
        results.missing.append(f"failed: {cell['job']} ({', '.join(map(str, about))}): {failed.error}")
    if (more := len(store.failed) - FAILURES_SHOWN) > 0:
        results.missing.append(f"{more} more cells of {store.directory} failed")

    results.work += sum(entries.column(entries.picked(store.done, cells).values(), "seconds"))
    return cells


def of_files(directory: Path, rows: Sequence[dict[str, Any]], results: Results) -> None:
    """The network, the example and the items of a cell, if it has files; its rows get the noise of the network."""
    row = rows[0]
    if (directory / ITEMS).exists():
        results.items[row["key"]] = of_cell(directory, row["metric"])
    if (directory / EXAMPLE).exists():
        writers = {"text": "The text itself", "ar": "AR"}
        results.examples[writers.get(_kind(row), f"MDM, {row.get('steps')} steps")] = read_text(directory / EXAMPLE)
    if (directory / CONFIG).exists():
        noise = read_shape(directory).noise
        kind = {"uniform": "uniform noise"}.get(noise, row["kind"].upper())
        results.networks[f"{_of(row)}, {kind}"] = directory
        for one in rows:
            one["noise"] = noise


def of_evaluation(directory: Path, results: Results) -> list[Point]:
    """A point per setting and number; compute is relative to the AR model. Messages go to `results`."""
    groups = records.groups(records.read(directory))
    by_kind = entries.grouped(groups, attrgetter("causal"))
    causal, masked = by_kind.get(True, []), by_kind.get(False, [])
    ar = {group.settings["task"]: group.cost()["flops"] for group in causal}
    several = len(causal) > len(ar)  # AR settings of one task
    varied = _own_choices(masked)

    measured = []
    for label, group in zip(records.labels(groups), groups, strict=True):
        settings, cost = group.settings, group.cost()
        about = dict.fromkeys(WHO) | entries.picked(settings, ("sampler", "length")) | {"of": settings["task"]}
        spent = entries.picked(cost, ("model_calls", "seconds")) | {
            "job": EVALUATION,
            "key": "",
            "causal": 0.0,
            "flops": None,
        }

        if group.causal:
            about["kind"] = "ar"
            if several:
                about["setting"] = label
        else:
            about["kind"] = "mdm"
            own = starmap("{}={}".format, entries.picked(settings, varied).items())
            about |= entries.picked(settings, ("model", "schedule", "steps")) | {"setting": ", ".join(own) or None}
            sampler, knob, value = apart(str(settings["sampler"]))
            if knob != STEPS and value is not None:  # the option that decides the number of steps, in place of N
                about |= {"sampler": sampler, "knob": f"{knob} = {value}", "steps": None}
            calls = sum(sample.model_calls.get("causal", 0) for sample in group.written)
            spent["causal"] = calls / max(len(group.written), 1)

        results.answers.append((label, about, group))
        base = ar.get(settings["task"])
        if base and cost["flops"]:
            spent["flops"] = cost["flops"] / base

        estimates = {"accuracy": group.accuracy} | group.values(group.valued)
        for name, estimate in entries.given(estimates).items():
            measured.append(about | {"measure": name} | finite(estimate.to_dict()) | spent)
        if group.too_long:
            results.missing.append(f"not measured: {label}: {group.too_long}")

    return measured


def _own_choices(masked: Sequence[records.Group]) -> list[str]:
    """The names of other settings that all have, that differ, and that do not follow from the model."""
    settings = entries.column(masked, "settings")
    names = []
    for name in entries.without(dict.fromkeys(records.varied(masked)), (*WHO, "task")):
        choices = {(own["model"], str(own.get(name))) for own in settings}
        if all(name in own for own in settings) and len(choices) > len(different(settings, "model")):
            names.append(name)
    return names


def _kind(row: Mapping[str, Any]) -> str:
    """The writer of the sequences: an MDM, an AR model, or the author of the text."""
    known = entries.given(entries.picked(row, ("kind", "sampler", "schedule", "steps", "budget")))
    if row.get("text") and not known:
        return "text"
    one_by_one = row.get("language") and not known and row.get("model_calls") == row.get("length")
    if one_by_one or row.get("sampler") == AR or row.get("kind") == "ar":
        return "ar"
    return "mdm"


def points(rows: Iterable[Mapping[str, Any]]) -> list[Point]:
    """The rows of tables as points; rows that differ only in their random seed are pooled."""
    rows = [row for row in having(rows, "value") if row["job"] != EVALUATION]  # of_evaluation reads it
    varied = _varied(row for row in rows if "budget" not in row)  # a board varies its budget alone
    several = len({row["model"] for row in rows if row.get("task") and _kind(row) == "ar"}) > 1

    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        key = (*_who(row, varied, several).values(), row["measure"])
        own = groups.setdefault(key, [])
        if own and own[0]["job"] != row["job"]:
            continue  # another metric measured the same, perhaps on the same sequences
        own.append(row)

    names = (*WHO, "measure")
    pooled = [dict(zip(names, key, strict=True)) | _pooled(own) for key, own in groups.items()]
    _add_causal(pooled)
    _add_ratios(pooled)
    _add_seconds(pooled)
    return pooled


def _who(row: Mapping[str, Any], varied: Sequence[str], several: bool) -> Point:
    """several: AR models of tasks, which their settings name; one is the reference of every masked model."""
    kind = _kind(row)
    about = dict.fromkeys(WHO) | {"of": _of(row), "kind": kind, "length": row.get("length"), "batch": row.get("batch")}
    about["sampler"] = _sampler(row, kind)

    if kind != "ar":
        about |= {"schedule": row.get("schedule"), "steps": row.get("steps")}
        if row.get("budget") is not None:
            about |= _paced(row)

    options = [f"{name}={row[name]}" for name in varied if row.get(name) not in (None, "")]
    if row.get("task") and kind == "ar":
        if several:
            options.append(_named(row["model"]) or "")
    else:
        about["model"] = _writer(row, kind)

    about["setting"] = ", ".join(options) or None
    return about


def _sampler(row: Mapping[str, Any], kind: str) -> str | None:
    if kind == "ar":
        return AR
    sampler: str | None = row.get("sampler")
    if sampler and row.get("budget") is not None:
        sampler = _without(sampler, row.get("knob", STEPS))

    if not sampler and row.get("language"):
        sampler = {"uniform": "uniform-ancestral"}.get(row.get("noise", ""), "ancestral")  # noise of a network

    if sampler and row.get("draw") not in (None, "product"):
        sampler += f"{JOINT}{row['draw']}"
    return sampler


def _without(sampler: str, knob: str) -> str:
    """The specification without the list of values that a board tries: each of its cells has one."""
    name, options = parse("sampler", sampler)
    options.pop(knob, None)
    return written(name, options)


def _paced(row: Mapping[str, Any]) -> Point:
    """The budget of a cell of a board: N, or the value of another knob."""
    knob = row.get("knob", STEPS)
    if knob == STEPS:
        return {"steps": row["budget"]}
    return {"steps": None, "knob": f"{knob} = {row['budget']:g}"}


def _writer(row: Mapping[str, Any], kind: str) -> str:
    if "training_steps" in row and kind != "text":
        return TRAINED
    return _named(row.get("model")) or IDEAL


_unseeded = cache(unseeded)


def _of(row: Mapping[str, Any]) -> str:
    """The language, task or text of a row; without the random seed of a language, so that these are pooled."""
    own = row.get("language") or row.get("task") or row.get("text") or _named(row.get("model")) or ""
    return _unseeded(str(own))


def _named(model: Any) -> str | None:
    """The name of a network: that of its directory or repository."""
    return Path(str(model)).name if model else None


def _varied(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Other fields of cells in which cells of one metric, language and kind differ."""
    texts: dict[tuple[str, str, str], dict[str, set[str]]] = {}
    for row in rows:
        own = texts.setdefault((row["job"], _of(row), _kind(row)), {})
        for name, value in entries.without(row, OWN).items():
            own.setdefault(name, set()).add(str(value))
    return list(dict.fromkeys(name for own in texts.values() for name, values in own.items() if len(values) > 1))


def _pooled(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One estimate from several independent ones, and the mean costs of their rows."""
    estimate = _together(list(map(Estimate.of_record, rows)))
    numbers = finite(estimate.to_dict())
    if estimate.open:
        numbers |= {"low": None, "high": None}

    costs = column(having(rows, "model_calls"), "model_calls")
    about: dict[str, Any] = {"model_calls": None, "causal": 0.0, "flops": None, "seconds": None}
    if costs:
        about["model_calls"] = fmean(costs)
        if not rows[0].get("task"):  # a task has a model of its own, of another shape
            about["flops"] = _relative(rows[0], about["model_calls"])
    if SECONDS in rows[0]:
        about["seconds"] = fmean(column(rows, SECONDS))
    return numbers | about | {"job": rows[0]["job"], "key": rows[0]["key"], "keys": column(rows, "key")}


def _together(estimates: Sequence[Estimate]) -> Estimate:
    """The sum of counts, or the mean of means."""
    first, values = estimates[0], entries.column(estimates, "value")
    if len(estimates) == 1:
        return first

    n = sum(entries.present(entries.column(estimates, "n")))
    if set(entries.column(estimates, "method")) == {"clopper-pearson"}:
        return proportion(round(np.dot(values, entries.column(estimates, "n"))), n, first.level)

    value = fmean(values)
    uncertain = entries.column(estimates, "open") + entries.column(estimates, "exact")
    if any(uncertain) or None in entries.column(estimates, "level"):
        low, high = -math.inf, math.inf
        if first.exact:
            low = high = value
        return Estimate(value, low, high, n, LEVEL, first.method)

    variance = float(sum(np.square(entries.column(estimates, "standard_error")))) / len(estimates) ** 2
    return of_variance(value, variance, n, first.level, "mean of seeds")


def _relative(row: Mapping[str, Any], calls: float) -> float:
    """Compute of these model calls relative to AR's."""
    if _kind(row) == "ar":
        return 1.0
    return calls / break_even(USUAL, row.get("length") or USUAL.length)


def _add_causal(points: Sequence[Point]) -> None:
    """Add the calls of an AR model, which together read each token once and are cheaper than those of an MDM."""
    counted = indexed(where(points, measure=OF_AR, kind="mdm"), *WHO)
    for point in points:
        calls = counted.get(key_of(point, *WHO))
        if calls is not None and (count := calls["value"]):
            point["flops"] *= 1 - count / point["model_calls"]
            point |= {"causal": count, "flops": point["flops"] + 1}


def _add_ratios(points: list[Point]) -> None:
    """Make generative perplexity relative to that of the language or the text; for texts keep the absolute one, too."""
    same = ("of", "length", "setting")
    own = indexed(where(points, measure="ter", kind="ar"), *same)
    texts = indexed(where(points, measure="generative_perplexity", kind="text"), "of")
    more = [p | {"measure": RATIO} for p in where(points, measure="ter_ratio", kind="ar")]

    for point in where(points, measure="generative_perplexity"):
        text, ar = texts.get(key_of(point, "of")), own.get(key_of(point, *same))

        base = text or ar
        if base is not None:
            ratio = {name: point[name] and point[name] / base["value"] for name in ENDS} | {"measure": RATIO}
            if text:
                more.append(point | ratio)
            else:
                point |= ratio

    points += more


def _add_seconds(points: Sequence[Point]) -> None:
    """Add the measured time per sequence to all points of the same network."""
    clocks: dict[tuple[Any, ...], float] = {}
    for point in points:
        who = point["of"], point["model"], point["kind"]
        if point["measure"] == "milliseconds":  # per model call, or AR token, of a batch
            clocks[(*who, None)] = point["value"] / 1000 / (point["batch"] or 1)
        elif point["measure"] == "seconds":  # of a batch, with this number of steps
            clocks[(*who, point["steps"])] = point["value"] / (point["batch"] or 1)

    for point in points:
        who = point["of"], point["model"], point["kind"]
        each: float | None = clocks.get((*who, None))
        token: float | None = 0.0
        if point["causal"]:
            token = clocks.get((*who[:2], "ar", None))
        if point["steps"] is not None and (*who, point["steps"]) in clocks:
            point["seconds"] = clocks[(*who, point["steps"])]
        elif None not in (each, token, point["model_calls"]):
            point["seconds"] = each * (point["model_calls"] - point["causal"]) + token * point["causal"]
