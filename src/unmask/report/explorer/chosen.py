"""A reader's choice: the rows of a figure, and the cheapest measured setting that meets the target.

explorer.js computes the same when a control moves; tests/report/test_explorer.py compares both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unmask.core.deciding import MEETS, MISSES, cheapest, standing
from unmask.core.estimates import Estimate
from unmask.report.explorer.looks import ORACLES, bare
from unmask.report.explorer.yardsticks import COSTS, EVALUATIONS, FLOPS, YARDSTICKS, Yardstick
from unmask.report.results import CONTROLS, Point, Results

USUAL = "ancestral"  # the paper's sampler, which others are compared with
NEAR = 0.05  # of the best measured value: the target of a metric that has none of its own
State = dict[str, Any]  # of each control; also `metric`, `target` (None: the metric's own) and `cost`


def start(results: Results, yardsticks: Sequence[Yardstick]) -> State:
    """The first state of a page: the value of each control that has the most points of the first metric."""
    state: State = {"metric": yardsticks[0].name, "target": yardsticks[0].target, "cost": EVALUATIONS}
    left = [p for p in results.of(*yardsticks[0].measures) if p["kind"] == "mdm"]
    for name in CONTROLS:
        seen = [point[name] for point in left if point[name] is not None]
        state[name] = USUAL if USUAL in seen else max(dict.fromkeys(seen), key=seen.count) if seen else None
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
    """Whether a real model can use it: oracles ask the language itself."""
    return bare(sampler or "") not in ORACLES


@dataclass(frozen=True)
class Need:
    """The cheapest point that meets a target, or may; `best`: the best value, where none may."""

    point: Point | None
    standing: str
    best: Point | None = None


def need(points: Sequence[Point], yardstick: Yardstick, target: float, cost: str = EVALUATIONS) -> Need:
    """Decides by the same rule as `unmask advise`; see core/deciding.py."""
    priced = sorted((p for p in points if p[cost] is not None), key=lambda p: (p[cost], p["steps"] or 0, p["number"]))
    at = cheapest(priced, lambda point: _standing(point, yardstick, target), lambda point: point[cost])
    if at is not None or not priced:
        return Need(at, MISSES if at is None else _standing(at, yardstick, target))
    return Need(None, MISSES, (max if yardstick.rises else min)(priced, key=lambda p: p["value"]))


def _standing(point: Point, yardstick: Yardstick, target: float) -> str:
    low, high = (point["value"] if point[end] is None else point[end] for end in ("low", "high"))
    return standing(low, high, target, yardstick.rises)


def goal(results: Results, state: State) -> float | None:
    """The target of a state; of a metric without one 5% from the best measured value."""
    yardstick = YARDSTICKS[state["metric"]]
    if state["target"] is not None:
        return float(state["target"])
    here = [p["value"] for p in rows(results.points, state, yardstick.measures, ("sampler",)) if p["kind"] == "mdm"]
    if not here:
        return None
    return max(here) * (1 - NEAR) if yardstick.rises else min(here) * (1 + NEAR)


@dataclass(frozen=True)
class Verdict:
    """One or two sentences, and at most three numbers, each with its meaning."""

    sentence: str
    numbers: list[tuple[str, str]]


def verdict(results: Results, state: State) -> Verdict:
    """The cheapest measured setting that meets the target, that of the chosen sampler, and the comparison with AR."""
    yardstick, target, cost = YARDSTICKS[state["metric"]], goal(results, state), state["cost"]
    every = rows(results.points, state, yardstick.measures, ("sampler",))
    ar = next((p for p in every if p["kind"] == "ar"), None)
    masked = [p for p in every if p["kind"] == "mdm"]
    whom = state["of"] + ("" if state["length"] is None else f" at {state['length']} tokens")
    if not masked or target is None:
        return Verdict(f"Nothing was measured: {short(yardstick)} of {whom}.", [])
    found = need([p for p in masked if usable(p["sampler"])], yardstick, target, cost)
    own = need([p for p in masked if p["sampler"] == state["sampler"]], yardstick, target, cost)
    wanted = f"{short(yardstick)} of at {'least' if yardstick.rises else 'most'} {shown(target, yardstick)}"
    if found.point is None:
        if found.best is None:
            return Verdict(f"Without a measured cost: {short(yardstick)} of {whom}.", [])
        at = found.best
        numbers = [
            (said(at, yardstick), f"best measured {short(yardstick)}: {setting(at)}"),
            (spent(at, cost), f"{COSTS[cost]} there"),
        ]
        if ar:
            numbers.append((f"AR: {said(ar, yardstick)}", f"with {spent(ar, EVALUATIONS)} model calls per sequence"))
        return Verdict(f"On {whom}, no measured setting reaches {wanted}.{_chosen(state, own, None)}", numbers)
    at = found.point
    sentence = f"On {whom}, the cheapest measured setting with {wanted} is {setting(at)}."
    if found.standing != MEETS:
        sentence = f"On {whom}, no measured setting surely reaches {wanted}; the cheapest that may is {setting(at)}."
    sure = "the whole interval meets the target" if found.standing == MEETS else "the interval contains the target"
    numbers = [(setting(at), f"smallest measured; {short(yardstick)} {said(at, yardstick)}: {sure}")]
    length = ar[EVALUATIONS] if ar and ar[EVALUATIONS] else at["length"]
    chosen = _chosen(state, own, at)
    calls = (at[EVALUATIONS] or 0) - at["causal"]  # of the masked model
    if not length or calls <= 0:
        return Verdict(sentence + chosen, numbers)
    saved = length - at["causal"]  # AR tokens
    even = saved / calls
    compute = "" if at[FLOPS] is None else f"; {'at least ' if at['causal'] else ''}{at[FLOPS]:.3g} times AR's compute"
    beside = f" and {at['causal']:.4g} AR tokens" if at["causal"] else ""
    numbers.append((f"{calls:.4g} model calls{beside}", f"per sequence; AR needs {length:.4g}{compute}"))
    if at["seconds"] and ar and ar["seconds"]:
        times = ar["seconds"] / at["seconds"]
        compared = "faster" if times > 1 else "slower"
        numbers.append(
            (f"{times:.2g} times AR's speed", f"{at['seconds']:.3g} s per sequence, AR {ar['seconds']:.3g} s")
        )
        return Verdict(f"{sentence} It is {compared} than AR here.{chosen}", numbers)
    numbers.append(
        (f"{even:.3g} AR tokens", "may take as long as one model call: below that time it is faster than AR")
    )
    if even > 1:
        sentence += f" It is faster than AR if one model call takes less time than {even:.3g} AR tokens."
    else:
        sentence += " It needs no fewer model calls than AR."
    return Verdict(sentence + chosen, numbers)


def _chosen(state: State, own: Need, best: Point | None) -> str:
    """The chosen sampler, where it is not the one of the headline."""
    name = state["sampler"]
    if name is None or (best is not None and best["sampler"] == name) or (own.point is None and best is None):
        return ""
    note = "" if usable(name) else " (a reference that asks the language itself; no real model can use it)"
    if own.point is None:
        return f" The chosen sampler, {name}{note}, {'does not reach it' if own.best else 'was not measured here'}."
    needs = "needs" if own.standing == MEETS else "may need"
    return f" The chosen sampler, {name}{note}, {needs} {rounds(own.point)}."


def setting(point: Point) -> str:
    """A sampler with its number of steps."""
    return f"{point['sampler']}, {rounds(point)}" if point["sampler"] else rounds(point)


def rounds(point: Point) -> str:
    if point["knob"]:
        return str(point["knob"])
    if point["steps"] is None:
        return "-" if point[EVALUATIONS] is None else f"{point[EVALUATIONS]:.4g} model calls"
    return f"{point['steps']:g} step{'' if point['steps'] == 1 else 's'}"


def spent(point: Point, cost: str) -> str:
    return "-" if point[cost] is None else f"{point[cost]:.4g}"


def short(yardstick: Yardstick) -> str:
    """Its name in a sentence."""
    return yardstick.short or yardstick.title[0].lower() + yardstick.title[1:]


def shown(value: float, yardstick: Yardstick) -> str:
    return f"{100 * value:.3g}%" if yardstick.share else f"{value:.4g}"


def said(point: Mapping[str, Any], yardstick: Yardstick) -> str:
    """A value with its interval, in percent if it is a probability."""
    estimate = Estimate.of_record(point)
    if not yardstick.share:
        return str(estimate)
    value, low, high = (f"{100 * one:.3g}%" for one in (estimate.value, estimate.low, estimate.high))
    if estimate.none_seen:
        return f"< {100 * estimate.high:.2g}%"
    return value if estimate.exact or estimate.open else f"{value} [{low}, {high}]"
