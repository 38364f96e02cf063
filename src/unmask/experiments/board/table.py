"""board(): its results as records, one number each, and as tables, the most accurate sampler first.

A record has the name of its number (`measure`), `language`, `length`, `sampler`, `knob`, `budget` (None for a whole
curve) and the Estimate. `model_calls` is the mean number of model calls per row. `target` is the requested SER or
excess of TER, `by_seed` the number for each seed. A missing number has `value` None, and the reason in `note`.

The model calls for a target: between two points a value y is interpolated so that log(y + target) is linear in log e.
Near a target it then follows a power of e, such as 1/N, and y may be zero. If y falls from far above the target to less
than a twentieth, the points between are unknown and the later point counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Sized
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from itertools import chain
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

from unmask.core.entries import chosen, column, grouped
from unmask.core.errors import UnmaskError, shown, unknown
from unmask.core.estimates import Estimate, bounded_mean
from unmask.experiments.board.compare import area_weights, difference, weighted
from unmask.experiments.board.curve import UNKNOWN, means_of, of_point, record
from unmask.experiments.board.run import Failure, Measured, measured, recipe
from unmask.experiments.board.settings import Settings
from unmask.experiments.cell import Record
from unmask.experiments.run import Sweep, sweep

AUP = "accuracy_under_parallelism"
TARGETS, EXCESS = (0.5, 0.1, 0.01), 0.01  # of SER, and of TER relative to that of the language
FAR, STEEP = 1.5, 20
HOW_TO_READ = """\
AUP: accuracy under parallelism, the mean of 1 - SER over log2 of model calls from 1 to L; (.4): the most that it can be
between two budgets. The table is sorted by AUP. differs: AUP minus that of {against}; * where `unmask board compare`
decides. SER, TER: model calls until SER is at most that, and until TER is within that of the language's own. <=8: met
at that budget; (34): too few rows to be sure; best 0.2: not reached; n/a: unknown. divers.: diversity at the most
expensive budget; below 100%, samples repeat themselves."""


@dataclass(frozen=True, repr=False)
class Board:
    """The records and failures of a board."""

    settings: Settings
    records: Sequence[Record]
    failures: Sequence[Failure]
    seconds: float  # of all cells, including earlier runs

    def __repr__(self) -> str:
        return f"<Board of {len(grouped(self.records, itemgetter('sampler')))} samplers, {len(self.records)} records>"

    def of(self, measure: str) -> list[Record]:
        return [record for record in self.records if record["measure"] == measure]


def board(
    languages: str | Sequence[str] | Settings | None = None,
    /,
    *,
    store: str | Path | None = None,
    engine: str = "here",
    workers: int | None = None,
    **given: Any,
) -> Board:
    """Measure samplers on the exact denoisers of languages; without a store of `unmask.sweep` in a temporary one.

    languages: presets or files, one or several; or Settings. (default: six presets; with quick=True, three)
    given: the fields of Settings: samplers, lengths, rows, seeds, steps, quick, ..
    """
    known = column(fields(Settings), "name")
    for name in given.keys() - set(known):
        raise unknown("argument of board:", name, known)
    for name, value in {"languages": languages, **given}.items():
        if isinstance(value, Sized) and not len(value):  # in Settings it stands for the usual ones
            raise UnmaskError(f"{name} is {shown(value)}; expected at least one. Leave it out for the usual ones")

    if isinstance(languages, Settings):
        settings = replace(languages, **given)
    else:
        settings = Settings(**{"languages": chosen(languages, ())} | given)

    plan = recipe(settings)
    with TemporaryDirectory(prefix="unmask-board-") if store is None else nullcontext(store) as directory:
        return of_sweep(sweep(plan, store=directory, engine=engine, workers=workers, fresh=True), settings)


def of_sweep(run: Sweep, settings: Settings) -> Board:
    """The results of the curves of a sweep; fails if there is no curve."""
    curves, failures = measured(run)
    if not curves:
        raise UnmaskError(f"no sampler could be measured; {failures[0].sampler}: {failures[0].message}")
    return Board(settings, records(curves, settings), failures, run.work)


class Need(NamedTuple):
    """The model calls at which a target is met: `value`, of the kind `how`.

    low, high: the same for the ends of the measured intervals; None if they are not on the curve, for too few rows.
    "jump": met at a budget, and missed so clearly at the previous one that the values between are unknown.
    "at most": met at the smallest budget already. "not reached": at no budget; `best` is the smallest measured value.
    """

    how: Literal["crossed", "jump", "at most", "not reached"]
    value: float | None
    low: float | None
    high: float | None
    best: float  # the measured value nearest to the target
    at: float  # the model calls there


def crossing(model_calls: Sequence[float], values: Sequence[float], target: float) -> float | None:
    """The smallest e at which the interpolated values reach the target; at the first point, its own e."""
    met = _first_met(values, target)
    if met is None:
        return None
    if met == 0 or _falls_off(values, met, target):
        return model_calls[met]

    def height(y: float) -> float:
        return math.log(max(y, 0.0) + target)

    above, below = height(values[met - 1]), height(values[met])
    first, last = map(math.log, model_calls[met - 1 : met + 1])
    return math.exp(first + (above - height(target)) / (above - below) * (last - first))


def _first_met(values: Sequence[float], target: float) -> int | None:
    return next((i for i, value in enumerate(values) if value <= target), None)


def _falls_off(values: Sequence[float], at: int, target: float) -> bool:
    return values[at - 1] > FAR * target and values[at] < values[at - 1] / STEEP


def need(model_calls: Sequence[float], estimates: Sequence[Estimate], target: float) -> Need:
    """The model calls at which an estimated curve meets a target, with the crossings of its band."""
    values = column(estimates, "value")
    value = crossing(model_calls, values, target)
    low = crossing(model_calls, column(estimates, "low"), target)
    high = crossing(model_calls, column(estimates, "high"), target)

    best = min(range(len(values)), key=values.__getitem__)
    nearest = values[best], model_calls[best]

    met = _first_met(values, target)
    if met is None:
        return Need("not reached", None, low, None, *nearest)
    if met == 0:
        return Need("at most", value, None, high, *nearest)
    assert value is not None  # it is met
    upper = None if high is None else max(high, value)
    if _falls_off(values, met, target):
        return Need("jump", value, min(low or math.inf, model_calls[met - 1]), upper, *nearest)

    within = None if low is None else min(low, value)  # an end of the band may fall off if the curve does not
    return Need("crossed", value, within, upper, *nearest)


def ter_need(curve: Measured, excess: float) -> Need | None:
    """Until TER or its bound is within `excess` of the language's TER; None if the last point has neither."""
    if curve.points[-1].divergence is None:
        return None
    known = [point for point in curve.points if point.divergence is not None]
    return need(column(known, "model_calls"), column(known, "divergence"), curve.length * math.log1p(excess))


def records(curves: Sequence[Measured], settings: Settings) -> list[Record]:
    """All results: points first, then the summary of each curve."""
    by_name = {(m.language, m.length, m.family.specification.partition("(")[0]): m for m in curves}
    rows: list[Record] = []
    for m in curves:
        about: Record = {
            "language": m.language,
            "length": m.length,
            "sampler": m.family.specification,
            "knob": m.family.knob,
            "budget": None,
            "model_calls": None,
        }

        against = by_name.get((m.language, m.length, settings.against))
        rows += [about | one for one in chain(*map(of_point, m.points), of_curve(m, settings, against))]
    return rows


def of_curve(curve: Measured, settings: Settings, against: Measured | None) -> list[Record]:
    """The summary of a curve, and its difference to another one on the same rows."""
    rows = list[Record]()
    for target in TARGETS:
        met = need(curve.model_calls, column(curve.points, "ser"), target)
        rows.append(_of_need("model_calls_for_ser", met, "SER", target))

    fluent = ter_need(curve, EXCESS)
    if fluent is None:
        rows.append(record("model_calls_for_ter", None, target=EXCESS, note=curve.points[-1].unbounded))
    else:
        calls = fluent._replace(best=math.exp(fluent.best / curve.length))  # TER, relative to that of the language
        rows.append(_of_need("model_calls_for_ter", calls, "TER ratio", EXCESS))

    area = weighted(area_weights(curve.model_calls, curve.length), curve.right)
    early = weighted(area_weights(curve.model_calls, curve.length, early=True), curve.right)
    rows.append(record(AUP, bounded_mean(area), by_seed=means_of(area, curve.sizes), most=float(early.mean())))

    rows.append(_difference(curve, against, settings.against))
    return rows


def _of_need(measure: str, need: Need, what: str, target: float) -> Record:
    note: str = need.how
    if need.how == "not reached":
        note = f"not reached: {what} {need.best:.3g} at {need.at:.3g} model calls"
    fields = {"value": need.value, "low": need.low, "high": need.high, "method": "interpolated, band inverted"}
    return {"measure": measure} | UNKNOWN | fields | {"note": note, "target": target}


def _difference(curve: Measured, against: Measured | None, name: str) -> Record:
    """The difference to another sampler, as in `board compare`."""
    if against is None:
        return record("accuracy_difference", None, note=f"no {name} on the board")
    try:
        result = difference(curve, against)
    except UnmaskError as error:
        return record("accuracy_difference", None, note=str(error))
    return record("accuracy_difference", result.mean, by_seed=list(result.by_seed), verdict=result.verdict)


class Table(NamedTuple):
    """Rows of cells, each (value, interval); the first column has the headings of rows."""

    title: str
    head: list[str]
    rows: list[tuple[str, list[tuple[str, str]]]]


def tables(board: Board) -> list[Table]:
    """A table for each language."""
    head = ["sampler", "AUP", "differs", *map("SER {:.0%}".format, TARGETS), f"TER {EXCESS:.0%}", "divers."]
    result = []
    for (language, length), own in grouped(board.records, itemgetter("language", "length")).items():
        ranked = sorted(grouped(own, itemgetter("measure"))[AUP], key=lambda record: -record["value"])
        of_sampler = grouped(own, itemgetter("sampler"))
        rows = [(name, _cells(of_sampler[name])) for name in map(itemgetter("sampler"), ranked)]
        result.append(Table(f"{language}, {length} tokens", head, rows))
    return result


def _cells(of: list[Record]) -> list[tuple[str, str]]:
    by_measure = grouped(of, itemgetter("measure"))
    accuracy, differs = by_measure[AUP][0], by_measure["accuracy_difference"][0]
    value, interval = _number(accuracy, "{:.3f}")
    if accuracy["most"] - accuracy["value"] >= 5e-4:
        value += f" ({accuracy['most']:.2f})"
    change, around = _number(differs, "{:+.3f}")
    if differs.get("verdict") in ("better", "worse"):
        change += "*"

    needs = map(need_text, by_measure["model_calls_for_ser"] + by_measure["model_calls_for_ter"])
    diversity = max(by_measure["diversity"], key=itemgetter("model_calls"))
    return [(value, interval), (change, around), *needs, _number(diversity, "{:.0%}")]


def _number(record: Record, form: str) -> tuple[str, str]:
    if record["value"] is None:
        return "-", ""
    if record["low"] is None or record["high"] is None:
        return form.format(record["value"]), ""
    return form.format(record["value"]), f"{form.format(record['low'])} to {form.format(record['high'])}"


def need_text(record: Record) -> tuple[str, str]:
    """Model calls, or the best value if the target was not reached."""
    if record["note"].startswith("not reached"):
        best = record["note"].split(" at ")[0].split()[-1]
        return f"best {best}", ""
    if record["value"] is None:
        return "n/a", ""

    shown = f"{record['value']:.3g}"
    if record["note"] in ("at most", "jump"):
        shown = f"<={shown}"
        if record["high"] is not None and record["high"] <= record["value"]:
            return shown, ""
    elif record["high"] is not None:
        return shown, f"{record['low']:.3g} to {record['high']:.3g}"
    return f"({shown})", ""
