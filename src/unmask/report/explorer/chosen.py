"""What a choice of a reader comes to: the rows of a figure, and how many rounds a quality takes.

explorer.js does the same when a control moves; tests/report/test_explorer.py holds one against the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from unmask.report.explorer.yardsticks import EVALUATIONS, YARDSTICKS, Yardstick
from unmask.report.results import CONTROLS, Point, Results

USUAL = "ancestral"  # the sampler of the paper: what others are compared to
State = dict[str, Any]  # of each control; of `metric`, `target` and `cost`, too


def start(results: Results, yardsticks: Sequence[Yardstick]) -> State:
    """What a page begins with: of each control what most points of the first yardstick have."""
    state: State = {"metric": yardsticks[0].name, "target": yardsticks[0].target, "cost": EVALUATIONS}
    said = [p for p in results.of(*yardsticks[0].measures) if p["kind"] == "mdm"]
    for name in CONTROLS:
        seen = [point[name] for point in said if point[name] is not None]
        state[name] = USUAL if USUAL in seen else max(dict.fromkeys(seen), key=seen.count) if seen else None
        said = [point for point in said if point[name] in (state[name], None)]
    return state


def rows(points: Sequence[Point], state: State, measures: Sequence[str], free: Sequence[str]) -> list[Point]:
    """Points of some measures that a state chooses, whatever they have of the `free` controls; AR whatever samples."""
    fixed = [name for name in CONTROLS if name not in free]
    return [
        point
        for point in points
        if point["measure"] in measures
        and all(
            point[name] is None or state[name] is None or point[name] == state[name] or _apart(point, name)
            for name in fixed
        )
    ]


def _apart(point: Point, name: str) -> bool:
    """Whether a control says nothing of a point: AR has no sampler to choose, and no rounds."""
    return name == "sampler" and point["kind"] == "ar"


@dataclass(frozen=True)
class Need:
    """What it takes until a target is met: the least of what was measured, and the point."""

    point: Point | None
    best: Point | None = field(default=None)  # where it is not met: what comes nearest


def need(curve: Sequence[Point], yardstick: Yardstick, target: float) -> Need:
    """Of the points of one curve: the cheapest that meets the target and keeps it at every dearer one."""
    ordered = sorted((p for p in curve if p[EVALUATIONS] is not None), key=lambda p: (p[EVALUATIONS], p["steps"] or 0))
    met = None
    for point in reversed(ordered):
        good = point["value"] >= target if yardstick.rises else point["value"] <= target
        if not good:
            break
        met = point
    if met is not None or not ordered:
        return Need(met)
    return Need(None, (max if yardstick.rises else min)(ordered, key=lambda p: p["value"]))


@dataclass(frozen=True)
class Verdict:
    """One sentence and three numbers."""

    sentence: str
    numbers: list[tuple[str, str]]  # the number, and what it is


def verdict(results: Results, state: State) -> Verdict:
    """What the chosen quality takes of an MDM, and what that is against AR."""
    yardstick = YARDSTICKS[state["metric"]]
    here = rows(results.points, state, yardstick.measures, ())
    curve, ar = [p for p in here if p["kind"] == "mdm"], next((p for p in here if p["kind"] == "ar"), None)
    found = need(curve, yardstick, state["target"])
    goal = (
        f"{short(yardstick)} {'of at least' if yardstick.rises else 'of at most'} {shown(state['target'], yardstick)}"
    )
    whom = state["of"] + ("" if state["length"] is None else f" at {state['length']} tokens")
    if not curve:
        return Verdict(f"Nothing was measured of {short(yardstick)} for {whom} by {state['sampler']}.", [])
    if found.point is None:
        if found.best is None:
            return Verdict(f"What {short(yardstick)} of {whom} costs was not measured.", [])
        at = found.best
        sentence = f"No number of rounds that was measured brings {state['sampler']} to {goal} on {whom}."
        numbers = [
            (shown(at["value"], yardstick), f"the best {short(yardstick)}, after {rounds(at)}"),
            (f"{at[EVALUATIONS]:.4g}", "evaluations a sequence there"),
        ]
        return Verdict(sentence, numbers + ([_of_ar(ar, yardstick)] if ar else []))
    at = found.point
    numbers = [(rounds(at), f"for {goal}")]
    length = ar[EVALUATIONS] if ar and ar[EVALUATIONS] else at["length"]
    if not length:
        return Verdict(f"{whom}: {goal} takes {rounds(at)} of {state['sampler']}.", numbers)
    own, left = at[EVALUATIONS] - at["causal"], length - at["causal"]  # of the masked model; AR tokens that it saves
    share, even = at[EVALUATIONS] / length, left / own
    spent = f"{at[EVALUATIONS]:.4g}" if not at["causal"] else f"{own:.4g} and {at['causal']:.4g} of the AR model"
    numbers.append((f"{share:.0%} of AR's evaluations", f"{spent} against {length:.4g}{_flops(at)}"))
    if at["seconds"] and ar and ar["seconds"]:
        times = ar["seconds"] / at["seconds"]
        numbers.append(
            (f"{times:.2g} times as fast", f"{at['seconds']:.3g} s a sequence against {ar['seconds']:.3g} s")
        )
        better = "faster than AR" if times > 1 else "slower than AR"
        return Verdict(f"On {whom}, {goal} takes {rounds(at)} of {state['sampler']}: {better} here.", numbers)
    numbers.append((f"break-even at {even:.3g}", "tokens of AR: as long as an evaluation may last to be as fast"))
    if even > 1:
        sentence = f"On {whom}, {goal} takes {rounds(at)} of {state['sampler']}: faster than AR where an evaluation"
        sentence += f" lasts less than {even:.3g} of AR's tokens."
    else:
        sentence = f"On {whom}, {goal} takes {rounds(at)} of {state['sampler']}: no fewer evaluations than AR."
    return Verdict(sentence, numbers)


def rounds(point: Point) -> str:
    if point["steps"] is None:
        return f"{point[EVALUATIONS]:.4g} evaluations"
    return f"{point['steps']:g} rounds"


def short(yardstick: Yardstick) -> str:
    """What it is called in a sentence."""
    return {"ser": "SER", "ter": "TER ratio"}.get(yardstick.name, yardstick.title[0].lower() + yardstick.title[1:])


def shown(value: float, yardstick: Yardstick) -> str:
    return f"{100 * value:.3g}%" if yardstick.share else f"{value:.4g}"


def _of_ar(ar: Point, yardstick: Yardstick) -> tuple[str, str]:
    return f"AR: {shown(ar['value'], yardstick)}", f"with {ar[EVALUATIONS]:.4g} evaluations, one a token"


def _flops(point: Point) -> str:
    if point["flops"] is None:
        return ""
    times = f"{'at least ' if point['causal'] else ''}{point['flops']:.3g} times"
    return f"; its arithmetic {times}, as each reads all tokens"
