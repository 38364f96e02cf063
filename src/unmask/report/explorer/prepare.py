"""From points to the rows of a figure, in a state of the controls; explorer.js has the same functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unmask.core.estimates import Estimate
from unmask.report.explorer.chosen import State, goal, need, pace, rows, usable
from unmask.report.explorer.figure import Figure, Row, framed
from unmask.report.explorer.metrics import COSTS, FLOPS, METRICS, MODEL_CALLS, Metric
from unmask.report.results import Point, Results

MOST_NAMES = 14  # of lines; if there are more, only the chosen one and those on the front have names


def prepared(
    figure: Figure, results: Results, state: State, own: Sequence[Row] = ()
) -> tuple[list[Row], dict[str, float], Metric]:
    metric = METRICS[figure.options.get("metric") or state["metric"]]
    if figure.own is not None:
        prepared_rows = plain(figure, own, state)
    else:
        prepared_rows = PREPARE[figure.prepare](figure, results, state, metric)
    return prepared_rows, framed(prepared_rows, metric.least), metric


def curves(figure: Figure, results: Results, state: State, metric: Metric) -> list[Row]:
    """Against N: measured points and the curves of theory; a line joins points that theory does not predict."""
    by, target = figure.options["by"], goal(results, state)
    state = elsewhere(results, state, metric, by, least=1)
    theory = rows(results.points, state, (metric.predicted,), (by,)) if metric.predicted else []
    measured = rows(results.points, state, metric.measures, (by,))
    known, drawn = {point[by] for point in theory}, {point[by] for point in measured}
    lines = [_row(p, by, state) | {"line": p[by] not in known, "dot": True} for p in measured if p["steps"] or _ar(p)]
    lines += [_row(p, by, state) | {"line": True, "dot": False} for p in theory if p[by] in drawn]
    placed = [row for row in lines if row["line"] and row["place"]]
    ends = {row["series"]: row for row in sorted(placed, key=lambda row: row["place"])}
    for row in lines:
        row["end"] = ends.get(row["series"]) is row
    if lines and metric.name == state["metric"] and target is not None:
        lines.append({"goal": True, "kind": "goal", "value": target, "place": None})
    return lines


def fronts(figure: Figure, results: Results, state: State, metric: Metric) -> list[Row]:
    """Against a cost: a line per sampler; `front`: no other point is both better and cheaper, without references."""
    cost, by = state["cost"], figure.options["by"]
    state = elsewhere(results, state, metric, by)
    priced = [p for p in rows(results.points, state, metric.measures, (by,)) if p[cost]]
    about = {"dot": True, "across": COSTS[cost]}
    points = [_row(p, by, state) | about | {"place": p[cost], "line": not _ar(p)} for p in priced]
    best = None
    for row in sorted(points, key=lambda row: (row["place"], row["value"] * (-1 if metric.rises else 1))):
        better = best is None or (row["value"] > best if metric.rises else row["value"] < best)
        row["front"] = better and usable(row["series"])
        best = row["value"] if row["front"] else best
    lines = [row for row in points if row["line"]]
    few = len({row["series"] for row in lines}) <= MOST_NAMES
    front = {row["series"] for row in points if row["front"]}
    middle = (min(row["value"] for row in lines) + max(row["value"] for row in lines)) / 2 if lines else 0.0
    named: dict[Any, Row] = {}
    for row in sorted(lines, key=lambda row: (abs(row["value"] - middle), row["place"])):
        named.setdefault(row["series"], row)
    for row in points:
        row["end"] = named.get(row["series"]) is row and (few or row["chosen"] or row["series"] in front)
    even = {MODEL_CALLS: state["length"], FLOPS: 1.0}.get(cost)
    return [*points, {"kind": "even", "place": even, "value": None, "line": False}] if points and even else points


def elsewhere(results: Results, state: State, metric: Metric, by: str, least: int = 2) -> State:
    """The state; at the length with the most lines, if its own length has fewer lines than `least`."""
    lines: dict[Any, set[Any]] = {}
    for point in rows(results.points, state, metric.measures, (by, "length")):
        if not _ar(point):
            lines.setdefault(point["length"], set()).add(point[by])
    if not lines or len(lines.get(state["length"], ())) >= least:
        return state
    return state | {"length": max(lines, key=lambda length: len(lines[length]))}


def needs(figure: Figure, results: Results, state: State, metric: Metric) -> list[Row]:
    """The cheapest point of each sampler that meets the target, or may; the cheapest sampler first."""
    by, cost, target = figure.options["by"], state["cost"], goal(results, state)
    state = elsewhere(results, state, metric, by)
    lines: dict[Any, list[Point]] = {}
    for point in rows(results.points, state, metric.measures, (by,)):
        if point["kind"] == "mdm":
            lines.setdefault(point[by], []).append(point)
    bars = []
    for line in lines.values():
        at = None if target is None else need(line, metric, target, cost).point
        if at is not None and at[cost]:
            about = {"value": at[cost], "low": None, "high": None, "place": at[cost], "across": COSTS[cost]}
            bars.append(_row(at, by, state) | about)
    return sorted(bars, key=lambda row: (row["place"], row["series"]))


def plain(figure: Figure, own: Sequence[Row], state: State) -> list[Row]:
    """A figure's own rows that match the controls of its option `obeys`."""
    obeyed = figure.options.get("obeys", ())
    return [
        row | {"chosen": all(row.get(name) == state[name] for name in figure.options.get("marks", ()))}
        for row in own
        if all(row.get(name) in (None, state[name]) or state[name] is None for name in obeyed)
    ]


PREPARE: Mapping[str, Callable[[Figure, Results, State, Metric], list[Row]]]
PREPARE = {"curves": curves, "fronts": fronts, "needs": needs}


def _row(point: Point, by: str, state: State) -> Row:
    return {name: point[name] for name in ("kind", "value", "low", "high")} | {
        "place": point["steps"],
        "series": point[by],
        "chosen": point[by] == state[by] or (_ar(point) and by == "sampler"),
        "shown": str(Estimate.of_record(point)),
        "setting": "AR" if _ar(point) else pace(point),
        "cost": None if point["model_calls"] is None else f"{point['model_calls']:.4g}",
        "sample": "theory" if not point["n"] else f"{point['n']} sequences",
        "goal": False,
        "size": None if point["length"] is None else f"L = {point['length']}",
        "at": point["number"],
    }


def _ar(point: Point) -> bool:
    return bool(point["kind"] == "ar")
