"""The results of a board as records, one number each.

A record has the name of its number (`measure`), `language`, `length`, `sampler`, `knob`, `budget` (None for a whole
curve) and the Estimate. `model_calls` is the mean number of model calls per row. `target` is the requested SER or
excess of TER, `by_seed` the number for each seed. A missing number has `value` None, and the reason in `note`.

The headroom compares a sampler with the least divergence of any choose-then-sample sampler in N model calls per row
(`theory.best_orders.headroom`). It is known for first-order chains and intervals, and averaged over the languages of
all seeds, as the divergence of samplers is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, exactly
from unmask.core.files import finite
from unmask.experiments.board.cells import Point
from unmask.experiments.board.difference import difference
from unmask.experiments.board.grid import Settings
from unmask.experiments.board.measures import Curve, Measured, Need, need, ratio
from unmask.languages import load
from unmask.languages.kernels.machine import Floats
from unmask.theory.best_orders import headroom

Record = dict[str, Any]
SEPARATE = ("ser", "generative_perplexity", "model_calls")  # reported by seed, as a ratio, with every number
BEST_STEPS = 6  # with more steps the least divergence is almost 0
UNKNOWN = {"value": None, "low": None, "high": None, "n": 0, "level": None, "method": ""}


def records(measured: Sequence[Measured], settings: Settings) -> list[Record]:
    """All results: points first, then the summary of each curve."""
    curves = {(m.language, m.length, m.family.specification): m.curve for m in measured}
    least = {key: _least(*key[1:]) for key in dict.fromkeys((m.language, m.length, m.specs) for m in measured)}
    rows: list[Record] = []
    for m in measured:
        about = {"language": m.language, "length": m.length, "sampler": m.family.specification, "knob": m.family.knob}
        for point in m.curve.points:
            rows += [about | {"budget": point.value, "model_calls": point.model_calls} | r for r in of_point(point)]
        same_place = {
            name.partition("(")[0]: curve
            for (language, length, name), curve in curves.items()
            if (language, length) == (m.language, m.length)
        }
        best = least[m.language, m.length, m.specs]
        summary = of_curve(m.curve, settings, same_place.get(settings.against), best)
        rows += [about | {"budget": None, "model_calls": None} | r for r in summary]
    return rows


def _least(length: int, specs: Sequence[str]) -> Floats | None:
    """The least divergence in nats per sequence at N = 1, 2, ..; None if it is unknown, as for a network."""
    each = [headroom(load(spec), length, BEST_STEPS) for spec in specs]
    known = [values for values in each if values is not None]
    return np.mean(known, axis=0) if each and len(known) == len(each) else None


def of_point(point: Point) -> list[Record]:
    """The results of a sampler at one budget."""
    rows = [record("ser", point.ser, by_seed=point.ser_by_seed)]
    names = [name for name in point.samples[0].values if name not in SEPARATE]
    rows += [record(name, point.estimate(name), note="no row has a value") for name in names]
    name = "ter_ratio" if point.proper else "ter_upper_ratio"
    rows.append(record(name, point.ter_ratio, note=point.unbounded))
    rows.append(record("generative_perplexity_ratio", point.perplexity_ratio, note="fewer than two valid rows"))
    rows.append(record("diversity", point.diversity, note="no distribution of pairs"))
    distance, floor = point.variation or (None, None)
    rows.append(record("total_variation", distance, note="no distribution of pairs", floor=floor))
    counts = [{f"model calls of {name}": mean for name, mean in s.model_calls_of.items()} for s in point.samples]
    counts = [count | {"forwards": sample.forwards} for count, sample in zip(counts, point.samples, strict=True)]
    for name in counts[0]:
        rows.append({"measure": name} | UNKNOWN | {"value": sum(c[name] for c in counts) / len(counts), "note": ""})
    return rows


def of_curve(curve: Curve, settings: Settings, against: Curve | None, least: Floats | None) -> list[Record]:
    """The summary of a curve, its difference to another one on the same rows, and its headroom."""
    rows = []
    for target in settings.targets:
        rows.append(record_of_need("model_calls_for_ser", curve.ser_need(target), "SER", target=target))
    fluent = curve.ter_need(settings.excess)
    if fluent is None:
        rows.append(record("model_calls_for_ter", None, target=settings.excess, note=curve.points[-1].unbounded))
    else:
        calls = _in_ratio(fluent, curve.length)
        rows.append(record_of_need("model_calls_for_ter", calls, "TER ratio", target=settings.excess))
    rows.append(_headroom(fluent, least, curve.length, settings.excess))
    by_seed = curve.by_seed(curve.accuracy_rows)
    rows.append(record("accuracy_under_parallelism", curve.accuracy, by_seed=by_seed, most=curve.accuracy_at_most))
    rows.append(_difference(curve, against, settings.against))
    return rows


def _difference(curve: Curve, against: Curve | None, name: str) -> Record:
    """The difference to another sampler, as in `board compare`."""
    if against is None:
        return record("accuracy_difference", None, note=f"no {name} on the board")
    try:
        result = difference(curve, against)
    except UnmaskError as error:
        return record("accuracy_difference", None, note=str(error))
    return record("accuracy_difference", result.mean, by_seed=list(result.by_seed), verdict=result.verdict)


def _headroom(fluent: Need | None, least: Floats | None, length: int, excess: float) -> Record:
    """The ratio to the model calls of the best choice, until TER is within the excess."""
    if least is None:
        return record("headroom", None, target=excess, note="the least divergence is unknown here")
    calls = [float(n) for n in range(1, len(least) + 1)]
    best = need(calls, [exactly(float(nats)) for nats in least], length * math.log1p(excess))
    times = None if fluent is None else ratio(fluent, best)
    return record("headroom", times, target=excess, note="one of the two numbers of model calls is unknown")


def record(measure: str, estimate: Estimate | None, note: str = "", **more: Any) -> Record:
    """A number with its interval, or None and the reason. JSON has no infinity: None is an open end."""
    if estimate is None:
        return {"measure": measure} | UNKNOWN | {"note": note} | more
    return {"measure": measure} | finite(asdict(estimate)) | {"note": ""} | more


def record_of_need(measure: str, need: Need, what: str, **more: Any) -> Record:
    note: str = need.how
    if need.how == "not reached":
        note = f"not reached: {what} {need.best:.3g} at {need.at:.3g} model calls"
    fields = {"value": need.value, "low": need.low, "high": need.high, "method": "interpolated, band inverted"}
    return {"measure": measure} | UNKNOWN | fields | {"note": note} | more


def _in_ratio(need: Need, length: int) -> Need:
    """The best divergence in nats as the ratio of TER to that of the language."""
    return Need(need.how, need.value, need.low, need.high, math.exp(need.best / length), need.at)
