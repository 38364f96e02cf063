"""Runs with a line for each item: result trees of ParallelBench, and lm-eval with --log_samples.

    ParallelBench    ORG__MODEL/SAMPLER/SETTING/YYYYMMDD_HHMMSS_NAME/ with samples_parallelbench_TASK.jsonl
                     and results_parallelbench.json
    lm-eval          samples_TASK_DATE.jsonl with results_DATE.json in one directory

Of several runs of one setting and task the newest counts. Items are paired by `doc_hash`. The mean of the scores of a
file must be that in its results; otherwise lines are missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, NamedTuple
from urllib.parse import unquote

import msgspec

from unmask.core.errors import UnmaskError, cut
from unmask.core.reading import read_json, read_lines
from unmask.experiments.parallel.points import Outcome, Point

PARALLELBENCH, LM_EVAL = "parallelbench", "lm-eval"
PREFIX = "parallelbench_"  # of tasks
AGGREGATES = ("all", "puzzles", "text_writing", "waiting_line")  # means over tasks, no tasks
RESULTS = "results_parallelbench.json"
RUN = re.compile(r"\d{8}_\d{6}(_.*)?")
FILE = re.compile(r"samples_(.+?)(?:_(\d{4}-\d\d-\d\dT[\d.-]+))?")
EQUAL = 1e-6  # percentage points between two means of the same scores
USUAL = "default"


Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)] | bool | None
Amount = Annotated[float, msgspec.Meta(ge=0)] | None


class Line(msgspec.Struct):
    """The read part of a line."""

    doc_id: int | str
    doc_hash: str = ""
    filter: str = ""
    score: Fraction = None
    score_strict: Fraction = None
    exact_match: Fraction = None
    acc: Fraction = None
    pass_at_1: Fraction = msgspec.field(default=None, name="pass@1")
    nfe: Amount = None
    tokens_per_step: Amount = None
    output_length: Amount = None
    source: str = PARALLELBENCH  # an addition of own files, as the next two
    positions: Amount = None
    canvas: int | None = None

    @property
    def value(self) -> float | bool | None:
        every = (self.score, self.exact_match, self.acc, self.pass_at_1)
        return next((one for one in every if one is not None), None)


class Summary(msgspec.Struct):
    """The read part of results_*.json."""

    results: dict[str, dict[str, Any]] = {}
    config: dict[str, Any] = {}
    model_name: str = ""


class Run(NamedTuple):
    path: Path
    task: str
    place: tuple[str, str, str, str]  # source, model, sampler, setting
    when: str


def newest(files: Iterable[Path]) -> list[Run]:
    """The files of the newest runs: one for each setting and task."""
    last: dict[tuple[Any, ...], Run] = {}
    for run in sorted(map(_run, files), key=lambda run: run.when):
        if not (run.place[0] == PARALLELBENCH and run.task in AGGREGATES):
            last[*run.place, run.task] = run
    return list(last.values())


def outcomes(run: Run) -> list[Outcome]:
    """The outcomes of one file. With several filters of lm-eval, the strict one gives the strict score."""
    items: dict[str, dict[str, Line]] = {}
    places: dict[str, int | str] = {}
    for number, line in read_lines(run.path, Line):
        if line.value is None:
            names = "score, exact_match, acc or pass@1"
            raise UnmaskError(f"cannot read {cut(str(run.path))}, line {number}: it has no score; expected {names}")
        item = line.doc_hash or str(line.doc_id)
        if places.setdefault(item, line.doc_id) != line.doc_id:  # an item that occurs twice
            item = f"{item} {line.doc_id}"
        items.setdefault(item, {})[line.filter] = line
    return [_outcome(run, item, own) for item, own in items.items()]


def contradictions(directory: Path, outcomes: Sequence[Outcome]) -> list[str]:
    """Messages on tasks whose mean score is another one in the results of a run."""
    file = directory / RESULTS
    summary = read_json(file, Summary) if file.exists() else Summary()
    scores: dict[str, list[float]] = {}
    for one in outcomes:
        scores.setdefault(one.task, []).append(one.score)
    messages = []
    for task, own in scores.items():
        stated = summary.results.get(PREFIX + task, {}).get("score,none")
        if isinstance(stated, int | float) and abs(100 * fmean(own) - stated) > EQUAL:
            problem = (
                f"the mean score of its {len(own)} lines is {100 * fmean(own):.4g}%, but {stated:.4g}% in {RESULTS}"
            )
            messages.append(f"{directory}, {task}: {problem}. Lines may be missing. Get the file again")
    return messages


def points(files: Iterable[Path], measured: Iterable[tuple[str, str, str]]) -> list[Point]:
    """Means over tasks of runs without items. measured: (model, sampler, setting) that have items."""
    runs = {_place(path): path for path in sorted(files, key=lambda path: path.parent.name) if _is_run(path)}
    means = {place: _means(read_json(path, Summary)) for place, path in runs.items() if place not in set(measured)}
    return [Point(PARALLELBENCH, *place, *both) for place, both in means.items() if both is not None]


def _means(summary: Summary) -> tuple[float, float] | None:
    """(R, S); None if a number is missing."""
    aggregates = {PREFIX + name for name in AGGREGATES}
    tasks = [own for name, own in summary.results.items() if name not in aggregates]
    pairs = [(own.get("tokens_per_step,none"), own.get("score,none")) for own in tasks]
    known = [(r, s) for r, s in pairs if isinstance(r, int | float) and isinstance(s, int | float)]
    if not known or len(known) < len(pairs):
        return None
    return fmean(r for r, _ in known), fmean(s for _, s in known)


def _is_run(path: Path) -> bool:
    """Whether a file is in the directory of a run of ParallelBench."""
    return RUN.fullmatch(path.parent.name) is not None


def _run(path: Path) -> Run:
    match = FILE.fullmatch(path.stem)
    task, date = (match[1], match[2] or "") if match else (path.stem, "")
    if _is_run(path):
        return Run(path, unquote(task.removeprefix(PREFIX)), (PARALLELBENCH, *_place(path)), path.parent.name)
    return Run(path, task, (LM_EVAL, *_of_lm_eval(path, date)), date)


def _place(path: Path) -> tuple[str, str, str]:
    """(model, sampler, setting) by the names of directories."""
    setting, sampler, model = (unquote(parent.name) for parent in path.absolute().parents[1:4])
    return model.replace("__", "/"), sampler, setting


def _of_lm_eval(path: Path, date: str) -> tuple[str, str, str]:
    """(model, sampler, setting) by the arguments in the results of a run."""
    file = path.parent / f"results_{date}.json"
    if not file.exists():
        return path.parent.name, USUAL, USUAL
    summary = read_json(file, Summary)
    model = _arguments(summary.config.get("model_args"))
    how = model | _arguments(summary.config.get("gen_kwargs"))
    name = summary.model_name or model.get("model") or model.get("pretrained") or path.parent.name
    sampler = how.get("sampler") or how.get("unmasking") or USUAL
    own = {key: value for key, value in how.items() if key not in ("model", "pretrained", "sampler", "unmasking")}
    return name, sampler, ",".join(f"{key}={value}" for key, value in own.items()) or USUAL


def _arguments(given: Any) -> dict[str, str]:
    """Arguments of lm-eval: a mapping, or the text a=1,b=f(c=2,d=3)."""
    if isinstance(given, str):
        parts = (part.partition("=") for part in re.split(r",(?![^(]*\))", given))
        return {name.strip(): value.strip() for name, equals, value in parts if equals}
    return {str(name): str(value) for name, value in given.items()} if isinstance(given, dict) else {}


def _outcome(run: Run, item: str, lines: dict[str, Line]) -> Outcome:
    strict = next((line for name, line in lines.items() if "strict" in name and len(lines) > 1), None)
    line = next(line for line in lines.values() if line is not strict)
    source, *place = run.place
    score_strict = line.score_strict if strict is None else strict.value
    canvas = line.canvas
    if canvas is None and line.nfe is not None and line.tokens_per_step is not None:
        canvas = round(line.tokens_per_step * line.nfe)
    return Outcome(
        source=line.source if source == PARALLELBENCH else source,
        model=place[0],
        sampler=place[1],
        setting=place[2],
        task=run.task,
        item=item,
        score=float(line.value or 0.0),
        strict=None if score_strict is None else float(score_strict),
        forwards=line.nfe,
        positions=line.positions,
        canvas=canvas,
        written=line.output_length,
    )
