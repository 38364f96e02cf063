"""The results of all kinds of stores as one tidy table.

A point is one measured number with its setting and cost. Cells that differ only in their random seeds are one point.

    of         the language, task or text            model     "ideal", "trained", or a network's name
    kind       mdm, ar, or text (itself)             sampler, schedule, length, batch; setting: other varied options
    steps      N, or None                            knob      "threshold = 0.9", of a sampler without N
    measure    value, low, high, n, level, method    `model_calls` (model calls), flops, seconds per sequence
    flops      relative to AR                        causal    model calls of an AR model among `model_calls`
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
from unmask.diagnosis.flops import break_even
from unmask.experiments import tables
from unmask.experiments.board.families import STEPS, apart
from unmask.experiments.jobs.sources import OF_AR
from unmask.experiments.jobs.texts import EXAMPLE
from unmask.experiments.store import FILE, Store
from unmask.languages import PRESETS, Language, load
from unmask.languages.presets import unseeded
from unmask.models.trained.checkpoints import ACCOUNT
from unmask.models.trained.shape import preset
from unmask.tasks.evaluation import records, summary
from unmask.tasks.evaluation.records import RECORDS

Point = dict[str, Any]

STORE = "sweep"  # next to a page: the store from which an interrupted command resumes
WHO = ("of", "model", "kind", "sampler", "schedule", "length", "steps", "knob", "batch", "setting")  # identify a point
CONTROLS = {"of": "language or task", "model": "denoiser"} | {n: n for n in ("sampler", "length", "batch", "setting")}
IDEAL, TRAINED = "ideal", "trained"
RANDOM = ("seed", "first_row", "digest", "code", "rows", "ter_rows", "device", "quick", "keep")
OF = ("language", "task", "text")
OWN = {*OF, *RANDOM, "job", "model", "causal_model", "kind", "sampler", "schedule", "length", "steps", "batch"}
NETWORKS = {
    "training",
    "uniform_training",
    "learned",
    "learned_gap",
    "clock",
    "text_training",
    "written",
    "text_clock",
}  # their jobs
ORIGINAL = "original"  # the metric of a text itself
CURVE = "curve"  # the metric of a board: each cell a sampler at all of its budgets
AR = "autoregressive"
ENDS = ("value", "low", "high")
THEORY = "theory.json"
RATIO = "generative_perplexity_ratio"
EVALUATION = "evaluation"  # the metric of records of answers
USUAL = preset("paper", "mdm", 8)  # its compute is assumed for cells without a network


class Entry(msgspec.Struct):
    """The read part of a line of a training's journal."""

    step: int
    seconds: float
    loss: float
    validation: float


class Account(msgspec.Struct):
    """The read part of training.json."""

    journal: list[Entry] = []
    entropy: float | None = None
    step: int = 0


class Numbers(msgspec.Struct):
    """The read part of theory.json."""

    records: list[dict[str, Any]]
    origin: dict[str, Any] = {}


@dataclass(frozen=True)
class Training:
    """A trained network: its journal, and the entropy of its language."""

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
    """The contents of some stores."""

    points: list[Point]
    trainings: list[Training] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # messages: cells to do, failed cells with the error
    sources: list[str] = field(default_factory=list)  # the directories
    work: float = 0.0  # seconds of all cells
    digests: dict[str, set[str]] = field(default_factory=dict)  # of the measured languages, by name
    theory: list[Point] = field(default_factory=list)  # records of `unmask theory figure`
    examples: list[tuple[str, str]] = field(default_factory=list)  # (model, text)
    languages: dict[str, Language] = field(default_factory=dict)  # that need no loading

    def __post_init__(self) -> None:
        for number, point in enumerate(self.points):
            point["number"] = number  # in the table; pages refer to it

    def of(self, *measures: str) -> list[Point]:
        return [point for point in self.points if point["measure"] in measures]

    def language(self, of: str) -> Language | None:
        """The language of a name, if it is a preset with the measured digest."""
        if of in self.languages:
            return self.languages[of]
        if of.partition("(")[0] not in PRESETS.makers:
            return None
        language = load(of)
        return language if language.source()["digest"] in self.digests.get(of, ()) else None

    def choices(self, name: str) -> list[Any]:
        """The values of a control, in the order of the points."""
        return list(dict.fromkeys(point[name] for point in self.points if point[name] is not None))


def read(directories: Sequence[str | Path], keys: Collection[str] | None = None) -> Results:
    """Read the results of some stores; keys: only these cells of sweeps."""
    if not directories:
        raise UnmaskError("no directory is given; expected that of a sweep, an evaluation or a training")
    rows: list[dict[str, Any]] = []
    keys_read: set[str] = set()
    evaluated: list[Point] = []
    theory: list[Point] = []
    examples: dict[str, str] = {}
    digests: dict[str, set[str]] = {}
    trainings, missing, work = [], [], 0.0
    for given in directories:
        directory = place(Path(given))
        if (directory / FILE).exists():
            store = Store.open(directory)
            own, left, seconds = of_sweep(store)
            own = [row for row in own if keys is None or row["key"] in keys]
            rows += [row for row in own if row["key"] not in keys_read]  # a cell of two stores is one measurement
            keys_read |= {row["key"] for row in own}
            missing += left
            work += seconds
            for key, row in {row["key"]: row for row in own}.items():
                files = store.place(key)
                if row["job"] in ("training", "uniform_training", "text_training"):
                    kind = "uniform noise" if row["job"] == "uniform_training" else row["kind"]
                    trainings += of_training(files, _of(row), kind)
                if (files / EXAMPLE).exists():
                    examples[_writer(row)] = read_text(files / EXAMPLE)
        if (directory / RECORDS).exists():
            own, left = of_evaluation(directory)
            evaluated += own
            missing += left
        theory += of_numbers(directory, digests)
        trainings += of_training(directory, directory.name, "")
    for row in rows:
        if row.get("language_digest"):
            digests.setdefault(_of(row), set()).add(row["language_digest"])
    sources = [str(path) for path in directories]
    texts = list(examples.items())
    return Results(points(rows) + evaluated, trainings, missing, sources, work, digests, theory, texts)


def place(directory: Path) -> Path:
    """The directory of a store: itself, or its `sweep` if it contains a page."""
    for candidate in (directory, directory / STORE):
        if any((candidate / name).exists() for name in (FILE, RECORDS, ACCOUNT, THEORY)):
            return candidate
    if not directory.exists():
        problem = f"there is no directory {cut(str(directory))}"
        raise UnmaskError(f"{problem}. Pass the directory of a sweep, a page, an evaluation or a training")
    names = f"{FILE}, {RECORDS}, {ACCOUNT} or {THEORY}"
    expected = f"expected {names} in it, or in its directory {STORE}. Measure with `unmask sweep run RECIPE`"
    raise UnmaskError(f"{cut(str(directory))} contains no results; {expected}")


def of_sweep(store: Store) -> tuple[list[dict[str, Any]], list[str], float]:
    """(rows of its table, messages on missing cells, seconds of work)."""
    rows = list(store.rows())
    seconds = {row["key"]: row["seconds"] for row in rows}
    state = tables.status(store.directory)
    left = sum(state[name] for name in ("todo", "running", "interrupted"))
    missing = [f"{left} of {state['cells']} cells of {store.directory} are not measured yet"] if left else []
    for failure in state["failures"]:
        cell = failure["cell"]
        about = [str(cell[name]) for name in (*OF[:2], "model", "sampler", "steps") if cell.get(name)]
        missing.append(f"failed: {cell['job']} ({', '.join(about)}): {failure['error']}")
    if (more := state["failed"] - len(state["failures"])) > 0:
        missing.append(f"{more} more cells of {store.directory} failed")
    return rows, missing, sum(seconds.values())


def of_evaluation(directory: Path) -> tuple[list[Point], list[str]]:
    """(a point per setting and number, messages on prompts that did not fit); compute relative to the AR model."""
    groups = summary.groups(records.read(directory))
    ar = {group.settings["task"]: group.cost()["flops"] for group in groups if group.causal}
    measured, missing = [], []
    masked = [group.settings for group in groups if not group.causal]
    varied = [name for name in summary.varied([group for group in groups if not group.causal]) if _free(name, masked)]
    several = sum(group.causal for group in groups) > len(ar)  # AR settings of one task
    for label, group in zip(summary.labels(groups), groups, strict=True):
        settings, cost = group.settings, group.cost()
        about = dict.fromkeys(WHO) | {name: settings.get(name) for name in ("sampler", "length")}
        about |= {"of": settings["task"], "kind": "ar" if group.causal else "mdm"}
        if group.causal:
            about["setting"] = label if several else None
        else:
            own = [f"{name}={settings[name]}" for name in varied if name not in (*WHO, "task")]
            about |= {name: settings.get(name) for name in ("model", "schedule", "steps")}
            about |= {"setting": ", ".join(own) or None} | _paced(settings)
        base = ar.get(settings["task"])
        calls = 0 if group.causal else sum(sample.model_calls.get("causal", 0) for sample in group.written)
        spent = {name: cost[name] for name in ("model_calls", "seconds")} | {"job": EVALUATION, "key": ""}
        spent |= {"causal": calls / max(len(group.written), 1)}
        spent |= {"flops": cost["flops"] / base if base and cost["flops"] else None}
        estimates = {"accuracy": group.accuracy, "perplexity": group.perplexity}
        estimates |= {name: group.value(name) for name in group.valued}
        for name, estimate in estimates.items():
            if estimate is not None:
                measured.append(about | {"measure": name} | finite(estimate.to_dict()) | spent)
        if group.too_long:
            missing.append(f"not measured: {label}: {group.too_long}")
    return measured, missing


def _free(name: str, settings: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all settings have a value of this name, and it does not follow from the model."""
    of_model: dict[Any, set[str]] = {}
    for one in settings:
        of_model.setdefault(one["model"], set()).add(str(one.get(name)))
    return all(name in one for one in settings) and any(len(values) > 1 for values in of_model.values())


def _paced(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The sampler without the option that decides its number of steps, and this option in place of N."""
    sampler, knob, value = apart(str(settings["sampler"]))
    if knob == STEPS or value is None:
        return {}
    return {"sampler": sampler, "knob": f"{knob} = {value}", "steps": None}


def of_numbers(directory: Path, digests: dict[str, set[str]]) -> list[Point]:
    """The records of theory.json, if it exists, each with its language and settings."""
    if not (directory / THEORY).exists():
        return []
    numbers = read_json(directory / THEORY, Numbers)
    settings = numbers.origin.get("configuration", {})
    of = str(settings.get("language", directory.name))
    if isinstance(source := numbers.origin.get("language"), dict) and "digest" in source:
        digests.setdefault(of, set()).add(source["digest"])
    about = {"of": of, "length": settings.get("length"), "schedule": settings.get("schedule")}
    return [record | about for record in numbers.records]


def of_training(directory: Path, of: str, kind: str) -> list[Training]:
    """The training of a directory, if it contains one."""
    if not os.path.exists(directory / ACCOUNT):
        return []
    account = read_json(directory / ACCOUNT, Account)
    return [Training(of, kind, account.journal, account.entropy, directory, account.step)]


def _writer(row: Mapping[str, Any]) -> str:
    if row["job"] == ORIGINAL:
        return "The text itself"
    return "AR" if row.get("sampler") == AR else f"MDM, {row.get('steps')} steps"


def points(rows: Iterable[Mapping[str, Any]]) -> list[Point]:
    """The rows of tables as points; rows that differ only in their random seed are pooled."""
    rows = [row for row in rows if row["value"] is not None and row["job"] != EVALUATION]
    varied = _varied(rows)
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    who: dict[tuple[Any, ...], Point] = {}
    for row in rows:
        about = _who(row, varied)
        key = (*about.values(), row["measure"])
        if (own := groups.setdefault(key, [])) and own[0]["job"] != row["job"]:
            continue  # another metric measured the same, perhaps on the same sequences
        own.append(row)
        who.setdefault(key, about)
    pooled = [who[key] | {"measure": key[-1]} | _pooled(own) for key, own in groups.items()]
    _add_causal(pooled)
    _add_ratios(pooled)
    _add_seconds(pooled)
    return pooled


def _who(row: Mapping[str, Any], varied: Sequence[str]) -> Point:
    ar = row["job"] == AR or row.get("sampler") == AR or row.get("kind") == "ar"
    steps, knob = row.get("steps"), None
    if row["job"] == CURVE and row.get("budget") is not None:
        own = row.get("knob", STEPS) != STEPS
        steps, knob = (None, f"{row['knob']} = {row['budget']:g}") if own else (row["budget"], None)
    usual = "uniform-ancestral" if row["job"] == "uniform_training" else "ancestral"  # of a network of that noise
    sampler = AR if ar else row.get("sampler") or (usual if row.get("language") else None)
    options = (f"{name}={row[name]}" for name in varied if row.get(name) not in (None, ""))
    return {
        "of": _of(row),
        "model": TRAINED if row["job"] in NETWORKS else _named(row.get("model")) or IDEAL,
        "kind": "ar" if ar else "text" if row["job"] == ORIGINAL else "mdm",
        "sampler": sampler,
        "schedule": None if ar else row.get("schedule"),
        "length": row.get("length"),
        "steps": None if ar else steps,
        "knob": knob,
        "batch": row.get("batch"),
        "setting": ", ".join(options) or None,
    }


def _of(row: Mapping[str, Any]) -> str:
    """The language, task or text of a row; without the random seed of a language, so that these are pooled."""
    return unseeded(next((str(row[name]) for name in OF if row.get(name)), _named(row.get("model")) or ""))


def _named(model: Any) -> str | None:
    """The name of a network: that of its directory or repository."""
    return Path(str(model)).name if model else None


def _varied(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Other fields of cells in which cells of one metric and language differ."""
    texts: dict[tuple[str, str, str], set[str]] = {}
    for row in rows:
        of = _of(row)
        for name in row:
            if name not in OWN and name not in tables.AFTER:
                texts.setdefault((row["job"], of, name), set()).add(str(row[name]))
    varied = (name for (job, _, name), values in texts.items() if len(values) > 1 and job != CURVE)
    return list(dict.fromkeys(varied))


def _pooled(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One estimate from several independent ones: the sum of counts, or the mean of means."""
    estimates = [Estimate.of_record(row) for row in rows]
    first, n = estimates[0], sum(one.n or 0 for one in estimates)
    if len(rows) == 1:
        pooled = first
    elif all(one.method == first.method == "clopper-pearson" for one in estimates):
        pooled = proportion(round(sum(one.value * one.n for one in estimates)), n, first.level)
    elif any(one.exact or one.open or one.level is None for one in estimates):
        value = fmean(one.value for one in estimates)
        pooled = Estimate(value, *((value, value) if first.exact else (-math.inf, math.inf)), n, LEVEL, first.method)
    else:
        variance = sum(one.standard_error**2 for one in estimates) / len(estimates) ** 2
        pooled = of_variance(fmean(one.value for one in estimates), variance, n, first.level, "mean of seeds")
    costs = [row["model_calls"] for row in rows if row.get("model_calls") is not None]
    needed = fmean(costs) if costs else None
    ar = rows[0]["job"] == AR or rows[0].get("sampler") == AR
    flops = None if needed is None else 1.0 if ar else needed / break_even(USUAL, rows[0].get("length") or USUAL.length)
    about = {"model_calls": needed, "causal": 0.0, "flops": flops, "seconds": None}
    about |= {"job": rows[0]["job"], "key": rows[0]["key"]}
    return finite(pooled.to_dict()) | ({"low": None, "high": None} if pooled.open else {}) | about


def _add_causal(points: Sequence[Point]) -> None:
    """Add the calls of an AR model, which together read each token once and are cheaper than those of an MDM."""
    calls = {tuple(p[name] for name in WHO): p["value"] for p in points if p["measure"] == OF_AR and p["kind"] == "mdm"}
    for point in points:
        if count := calls.get(tuple(point[name] for name in WHO)):
            point["flops"] *= 1 - count / point["model_calls"]
            point |= {"causal": count, "flops": point["flops"] + 1}


def _add_ratios(points: list[Point]) -> None:
    """Make generative perplexity relative to that of the language or the text; for texts keep the absolute one, too."""
    own = {(p["of"], p["length"], p["setting"]): p for p in points if p["measure"] == "ter" and p["kind"] == "ar"}
    texts = {p["of"]: p for p in points if p["measure"] == "generative_perplexity" and p["kind"] == "text"}
    more = [p | {"measure": RATIO} for p in points if p["measure"] == "ter_ratio" and p["kind"] == "ar"]
    for point in points:
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
        if (whole := clocks.get((*who, point["steps"]))) is not None and point["steps"] is not None:
            point["seconds"] = whole
        elif (each := clocks.get((*who, None))) is not None and point["model_calls"] is not None:
            token = clocks.get((point["of"], point["model"], "ar", None)) if point["causal"] else 0.0
            if token is not None:
                point["seconds"] = each * (point["model_calls"] - point["causal"]) + token * point["causal"]
