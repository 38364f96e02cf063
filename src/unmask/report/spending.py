"""Accuracy on a published task against its cost, and the settings that are better than AR at the same cost.

A figure has a line per sampler over its numbers of steps. AR is a point and a level. Settings are compared with AR item
by item, with McNemar's test at a level of 5% divided by the number of settings (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from unmask.core.errors import listed
from unmask.core.targets import cheapest, standing
from unmask.report.charts import (
    INK,
    PAPER,
    Drawn,
    Keys,
    Row,
    Sentence,
    across,
    bars,
    base,
    below,
    colour,
    dotted,
    finished,
    lined,
    row,
    tips,
    up,
)
from unmask.report.metrics import METRICS
from unmask.report.results import AR, Point
from unmask.report.select import FIELDS, RIVALS, column, matching, where
from unmask.report.verdict import Shown, keys_of, setting
from unmask.tasks.evaluation.compare import LEVEL, Comparison, compare_shares

ACCURACY = METRICS["accuracy"]
COSTS = {"model_calls": "model calls per item", "seconds": "seconds per item"}
SHORT = {"model_calls": "model calls", "seconds": "time"}
NAMES = ("of", *(name for name in FIELDS if name not in RIVALS))
MOST_NAMED = 4  # settings in a sentence


def spent(shown: Shown, cost: str) -> Drawn | None:
    """Accuracy against a cost, a line per sampler; None without the items of a task."""
    points = [p for p in shown.results.of("accuracy") if p[cost] and "keys" in p]
    masked = where(points, kind="mdm")
    if not masked or not shown.results.items:
        return None

    keys = Keys.of(shown, keys_of(masked, NAMES))
    groups = [matching(points, values) for values in keys.values]
    rows = [_row(shown, p, k, cost) for k, own in enumerate(groups) for p in own]

    sentences = []
    for k, own in enumerate(groups):
        words = [against_ar(shown.results.items, own, cost)]
        if cost == "seconds":
            words.append(fastest(own))
        sentences += [Sentence(one, keys.choices(k)) for one in words if one]

    title = f"Accuracy against {SHORT[cost]}, by sampler"
    under = "further left is cheaper; diamond and dotted level: AR; bars: 95% intervals over items"
    return Drawn(title, under, finished(_layers(shown, rows, cost), title, *keys.now()), rows, sentences)


def _row(shown: Shown, point: Point, k: int, cost: str) -> Row:
    series, took = point["sampler"], ""
    if point["kind"] == "ar":
        series = AR
    if point["seconds"] is not None:
        took = f"{point['seconds']:.3g}"
    return row(shown, point, k, series, point[cost], took=took, n=f"{point['n']} items", step=point["steps"] or 0)


def _layers(shown: Shown, rows: Sequence[Row], cost: str) -> list[Any]:
    x, y = across(COSTS[cost]), up("accuracy", share=True)
    own, ar = (where(rows, kind=kind) for kind in ("mdm", "ar"))
    look = {"color": colour(shown, column(own, "series"), legend=below())}
    layers = lined(base(own), x, y, tips("sampler", took="seconds"), look, order="step:Q", detail="series:N")
    if ar:
        causal = base(ar)
        diamond = causal.mark_point(shape="diamond", size=130, strokeWidth=2, color=INK, fill=PAPER)
        layers = [dotted(causal).encode(y=y), bars(causal, x, y), *layers, diamond.encode(x=x, y=y)]
    return layers


def against_ar(items: Mapping[str, Mapping[str, float]], points: Sequence[Point], cost: str) -> str:
    """The settings that cost at most as much as AR, by their verdict; "" without AR."""
    ar = next(iter(where(points, kind="ar")), None)
    if ar is None:
        return ""

    affordable = [p for p in points if p["kind"] == "mdm" and p[cost] <= ar[cost]]
    compared = [(setting(p), paired(items, p, ar, LEVEL / len(affordable))) for p in affordable]
    parts = []
    for verdict in ("better", "worse"):
        named = [f"{name} ({one.difference.points})" for name, one in compared if one.verdict == verdict]
        if named:
            parts.append(f"{verdict} than AR: {listed(named, MOST_NAMED)}")

    if unsure := sum(one.verdict == "not distinguishable" for _, one in compared):
        parts.append(f"not distinguishable: {unsure}")
    return f"{len(affordable)} settings need at most the {SHORT[cost]} of AR; {'; '.join(parts) or 'none compared'}."


def paired(items: Mapping[str, Mapping[str, float]], one: Point, other: Point, level: float) -> Comparison:
    """Compare two settings on their common items; several seeds are samples of an item."""
    first, second = (_scores(items, point) for point in (one, other))
    return compare_shares([(first[item], second[item]) for item in first if item in second], level)


def _scores(items: Mapping[str, Mapping[str, float]], point: Point) -> dict[str, float]:
    """The mean score of each item over the cells of a point."""
    cells = [items[key] for key in point["keys"]]
    return {item: fmean(cell[item] for cell in cells) for item in cells[0] if all(item in cell for cell in cells)}


def fastest(points: Sequence[Point]) -> str:
    """The fastest setting, AR among them, for each target of the accuracy, in one sentence."""
    timed = [p for p in points if p["seconds"]]

    def stands(point: Point, target: float) -> str:
        return standing(point["low"], point["high"], target, rises=True)

    parts = []
    for target in ACCURACY.targets:
        best = cheapest(timed, lambda p, target=target: stands(p, target), lambda p: p["seconds"])  # type: ignore[misc]
        who = "none"
        if best is not None:
            name = {"ar": "AR"}.get(best["kind"], setting(best))
            who = f"{name} in {best['seconds']:.3g} s"
        parts.append(f"{ACCURACY.shown(target)}: {who}")
    return f"The fastest measured setting that reaches or may reach an accuracy of {'; '.join(parts)}."
