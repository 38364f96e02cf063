"""From points to the rows of a figure, in a state of the controls; explorer.js has the same functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unmask.core.estimates import Estimate
from unmask.report.explorer.chosen import State, goal, need, rounds, rows, usable
from unmask.report.explorer.figure import Figure, Frame, Row, framed
from unmask.report.explorer.yardsticks import COSTS, EVALUATIONS, FLOPS, YARDSTICKS, Yardstick
from unmask.report.results import Point, Results

MOST_NAMES = 14  # beside lines; of more lines, the chosen one and those on the front have names


def prepared(
    figure: Figure, results: Results, state: State, own: Sequence[Row] = ()
) -> tuple[list[Row], Frame, Yardstick]:
    """own: the rows of a figure that has no points."""
    yardstick = YARDSTICKS[figure.options.get("yardstick") or state["metric"]]
    if figure.own is not None:
        found = plain(figure, own, state)
    else:
        found = PREPARE[figure.prepare](figure, results, state, yardstick)
    return found, framed(found, yardstick.least), yardstick


def curves(figure: Figure, results: Results, state: State, yardstick: Yardstick) -> list[Row]:
    """Against N: measured points and theory's curve; a line joins the points of what theory does not know."""
    by, target = figure.options["by"], goal(results, state)
    state = elsewhere(results, state, yardstick, by, least=1)
    theory = rows(results.points, state, (yardstick.predicted,), (by,)) if yardstick.predicted else []
    measured = rows(results.points, state, yardstick.measures, (by,))
    known = {point[by] for point in theory}
    found = [_row(p, by, state) | {"line": p[by] not in known, "dot": True} for p in measured if p["steps"] or _ar(p)]
    found += [_row(p, by, state) | {"line": True, "dot": False} for p in theory if p[by] in {q[by] for q in measured}]
    ends = {
        row["series"]: row for row in sorted(found, key=lambda row: row["place"] or 0) if row["line"] and row["place"]
    }
    for row in found:
        row["end"] = ends.get(row["series"]) is row
    if yardstick.name == state["metric"] and target is not None:
        found.append({"goal": True, "kind": "goal", "value": target, "place": None})
    return found


def fronts(figure: Figure, results: Results, state: State, yardstick: Yardstick) -> list[Row]:
    """Against a cost: a line per sampler; `front`: no other point is both better and cheaper, references left out."""
    cost, by = state["cost"], figure.options["by"]
    state = elsewhere(results, state, yardstick, by)
    priced = [p for p in rows(results.points, state, yardstick.measures, (by,)) if p[cost]]
    found = [
        _row(p, by, state) | {"place": p[cost], "line": not _ar(p), "dot": True, "across": COSTS[cost]} for p in priced
    ]
    best = None
    for row in sorted(found, key=lambda row: (row["place"], row["value"] * (-1 if yardstick.rises else 1))):
        better = best is None or (row["value"] > best if yardstick.rises else row["value"] < best)
        better = better and usable(row["series"])
        row["front"] = better
        best = row["value"] if better else best
    series = dict.fromkeys(row["series"] for row in found if row["line"])
    few = len(series) <= MOST_NAMES
    front = {row["series"] for row in found if row["front"]}
    lines = [row for row in found if row["line"]]
    middle = (min(row["value"] for row in lines) + max(row["value"] for row in lines)) / 2 if lines else 0.0
    named: dict[Any, Row] = {}
    for row in sorted(lines, key=lambda row: (abs(row["value"] - middle), row["place"])):
        named.setdefault(row["series"], row)
    for row in found:
        row["end"] = named.get(row["series"]) is row and (few or row["chosen"] or row["series"] in front)
    even = {EVALUATIONS: state["length"], FLOPS: 1.0}.get(cost)
    return [*found, {"kind": "even", "place": even, "value": None, "line": False}] if found and even else found


def elsewhere(results: Results, state: State, yardstick: Yardstick, by: str, least: int = 2) -> State:
    """The state, or if it has fewer lines than the least, the same at the length with the most lines."""
    seen: dict[Any, set[Any]] = {}
    for point in rows(results.points, state, yardstick.measures, (by, "length")):
        if not _ar(point):
            seen.setdefault(point["length"], set()).add(point[by])
    if not seen or len(seen.get(state["length"], ())) >= least:
        return state
    return state | {"length": max(seen, key=lambda length: len(seen[length]))}


def needs(figure: Figure, results: Results, state: State, yardstick: Yardstick) -> list[Row]:
    """The cheapest point of each sampler that meets the target, or may; the cheapest sampler first."""
    by, cost, target = figure.options["by"], state["cost"], goal(results, state)
    state = elsewhere(results, state, yardstick, by)
    lines: dict[Any, list[Point]] = {}
    for point in rows(results.points, state, yardstick.measures, (by,)):
        if point["kind"] == "mdm":
            lines.setdefault(point[by], []).append(point)
    found = []
    for line in lines.values():
        at = None if target is None else need(line, yardstick, target, cost).point
        if at is not None and at[cost]:
            about = {"value": at[cost], "low": None, "high": None, "place": at[cost], "across": COSTS[cost]}
            found.append(_row(at, by, state) | about)
    return sorted(found, key=lambda row: (row["place"], row["series"]))


def plain(figure: Figure, own: Sequence[Row], state: State) -> list[Row]:
    """A figure's own rows that match the controls that it obeys."""
    obeyed = figure.options.get("obeys", ())
    return [
        row | {"chosen": all(row.get(name) == state[name] for name in figure.options.get("marks", ()))}
        for row in own
        if all(row.get(name) in (None, state[name]) or state[name] is None for name in obeyed)
    ]


PREPARE: Mapping[str, Callable[[Figure, Results, State, Yardstick], list[Row]]]
PREPARE = {"curves": curves, "fronts": fronts, "needs": needs}


def _row(point: Point, by: str, state: State) -> Row:
    estimate = Estimate.of_record(point)
    return {
        "kind": point["kind"],
        "place": point["steps"],
        "value": point["value"],
        "low": point["low"],
        "high": point["high"],
        "series": point[by],
        "chosen": point[by] == state[by] or (_ar(point) and by == "sampler"),
        "shown": str(estimate),
        "rounds": "AR" if _ar(point) else rounds(point),
        "cost": None if point["evaluations"] is None else f"{point['evaluations']:.4g}",
        "told": "theory" if not point["n"] else f"{point['n']} sequences",
        "goal": False,
        "size": None if point["length"] is None else f"L = {point['length']}",
        "at": point["number"],
    }


def _ar(point: Point) -> bool:
    return bool(point["kind"] == "ar")
