"""The numbers of a board as rows of one table, one number each.

A record says what was measured (`measure`), of whom (`language`, `length`, `sampler`), at which setting of which knob
(`knob`, `budget`; None for what a whole curve comes to), and the Estimate; `evaluations` is the mean that a row needed
there. `target` is the SER or the excess of TER that was asked for, `by_seed` the same number by each seed alone. Where
there is no number, `value` is None and `note` says why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from unmask.core.estimates import Estimate
from unmask.core.files import finite
from unmask.experiments.board.cells import Point
from unmask.experiments.board.grid import Settings
from unmask.experiments.board.joining import Measured
from unmask.experiments.board.measures import Curve, Need, paired, ratio
from unmask.experiments.board.optimum import Best, need_of
from unmask.kernels.machine import Floats

Record = dict[str, Any]
TOLD = ("ser", "generative_perplexity", "evaluations")  # in ways of their own: by seed, as a ratio, beside every number
UNKNOWN = {"value": None, "low": None, "high": None, "n": 0, "level": None, "method": ""}


def records(found: Sequence[Measured], settings: Settings, best: Best | None = None) -> list[Record]:
    """Everything measured, points first, then what each curve comes to; best: where there is a headroom."""
    curves = {(m.language, m.length, m.family.specification): m.curve for m in found}
    made: list[Record] = []
    for m in found:
        about = {"language": m.language, "length": m.length, "sampler": m.family.specification, "knob": m.family.knob}
        for point in m.curve.points:
            made += [about | {"budget": point.value, "evaluations": point.evaluations} | r for r in of_point(point)]
        others = {
            name.partition("(")[0]: curve
            for (language, length, name), curve in curves.items()
            if (language, length) == (m.language, m.length)
        }
        summary = of_curve(m.curve, settings, others.get(settings.against), (best or {}).get((m.language, m.length)))
        made += [about | {"budget": None, "evaluations": None} | r for r in summary]
    return made


def of_point(point: Point) -> list[Record]:
    """What a sampler's rows are like at one budget."""
    made = [record("ser", point.ser, by_seed=point.ser_by_seed)]
    asked = [name for name in point.samples[0].values if name not in TOLD]
    made += [record(name, point.estimate(name), note="no row says it") for name in asked]
    name = "ter_ratio" if point.lawful else "ter_upper_ratio"
    made.append(record(name, point.ter_ratio, note=point.unbounded))
    made.append(record("generative_perplexity_ratio", point.perplexity_ratio, note="fewer than two valid rows"))
    made.append(record("diversity", point.diversity, note="no law of pairs"))
    distance, floor = point.variation or (None, None)
    made.append(record("total_variation", distance, note="no law of pairs", floor=floor))
    counts = [{f"evaluations of {name}": mean for name, mean in s.evaluations_of.items()} for s in point.samples]
    counts = [count | {"forwards": sample.forwards} for count, sample in zip(counts, point.samples, strict=True)]
    for name in counts[0]:
        made.append({"measure": name} | UNKNOWN | {"value": sum(c[name] for c in counts) / len(counts), "note": ""})
    return made


def of_curve(curve: Curve, settings: Settings, against: Curve | None, least: Floats | None) -> list[Record]:
    """What a sampler's curve comes to, how it stands to another one on the same rows, and to the best there can be."""
    made = []
    for target in settings.targets:
        ours = curve.ser_need(target)
        made.append(
            record_of_need("evaluations_for_ser", ours, "SER", target=target, by_seed=curve.ser_need_by_seed(target))
        )
    fluent = curve.ter_need(settings.excess)
    if fluent is None:
        made.append(record("evaluations_for_ter", None, target=settings.excess, note=curve.points[-1].unbounded))
    else:
        need = _in_ratio(fluent, curve.length)
        made.append(record_of_need("evaluations_for_ter", need, "TER ratio", target=settings.excess))
    made.append(_headroom(fluent, least, curve.length, settings.excess))
    rows = curve.accuracy_rows
    by_seed = curve.by_seed(rows)
    made.append(record("accuracy_under_parallelism", curve.accuracy, by_seed=by_seed, most=curve.accuracy_at_most))
    if against is None:
        made.append(record("accuracy_difference", None, note=f"no {settings.against} on the board"))
    else:
        theirs = against.accuracy_rows
        difference = paired(rows, theirs)
        made.append(record("accuracy_difference", difference, by_seed=curve.by_seed(rows - theirs)))
    return made


def _headroom(fluent: Need | None, least: Floats | None, length: int, excess: float) -> Record:
    """How many times the evaluations of the best choice, until TER is within the excess."""
    if least is None:
        return record("headroom", None, target=excess, note="the best that there can be is not known here")
    theirs = need_of(least, length * math.log1p(excess))
    found = None if fluent is None else ratio(fluent, theirs)
    return record("headroom", found, target=excess, note="the crossing of one of the two is not known")


def record(measure: str, estimate: Estimate | None, note: str = "", **more: Any) -> Record:
    """A number with its interval, or None and why; JSON has no infinity, and an open end is None."""
    if estimate is None:
        return {"measure": measure} | UNKNOWN | {"note": note} | more
    return {"measure": measure} | finite(asdict(estimate)) | {"note": ""} | more


def record_of_need(measure: str, need: Need, what: str, **more: Any) -> Record:
    note: str = need.found
    if need.found == "not reached":
        note = f"not reached: {what} {need.best:.3g} at {need.at:.3g} evaluations"
    fields = {"value": need.value, "low": need.low, "high": need.high, "method": "interpolated, band inverted"}
    return {"measure": measure} | UNKNOWN | fields | {"note": note} | more


def _in_ratio(need: Need, length: int) -> Need:
    """The best divergence, in nats, as the ratio of TER to the language's own."""
    return Need(need.found, need.value, need.low, need.high, math.exp(need.best / length), need.at)


def summary(made: Sequence[Record]) -> list[Record]:
    """What the curves come to, one record a sampler and language: the numbers without their intervals."""
    found: dict[tuple[str, int, str], Record] = {}
    for r in made:
        if r["budget"] is None:
            key = r["language"], r["length"], r["sampler"]
            entry = found.setdefault(key, dict(zip(("language", "length", "sampler"), key, strict=True)))
            name = f"{r['measure']}_{r['target']:g}" if "target" in r else r["measure"]
            entry[name] = {end: r[end] for end in ("value", "low", "high", "note")}
    return list(found.values())
