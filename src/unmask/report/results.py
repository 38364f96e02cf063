"""Stores as one tidy table: of a demo, a sweep, a board, an evaluation, a training, a frontier, a table of theory.

A point is one measured number with its setting and cost. Cells that differ only in their seeds are one point.

    of         the language, task or text            model     "ideal", "trained", or a network's name
    kind       mdm, ar, or text (itself)             sampler, schedule, length, batch; setting: what else varies
    steps      N, or None where there are none       knob      "threshold = 0.9", of a sampler that keeps its own pace
    measure    value, low, high, n, level, method    evaluations, flops, seconds: of a row; flops in units of AR's
    causal     how many of the evaluations of an mdm are calls of an AR model, each as long as a token of AR
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from unmask.core.errors import UnmaskError, cut
from unmask.core.estimates import LEVEL, Estimate, of_variance, proportion
from unmask.core.files import finite
from unmask.core.reading import read_json, read_text
from unmask.cost.flops import break_even
from unmask.experiments.board.families import STEPS
from unmask.experiments.evaluation import records, summary
from unmask.experiments.evaluation.records import RECORDS
from unmask.experiments.jobs import status, tables
from unmask.experiments.jobs.database import FILE
from unmask.experiments.jobs.store import FILES, Store
from unmask.experiments.measures.standard import OF_AR
from unmask.experiments.measures.texts import EXAMPLE
from unmask.languages import PRESETS, Language, load
from unmask.networks.model.checkpoints import ACCOUNT
from unmask.networks.model.shape import preset

Point = dict[str, Any]

STORE = "sweep"  # beside a page: what was measured, from which an interrupted command goes on

WHO = (
    "of",
    "model",
    "kind",
    "sampler",
    "schedule",
    "length",
    "steps",
    "knob",
    "batch",
    "setting",
)  # whose number it is
CONTROLS = ("of", "model", "sampler", "length", "batch", "setting")  # in which a reader chooses
IDEAL, TRAINED = "ideal", "trained"
LUCK = ("seed", "language_seed", "first_row", "digest", "code", "rows", "ter_rows", "device", "quick", "keep")
OF = ("language", "task", "text")
OWN = {*OF, *LUCK, "metric", "model", "causal_model", "kind", "sampler", "schedule", "length", "steps", "batch"}
NETWORKS = {"training", "learned", "clock", "text_training", "written", "text_clock"}  # metrics of what sweeps train
ORIGINAL = "original"  # the metric of a text itself
CURVE = "curve"  # the metric of a board: each cell a sampler at all of its budgets
AR = "autoregressive"
ENDS = ("value", "low", "high")
FRONTIER, THEORY = "frontier.json", "theory.json"
RATIO = "generative_perplexity_ratio"
EVALUATION = "evaluation"  # the metric whose numbers its records say
USUAL = preset("paper", "mdm", 8)  # whose arithmetic it is, where no network has been named


class Entry(msgspec.Struct):
    """What is read of a line of a training's journal; it says more."""

    step: int
    seconds: float
    loss: float
    validation: float


class Account(msgspec.Struct):
    """What is read of training.json; it says more."""

    journal: list[Entry] = []
    entropy: float | None = None
    step: int = 0


class Numbers(msgspec.Struct):
    """The read part of frontier.json and theory.json."""

    records: list[dict[str, Any]]
    origin: dict[str, Any] = {}


@dataclass(frozen=True)
class Training:
    """How a network learned: its journal, and what it cannot get below."""

    of: str
    kind: str
    journal: Sequence[Entry]
    entropy: float | None
    place: Path = Path()  # its directory
    steps: int = 0

    @property
    def name(self) -> str:
        return f"{self.of}, {self.kind.upper()}" if self.kind else self.of


@dataclass(frozen=True)
class Results:
    """Of one store or several: the points, the trainings, and what is not there."""

    points: list[Point]
    trainings: list[Training] = field(default_factory=list)
    frontier: list[Point] = field(default_factory=list)  # perplexity and entropy of samples: `unmask frontier`
    missing: list[str] = field(default_factory=list)  # in words: cells to do, cells that failed and why
    sources: list[str] = field(default_factory=list)  # the directories
    work: float = 0.0  # seconds of all cells
    digests: dict[str, set[str]] = field(default_factory=dict)  # of the measured languages, by name
    theory: list[Point] = field(default_factory=list)  # records of `unmask theory figure`
    examples: list[tuple[str, str]] = field(default_factory=list)  # (its writer, a text)
    languages: dict[str, Language] = field(default_factory=dict)  # those that need no loading

    def __post_init__(self) -> None:
        for number, point in enumerate(self.points):
            point["number"] = number  # its place in the table, by which a page names it

    def of(self, *measures: str) -> list[Point]:
        return [point for point in self.points if point["measure"] in measures]

    def language(self, of: str) -> Language | None:
        """The language of a name, if it is a preset, and the one that was measured."""
        if of in self.languages:
            return self.languages[of]
        if of.partition("(")[0] not in PRESETS.makers:
            return None
        language = load(of)
        return language if language.source()["digest"] in self.digests.get(of, ()) else None

    def choices(self, name: str) -> list[Any]:
        """The values of a control, in the order in which they came; what is not said is no choice."""
        return list(dict.fromkeys(point[name] for point in self.points if point[name] is not None))


def read(directories: Sequence[str | Path], keys: Collection[str] | None = None) -> Results:
    """The results of some stores; keys: only of these cells of sweeps. Fails if there are none to read."""
    if not directories:
        raise UnmaskError("there is no store to report of; name the directory of a sweep, an evaluation or a training")
    rows: list[dict[str, Any]] = []
    seen: set[str] = set()
    judged: list[Point] = []
    frontier: list[Point] = []
    theory: list[Point] = []
    examples: dict[str, str] = {}
    digests: dict[str, set[str]] = {}
    trainings, missing, work = [], [], 0.0
    for given in directories:
        directory = place(Path(given))
        if (directory / FILE).exists():
            found, left, seconds = of_sweep(directory)
            found = found if keys is None else [row for row in found if row["key"] in keys]
            rows += [row for row in found if row["key"] not in seen]  # a cell of two stores is one measurement
            seen |= {row["key"] for row in found}
            missing += left
            work += seconds
            trainings += [
                training
                for row in {row["key"]: row for row in found if row["metric"] in ("training", "text_training")}.values()
                if (training := of_training(directory / FILES / row["key"], _of(row), row["kind"])) is not None
            ]
            examples |= {
                _writer(row): read_text(directory / FILES / row["key"] / EXAMPLE)
                for row in {row["key"]: row for row in found}.values()
                if (directory / FILES / row["key"] / EXAMPLE).exists()
            }
        if (directory / RECORDS).exists():
            judged += of_evaluation(directory)
        if (directory / FRONTIER).exists():
            frontier += of_numbers(directory, FRONTIER, digests)
        if (directory / THEORY).exists():
            theory += of_numbers(directory, THEORY, digests)
        if (alone := of_training(directory, directory.name, "")) is not None:
            trainings.append(alone)
    for row in rows:
        if row.get("language_digest"):
            digests.setdefault(_of(row), set()).add(row["language_digest"])
    where = [str(path) for path in directories]
    told = list(examples.items())
    return Results(points(rows) + judged, trainings, frontier, missing, where, work, digests, theory, told)


def place(directory: Path) -> Path:
    """Where a store is: the directory itself, or the `sweep` in it that a page is made from."""
    for candidate in (directory, directory / STORE):
        if any((candidate / name).exists() for name in (FILE, RECORDS, ACCOUNT, FRONTIER, THEORY)):
            return candidate
    if not directory.exists():
        raise UnmaskError(
            f"there is no directory {cut(str(directory))}; name that of a sweep, or where a page was made"
        )
    what = f"neither {FILE} nor {RECORDS}, {ACCOUNT}, {FRONTIER} or {THEORY} is in it, or in {STORE} of it"
    raise UnmaskError(f"{cut(str(directory))} holds no results: {what}; `unmask sweep run RECIPE` makes a store")


def of_sweep(directory: Path) -> tuple[list[dict[str, Any]], list[str], float]:
    """(rows of its table, what is missing in words, seconds of work)."""
    with Store.open(directory) as store:
        rows = tables.rows(store)
    seen = {row["key"]: row["seconds"] for row in rows}
    state = status.status(directory)
    left = sum(state[name] for name in ("todo", "running", "interrupted"))
    missing = [f"{left} of {state['cells']} cells of {directory} are not measured yet"] if left else []
    for failure in state["failures"]:
        cell = failure["cell"]
        about = ", ".join(
            f"{cell[name]}" for name in ("language", "task", "model", "sampler", "steps") if cell.get(name)
        )
        missing.append(f"failed: {cell['metric']} ({about}): {failure['error']}")
    if (more := state["failed"] - len(state["failures"])) > 0:
        missing.append(f"and {more} more cells of {directory} have failed")
    return rows, missing, sum(seen.values())


def of_evaluation(directory: Path) -> list[Point]:
    """A point of each group of samples and number that is said of it; arithmetic in units of the AR model's."""
    groups = summary.groups(records.read(directory))
    ar = {group.settings["task"]: group.cost()["flops"] for group in groups if group.causal}
    found = []
    for label, group in zip(summary.labels(groups), groups, strict=True):
        told, cost = group.settings, group.cost()
        about = dict.fromkeys(WHO) | {
            "of": told["task"],
            "model": told["model"],
            "kind": "ar" if group.causal else "mdm",
        }
        about |= {"sampler": told["sampler"], "length": told.get("length"), "setting": label}
        about |= {} if group.causal else {name: told.get(name) for name in ("schedule", "steps")}
        base = ar.get(told["task"])
        spent = {"evaluations": cost["evaluations"], "seconds": cost["seconds"], "metric": EVALUATION, "key": ""}
        spent["causal"] = (
            0.0 if group.causal else sum(s.evaluations.get("causal", 0) for s in group.said) / max(len(group.said), 1)
        )
        spent["flops"] = cost["flops"] / base if base and cost["flops"] else None
        said = {"accuracy": group.accuracy, "perplexity": group.perplexity}
        said |= {name: group.value(name) for name in group.valued}
        for name, estimate in said.items():
            if estimate is not None:
                found.append(about | {"measure": name} | finite(estimate.to_dict()) | spent)
    return found


def of_numbers(directory: Path, file: str, digests: dict[str, set[str]]) -> list[Point]:
    """The records of a file, with the language and the settings that they are about."""
    found = read_json(directory / file, Numbers)
    settings = found.origin.get("configuration", {})
    of = str(settings.get("language", directory.name))
    if isinstance(source := found.origin.get("language"), dict) and "digest" in source:
        digests.setdefault(of, set()).add(source["digest"])
    about = {"of": of, "length": settings.get("length"), "schedule": settings.get("schedule")}
    return [record | about for record in found.records]


def of_training(directory: Path, of: str, kind: str) -> Training | None:
    """None where nothing has been kept of it."""
    if not os.path.exists(directory / ACCOUNT):
        return None
    account = read_json(directory / ACCOUNT, Account)
    return Training(of, kind, account.journal, account.entropy, directory, account.step)


def _writer(row: Mapping[str, Any]) -> str:
    """Of a text."""
    if row["metric"] == ORIGINAL:
        return "The text itself"
    return "AR" if row.get("sampler") == AR else f"MDM, {row.get('steps')} steps"


def points(rows: Iterable[Mapping[str, Any]]) -> list[Point]:
    """The rows of tables, tidy, those that differ in luck alone pooled."""
    rows = [row for row in rows if row["value"] is not None and row["metric"] != EVALUATION]
    varied = _varied(rows)
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    who: dict[tuple[Any, ...], Point] = {}
    for row in rows:
        about = _who(row, varied)
        key = (*about.values(), row["measure"])
        if (own := groups.setdefault(key, [])) and own[0]["metric"] != row["metric"]:
            continue  # another metric has said the same, of rows that may be the same
        own.append(row)
        who.setdefault(key, about)
    found = [who[key] | {"measure": key[-1]} | _pooled(own) for key, own in groups.items()]
    _add_causal(found)
    _add_ratios(found)
    _add_seconds(found)
    return found


def _who(row: Mapping[str, Any], varied: Sequence[str]) -> Point:
    ar = row["metric"] == AR or row.get("sampler") == AR or row.get("kind") == "ar"
    steps, knob = row.get("steps"), None
    if row["metric"] == CURVE and row.get("budget") is not None:
        steps, knob = (
            (row["budget"], None) if row.get("knob", STEPS) == STEPS else (None, f"{row['knob']} = {row['budget']:g}")
        )
    sampler = AR if ar else row.get("sampler") or ("ancestral" if row.get("language") else None)
    told = (f"{name}={row[name]}" for name in varied if row.get(name) not in (None, ""))
    return {
        "of": _of(row),
        "model": TRAINED if row["metric"] in NETWORKS else _named(row.get("model")) or IDEAL,
        "kind": "ar" if ar else "text" if row["metric"] == ORIGINAL else "mdm",
        "sampler": sampler,
        "schedule": None if ar else row.get("schedule"),
        "length": row.get("length"),
        "steps": None if ar else steps,
        "knob": knob,
        "batch": row.get("batch"),
        "setting": ", ".join(told) or None,
    }


def _of(row: Mapping[str, Any]) -> str:
    return next((str(row[name]) for name in OF if row.get(name)), _named(row.get("model")) or "")


def _named(model: Any) -> str | None:
    """A network's name: that of its directory, or of its repository."""
    return Path(str(model)).name if model else None


def _varied(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Fields of cells beside those of every point in which cells of one metric differ."""
    seen: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        for name in row:
            if name not in OWN and name not in tables.AFTER and name in row:
                seen.setdefault((row["metric"], name), set()).add(str(row[name]))
    fields = dict.fromkeys(name for (metric, name), values in seen.items() if len(values) > 1 and metric != CURVE)
    return list(fields)


def _pooled(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One estimate of several by independent luck: counts add up, means have their mean."""
    estimates = [Estimate.of_record(row) for row in rows]
    first, n = estimates[0], sum(one.n or 0 for one in estimates)
    if len(rows) == 1:
        made = first
    elif all(one.method == first.method == "clopper-pearson" for one in estimates):
        made = proportion(round(sum(one.value * one.n for one in estimates)), n, first.level)
    elif any(one.exact or one.open or one.level is None for one in estimates):  # nothing to add up
        value = fmean(one.value for one in estimates)
        made = Estimate(value, *((value, value) if first.exact else (-math.inf, math.inf)), n, LEVEL, first.method)
    else:
        variance = sum(one.standard_error**2 for one in estimates) / len(estimates) ** 2
        made = of_variance(fmean(one.value for one in estimates), variance, n, first.level, "mean of seeds")
    costs = [row["evaluations"] for row in rows if row.get("evaluations") is not None]
    needed = fmean(costs) if costs else None
    ar = rows[0]["metric"] == AR or rows[0].get("sampler") == AR
    flops = None if needed is None else 1.0 if ar else needed / break_even(USUAL, rows[0].get("length") or USUAL.length)
    about = {"evaluations": needed, "causal": 0.0, "flops": flops, "seconds": None}
    about |= {"metric": rows[0]["metric"], "key": rows[0]["key"]}
    told = finite(made.to_dict())
    return told | ({"low": None, "high": None} if made.open else {}) | about  # one end alone says nothing


def _add_causal(found: Sequence[Point]) -> None:
    """Calls of an AR model do not have the arithmetic of an evaluation: together they read each token once or more."""
    calls = {tuple(p[name] for name in WHO): p["value"] for p in found if p["measure"] == OF_AR and p["kind"] == "mdm"}
    for point in found:
        if count := calls.get(tuple(point[name] for name in WHO)):
            point["flops"] *= 1 - count / point["evaluations"]
            point |= {"causal": count, "flops": point["flops"] + 1}


def _add_ratios(found: list[Point]) -> None:
    """Generative perplexity relative to that of the language or the text itself, if known; 1 for AR on a language.

    Of a text the absolute numbers stay: judges differ.
    """
    own = {(p["of"], p["length"], p["setting"]): p for p in found if p["measure"] == "ter" and p["kind"] == "ar"}
    texts = {p["of"]: p for p in found if p["measure"] == "generative_perplexity" and p["kind"] == "text"}
    more = [p | {"measure": RATIO} for p in found if p["measure"] == "ter_ratio" and p["kind"] == "ar"]
    for point in found:
        if point["measure"] != "generative_perplexity":
            continue
        text, ar = texts.get(point["of"]), own.get((point["of"], point["length"], point["setting"]))
        base = text or ar
        if base is not None:
            ends = {name: None if point[name] is None else point[name] / base["value"] for name in ENDS}
            ratio = ends | {"measure": RATIO}
            if text:
                more.append(point | ratio)
            else:
                point |= ratio
    found += more


def _add_seconds(found: Sequence[Point]) -> None:
    """Times of a row that a clock has measured stand beside all that is said of the same rows."""
    clocks: dict[tuple[Any, ...], float] = {}
    for point in found:
        who = point["of"], point["model"], point["kind"]
        if point["measure"] == "milliseconds":  # an evaluation, or a token, of a batch
            clocks[(*who, None)] = point["value"] / 1000 / (point["batch"] or 1)
        elif point["measure"] == "seconds":  # of a whole batch, in so many rounds
            clocks[(*who, point["steps"])] = point["value"] / (point["batch"] or 1)
    for point in found:
        who = point["of"], point["model"], point["kind"]
        if (whole := clocks.get((*who, point["steps"]))) is not None and point["steps"] is not None:
            point["seconds"] = whole
        elif (each := clocks.get((*who, None))) is not None and point["evaluations"] is not None:
            token = clocks.get((point["of"], point["model"], "ar", None)) if point["causal"] else 0.0
            if token is not None:
                point["seconds"] = each * (point["evaluations"] - point["causal"]) + token * point["causal"]
