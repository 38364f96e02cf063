"""Accuracy on a published task against its cost, and the settings that are better than AR at the same cost.

A figure has a line per sampler over its numbers of steps. AR is a point and a level. Settings are compared with AR item
by item, with McNemar's test at a level of 5% divided by the number of settings (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from statistics import fmean
from typing import Any

from unmask.core.errors import listed
from unmask.core.targets import cheapest
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
    clauses,
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
from unmask.report.select import SHARED, column, having, matching, positive, where
from unmask.report.verdict import Shown, keys_of, setting, stands
from unmask.tasks.evaluation.compare import LEVEL, Comparison, compare_shares, in_common

ACCURACY = METRICS["accuracy"]
COSTS = {"model_calls": "model calls per item", "seconds": "seconds per item"}
SHORT = {"model_calls": "model calls", "seconds": "time"}
MOST_NAMED = 4  # settings in a sentence


def spent(shown: Shown, cost: str) -> Drawn | None:
    """Accuracy against a cost, a line per sampler; None without the items of a task."""
    points = having(positive(shown.results.of("accuracy"), cost), "keys")
    masked = where(points, kind="mdm")
    if not masked or not shown.results.items:
        return None

    keys = Keys.of(shown, keys_of(masked, SHARED))
    rows, sentences = [], []
    for k, values in enumerate(keys.values):
        own = matching(points, values)
        rows += [_row(shown, p, k, cost) for p in own]

        if words := against_ar(shown.results.items, own, cost):
            sentences.append(Sentence(words, keys.choices(k)))
        if cost == "seconds":
            sentences.append(Sentence(fastest(own), keys.choices(k)))

    title = f"Accuracy against {SHORT[cost]}, by sampler"
    under = "further left is cheaper; diamond and dotted level: AR; bars: 95% intervals over items"
    return Drawn(title, under, finished(_layers(shown, rows, cost), title, *keys.now()), rows, sentences)


def _row(shown: Shown, point: Point, k: int, cost: str) -> Row:
    series, took = {"ar": AR, "mdm": point["sampler"]}[point["kind"]], ""
    if point["seconds"] is not None:
        took = f"{point['seconds']:.3g}"
    return row(shown, point, k, series, point[cost], took=took, n=f"{point['n']} items", step=point["steps"] or 0)


def _layers(shown: Shown, rows: Sequence[Row], cost: str) -> list[Any]:
    x, y = across(COSTS[cost]), up("accuracy", share=True)
    own, ar = where(rows, kind="mdm"), where(rows, kind="ar")
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

    affordable = [p for p in where(points, kind="mdm") if p[cost] <= ar[cost]]
    named: dict[str, list[str]] = {"better": [], "worse": [], "not distinguishable": []}
    for point in affordable:
        one = paired(items, point, ar, LEVEL / len(affordable))
        named[one.verdict].append(f"{setting(point)} ({one.difference.points})")

    unsure = len(named.pop("not distinguishable"))
    parts = [f"{verdict} than AR: {listed(own, MOST_NAMED)}" for verdict, own in named.items() if own]
    if unsure:
        parts.append(f"not distinguishable: {unsure}")
    return f"{len(affordable)} settings need at most the {SHORT[cost]} of AR; {'; '.join(parts) or 'none compared'}."


def paired(items: Mapping[str, Mapping[str, float]], one: Point, other: Point, level: float) -> Comparison:
    """Compare two settings on their common items; several seeds are samples of an item."""
    return compare_shares(in_common(_scores(items, one), _scores(items, other)), level)


def _scores(items: Mapping[str, Mapping[str, float]], point: Point) -> dict[str, float]:
    """The mean score of each item that all cells of a point have."""
    scores: dict[str, list[float]] = {}
    for key in point["keys"]:
        for item, score in items[key].items():
            scores.setdefault(item, []).append(score)
    return {item: fmean(own) for item, own in scores.items() if len(own) == len(point["keys"])}


def fastest(points: Sequence[Point]) -> str:
    """The fastest setting, AR among them, for each target of the accuracy, in one sentence."""
    timed = positive(points, "seconds")

    parts = {}
    for target in ACCURACY.targets:
        best = cheapest(timed, partial(stands, ACCURACY, target), itemgetter("seconds"))
        who = "none"
        if best is not None:
            name = {"ar": "AR"}.get(best["kind"], setting(best))
            who = f"{name} in {best['seconds']:.3g} s"
        parts[ACCURACY.shown(target)] = who
    return f"The fastest measured setting that reaches or may reach an accuracy of {clauses(parts)}."
