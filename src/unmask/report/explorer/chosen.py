"""The state of the controls: the rows of a figure, and the cheapest measured setting that meets the target.

explorer.js computes the same when a control moves; tests/report/test_explorer.py compares both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unmask.core.deciding import MEETS, MISSES, cheapest, standing
from unmask.core.estimates import Estimate
from unmask.report.explorer.figure import ORACLES, bare
from unmask.report.explorer.metrics import COSTS, FLOPS, METRICS, MODEL_CALLS, Metric
from unmask.report.results import CONTROLS, Point, Results

USUAL = "ancestral"  # the paper's sampler, the baseline of comparisons
NEAR = 0.05  # distance from the best measured value: the target of a metric without a fixed one
State = dict[str, Any]  # of each control; also `metric`, `target` (None: the metric's own) and `cost`


def start(results: Results, metrics: Sequence[Metric]) -> State:
    """The first state of a page: the value of each control that has the most points of the first metric."""
    state: State = {"metric": metrics[0].name, "target": metrics[0].target, "cost": MODEL_CALLS}
    left = [p for p in results.of(*metrics[0].measures) if p["kind"] == "mdm"]
    for name in CONTROLS:
        values = [point[name] for point in left if point[name] is not None]
        state[name] = USUAL if USUAL in values else max(dict.fromkeys(values), key=values.count, default=None)
        left = [point for point in left if point[name] in (state[name], None)]
    return state


def rows(points: Sequence[Point], state: State, measures: Sequence[str], free: Sequence[str]) -> list[Point]:
    """Points of some measures in a state, with any value of the `free` controls; AR has no sampler to choose."""
    fixed = [name for name in CONTROLS if name not in free]
    return [
        point
        for point in points
        if point["measure"] in measures
        and all(
            point[name] is None
            or state[name] is None
            or point[name] == state[name]
            or (name == "sampler" and point["kind"] == "ar")
            for name in fixed
        )
    ]


def usable(sampler: str | None) -> bool:
    """Whether a real model can use it: oracles use the true language."""
    return bare(sampler or "") not in ORACLES


@dataclass(frozen=True)
class Need:
    """The cheapest point that meets a target, or may; `best`: the best value, where none may."""

    point: Point | None
    standing: str
    best: Point | None = None


def need(points: Sequence[Point], metric: Metric, target: float, cost: str = MODEL_CALLS) -> Need:
    """Decide by the same rule as `unmask plan`; see core/deciding.py."""
    priced = sorted((p for p in points if p[cost] is not None), key=lambda p: (p[cost], p["steps"] or 0, p["number"]))
    at = cheapest(priced, lambda point: _standing(point, metric, target), lambda point: point[cost])
    if at is not None or not priced:
        return Need(at, MISSES if at is None else _standing(at, metric, target))
    return Need(None, MISSES, (max if metric.rises else min)(priced, key=lambda p: p["value"]))


def _standing(point: Point, metric: Metric, target: float) -> str:
    low, high = (point["value"] if point[end] is None else point[end] for end in ("low", "high"))
    return standing(low, high, target, metric.rises)


def goal(results: Results, state: State) -> float | None:
    """The target of a state (default: 5% from the best measured value)."""
    metric = METRICS[state["metric"]]
    if state["target"] is not None:
        return float(state["target"])
    here = [p["value"] for p in rows(results.points, state, metric.measures, ("sampler",)) if p["kind"] == "mdm"]
    if not here:
        return None
    return max(here) * (1 - NEAR) if metric.rises else min(here) * (1 + NEAR)


@dataclass(frozen=True)
class Verdict:
    """One or two sentences, and at most three numbers, each with its meaning."""

    sentence: str
    numbers: list[tuple[str, str]]


def verdict(results: Results, state: State) -> Verdict:
    """The cheapest measured setting that meets the target, that of the chosen sampler, and the comparison with AR."""
    metric, target, cost = METRICS[state["metric"]], goal(results, state), state["cost"]
    every = rows(results.points, state, metric.measures, ("sampler",))
    ar = next((p for p in every if p["kind"] == "ar"), None)
    masked = [p for p in every if p["kind"] == "mdm"]
    whom = state["of"] + ("" if state["length"] is None else f" at {state['length']} tokens")
    if not masked or target is None:
        return Verdict(f"No data for {short(metric)} of {whom}.{_elsewhere(results, state)}", [])
    best = need([p for p in masked if usable(p["sampler"])], metric, target, cost)
    own = need([p for p in masked if p["sampler"] == state["sampler"]], metric, target, cost)
    aim = f"{short(metric)} of at {'least' if metric.rises else 'most'} {shown(target, metric)}"
    if best.point is None:
        if best.best is None:
            return Verdict(f"{short(metric)} of {whom} has no measured cost.", [])
        at = best.best
        numbers = [
            (value_text(at, metric), f"best measured {short(metric)}: {setting(at)}"),
            (spent(at, cost), f"{COSTS[cost]} there"),
        ]
        if ar:
            meaning = f"with {spent(ar, MODEL_CALLS)} model calls per sequence"
            numbers.append((f"AR: {value_text(ar, metric)}", meaning))
        return Verdict(f"On {whom}, no measured setting reaches {aim}.{_chosen(state, own, None)}", numbers)
    at = best.point
    if best.standing == MEETS:
        sentence = f"On {whom}, the cheapest measured setting with {aim} is {setting(at)}."
        sure = "the whole interval meets the target"
    else:
        sentence = (
            f"On {whom}, no measured setting reaches {aim} with 95% confidence; the cheapest that may is {setting(at)}."
        )
        sure = "the interval contains the target"
    numbers = [(setting(at), f"the cheapest measured setting; {short(metric)} {value_text(at, metric)}: {sure}")]
    length = ar[MODEL_CALLS] if ar and ar[MODEL_CALLS] else at["length"]
    calls = (at[MODEL_CALLS] or 0) - at["causal"]  # of the masked model
    if not length or calls <= 0:
        return Verdict(sentence + _chosen(state, own, at), numbers)
    even = (length - at["causal"]) / calls  # AR tokens
    compute = "" if at[FLOPS] is None else f"; {'at least ' if at['causal'] else ''}{at[FLOPS]:.3g} times AR's compute"
    beside = f" and {at['causal']:.4g} AR tokens" if at["causal"] else ""
    numbers.append((f"{calls:.4g} model calls{beside}", f"per sequence; AR needs {length:.4g}{compute}"))
    if at["seconds"] and ar and ar["seconds"]:
        times = ar["seconds"] / at["seconds"]
        compared = "faster" if times > 1 else "slower"
        meaning = f"{at['seconds']:.3g} s per sequence, AR {ar['seconds']:.3g} s"
        numbers.append((f"{times:.2g} times AR's speed", meaning))
        return Verdict(f"{sentence} It is {compared} than AR here.{_chosen(state, own, at)}", numbers)
    numbers.append((f"{even:.3g} AR tokens", "break-even time of one model call: a faster call beats AR"))
    if even > 1:
        sentence += f" It is faster than AR if one model call takes less time than {even:.3g} AR tokens."
    else:
        sentence += " AR needs no more model calls."
    return Verdict(sentence + _chosen(state, own, at), numbers)


def _chosen(state: State, own: Need, best: Point | None) -> str:
    """The chosen sampler, where it is not the one of the headline."""
    name = state["sampler"]
    if name is None or (best is not None and best["sampler"] == name) or (own.point is None and best is None):
        return ""
    note = "" if usable(name) else " (a reference that uses the true language; no real model can use it)"
    if own.point is None:
        return f" The chosen sampler, {name}{note}, {'does not reach it' if own.best else 'was not measured here'}."
    needs = "needs" if own.standing == MEETS else "may need"
    return f" The chosen sampler, {name}{note}, {needs} {pace(own.point)}."


def _elsewhere(results: Results, state: State) -> str:
    """The controls that lead to the nearest point with data."""
    point, other = nearest(results, state)
    words = ", ".join(f"{CONTROLS[name]} {point[name]}" for name in other) if point else ""
    return f" The nearest choice with data: {words}." if words else ""


def nearest(results: Results, state: State) -> tuple[Point | None, list[str]]:
    """The first point of the metric with the fewest controls that differ from the state, and these controls."""
    best: tuple[Point | None, list[str]] = None, []
    for point in (p for measure in METRICS[state["metric"]].measures for p in results.of(measure)):
        other = [name for name in CONTROLS if None not in (point[name], state[name]) and point[name] != state[name]]
        if point["kind"] == "mdm" and (best[0] is None or len(other) < len(best[1])):
            best = point, other
    return best


def setting(point: Point) -> str:
    """A sampler with its number of steps."""
    return f"{point['sampler']}, {pace(point)}" if point["sampler"] else pace(point)


def pace(point: Point) -> str:
    if point["knob"]:
        return str(point["knob"])
    if point["steps"] is None:
        return "-" if point[MODEL_CALLS] is None else f"{point[MODEL_CALLS]:.4g} model calls"
    return f"{point['steps']:g} step{'' if point['steps'] == 1 else 's'}"


def spent(point: Point, cost: str) -> str:
    return "-" if point[cost] is None else f"{point[cost]:.4g}"


def short(metric: Metric) -> str:
    return metric.short or metric.title[0].lower() + metric.title[1:]


def shown(value: float, metric: Metric) -> str:
    return f"{100 * value:.3g}%" if metric.share else f"{value:.4g}"


def value_text(point: Mapping[str, Any], metric: Metric) -> str:
    """A value with its interval, in percent if it is a fraction."""
    estimate = Estimate.of_record(point)
    if not metric.share:
        return str(estimate)
    value, low, high = (f"{100 * one:.3g}%" for one in (estimate.value, estimate.low, estimate.high))
    if estimate.none_seen:
        return f"< {100 * estimate.high:.2g}%"
    return value if estimate.exact or estimate.open else f"{value} [{low}, {high}]"
