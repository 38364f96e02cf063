"""The choices of a page, and its verdict: the cheapest measured setting that meets a target."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, pairwise, product, starmap
from operator import itemgetter
from statistics import mode
from typing import Any

from unmask.core import entries
from unmask.core.errors import plural
from unmask.core.estimates import Estimate
from unmask.core.targets import MEETS, MISSES, cheapest, standing
from unmask.report.metrics import METRICS, SER, Metric, View
from unmask.report.results import JOINT, Point, Results
from unmask.report.select import (
    FIELDS,
    RIVALS,
    Fields,
    among,
    column,
    different,
    having,
    indexed,
    key_of,
    matching,
    where,
)

STATE = ("of", "model", "sampler", "length", "batch", "setting")  # the choices of a page; a schedule is its sampler's
USUAL = "ancestral"  # the paper's sampler, the baseline of comparisons
ORACLES = ("best-order", "examples/samplers/best_order.py:BestOrder")  # by the true language
WORDS = {"schedule": "schedule {}", "batch": "batch {}", "length": "{} tokens"}
NEAR = 0.05  # distance from the best measured value: the target of a metric without a fixed one


@dataclass(frozen=True)
class Shown:
    """Results, and the choices of their page."""

    results: Results
    view: View = field(default_factory=View)

    @cached_property
    def metrics(self) -> list[Metric]:
        own = set(column(where(self.results.points, kind="mdm"), "measure"))
        return [one for one in METRICS.values() if own & set(one.measures)]

    @cached_property
    def metric(self) -> Metric:
        """That of the verdict."""
        wanted = self.view.state.get("metric")
        return min(self.metrics or [SER], key=lambda one: one.name != wanted)  # the first, if it has no data

    def masked(self, *metrics: Metric) -> list[Point]:
        measures = chain.from_iterable(entries.column(metrics, "measures"))
        return where(self.results.of(*measures), kind="mdm")

    @cached_property
    def languages(self) -> list[str]:
        """Languages, tasks and texts."""
        own = column(self.masked(*self.metrics), "of")
        return list(dict.fromkeys(own + self.results.choices("of")))

    @cached_property
    def settings(self) -> list[dict[str, Any]]:
        """All measured settings."""
        return keys_of(self.masked(*self.metrics), FIELDS) or [dict.fromkeys(FIELDS)]

    @cached_property
    def state(self) -> dict[str, Any]:
        """The first language and setting: each value is that of most points of the metric, or that of the view."""
        state, left = {}, self.masked(self.metric)
        for name in STATE:
            values = column(having(left, name), name)
            if USUAL in values:
                values = [USUAL]
            state[name] = mode(values or [None])
            left = among(left, name, (state[name], None))

        every, first = self.masked(*self.metrics), entries.picked(self.view.state, STATE)
        return state | {name: value for name, value in first.items() if value in column(every, name)}

    @cached_property
    def at(self) -> int:
        """The number of the first setting."""
        return self.setting_of(self.state)

    @cached_property
    def _numbers(self) -> dict[tuple[Any, ...], int]:
        return {}  # of the nearest settings, once found

    def setting_of(self, values: Fields) -> int:
        """The number of the nearest setting."""
        own = key_of(values, *FIELDS)
        if own not in self._numbers:
            self._numbers[own] = nearest(self.settings, values)
        return self._numbers[own]

    @cached_property
    def verdict(self) -> Verdict:
        return verdict(self.results, self.metric, self.state)

    @cached_property
    def language(self) -> str:
        """The first choice of a language: "all" on a page with messages, else its number."""
        if not self.languages or (len(self.languages) > 1 and self.view.cards(self.results, self.state)):
            return "all"
        return str(self.languages.index(self.state["of"] or self.languages[0]))

    def named(self, values: Fields) -> str:
        """A setting in words: the sampler, the length, and other fields that differ between settings."""
        parts = []
        for name in ("of", *FIELDS):
            varies = len(different(having(self.settings, name), name)) > 1
            if (value := values.get(name)) is not None and (varies or name in ("of", "sampler", "length")):
                parts.append(WORDS.get(name, "{}").format(value))
        return ", ".join(parts)

    def nearest(self, keys: Sequence[Fields]) -> dict[tuple[str, int], int]:
        """For each choice of a language ("all", or its number) and of a setting the number of the nearest key."""
        if not keys:
            return {}

        languages = {"all": self.state["of"]} | {str(n): of for n, of in enumerate(self.languages)}
        numbers = {}
        for (at, values), (language, of) in product(enumerate(self.settings), languages.items()):
            numbers[language, at] = nearest(keys, values | {"of": of})
        return numbers


def nearest(keys: Sequence[Fields], values: Fields) -> int:
    """The number of the first key with the fewest other values."""
    return min(range(len(keys)), key=lambda number: differs(keys[number], values))


def differs(one: Fields, other: Fields) -> float:
    """The number of values that differ; lengths differ less if they are near."""
    names = [name for name, value in one.items() if value is not None and other.get(name) not in (None, value)]
    if "length" not in names:
        return len(names)
    return len(names) + abs(math.log(one["length"] / other["length"])) / 100


def keys_of(points: Iterable[Point], names: Sequence[str]) -> list[dict[str, Any]]:
    """The different values of these fields, except those that equal others with some values left open."""
    every = [entries.picked(point, names) for point in indexed(points, *names).values()]
    return [one for one in every if where(every, **entries.given(one)) == [one]]


def usable(sampler: str | None) -> bool:
    """Whether a real model can use it: oracles use the true language, joint draws its support if no other is named."""
    own, joint, draw = (sampler or "").partition(JOINT)
    return own.partition("(")[0] not in ORACLES and (not joint or "constraint=" in draw)


@dataclass(frozen=True)
class Need:
    """The cheapest point that meets a target, or may; `best`: the best value, where none may."""

    point: Point | None
    standing: str
    best: Point | None = None


def stands(metric: Metric, target: float, point: Point) -> str:
    """Whether a point meets the target."""
    if point["low"] is None:
        return standing(point["value"], point["value"], target, metric.rises)
    return standing(point["low"], point["high"], target, metric.rises)


def need(points: Sequence[Point], metric: Metric, target: float) -> Need:
    """Decide by the same rule as `unmask plan`; see core/search.py."""
    priced = having(points, "model_calls")
    priced.sort(key=lambda point: (point["model_calls"], point["steps"] or 0))
    at = cheapest(priced, partial(stands, metric, target), itemgetter("model_calls"))
    if at is not None:
        return Need(at, stands(metric, target, at))
    priced.sort(key=lambda point: point["value"], reverse=metric.rises)
    return Need(None, MISSES, next(iter(priced), None))


@dataclass(frozen=True)
class Verdict:
    """One or two sentences, and at most three numbers."""

    sentence: str
    numbers: list[tuple[str, str]]


def verdict(results: Results, metric: Metric, state: Fields, target: float | None = None) -> Verdict:
    """The cheapest measured setting that meets the target, and the comparison with AR."""
    every = matching(results.of(*metric.measures), state, RIVALS)
    ar = next(iter(where(every, kind="ar")), None)
    masked = where(every, kind="mdm")
    whom = state["of"]
    if state["length"] is not None:
        whom += f" at {state['length']} tokens"
    if not masked:
        return Verdict(f"No data for {metric.words} of {whom}.", [])

    target = entries.chosen(target, metric.target)
    if target is None:
        target = near(masked, metric)

    best = need([p for p in masked if usable(p["sampler"])], metric, target)
    limit = {False: "most", True: "least"}[metric.rises]
    aim = f"{metric.words} of at {limit} {metric.shown(target)}"

    if best.point is None:
        if best.best is None:
            return Verdict(f"{metric.words} of {whom} has no measured cost.", [])
        at = best.best
        numbers = [(value_text(at, metric), f"best measured {metric.words}: {setting(at)}")]
        numbers.append((calls_text(at), "per sequence there"))
        if ar:
            numbers.append((f"AR: {value_text(ar, metric)}", f"with {calls_text(ar)} per sequence"))
        return Verdict(f"On {whom}, no measured setting reaches {aim}.", numbers)

    at = best.point
    of_n = partial(grid_of_n, masked, metric, target, matching(results.of(metric.predicted), state, RIVALS))
    if best.standing == MEETS:
        words = f"the cheapest measured setting with {aim} is {setting(at)}{of_n(at)}."
        sure = "the whole interval meets the target"
    else:
        sure = "the interval contains the target"
        words = f"no measured setting reaches {aim} with 95% confidence; the cheapest that may is {setting(at)}."

    about = f"the cheapest measured setting; {metric.words} {value_text(at, metric)}: {sure}"

    usual = need(where(masked, sampler=USUAL), metric, target).point
    more, numbers = _beside(at, ar)
    if usual is not None and at["sampler"] != USUAL:
        more += f" In random order, {USUAL} needs {pace(usual)}{of_n(usual)}."
    numbers = [(setting(at), about), *numbers]
    return Verdict(f"On {whom}, {words}{more}", numbers)


def near(points: Sequence[Point], metric: Metric) -> float:
    """A target near the best value."""
    values = column(points, "value")
    if metric.rises:
        return max(values) * (1 - NEAR)
    return min(values) * (1 + NEAR)


def grid_of_n(measured: Sequence[Point], metric: Metric, target: float, theory: Sequence[Point], point: Point) -> str:
    """The grid of N from which a setting comes, and the exact N where theory has it, between points near each other."""
    steps = column(where(measured, sampler=point["sampler"]), "steps")
    if not all(n and math.log2(n).is_integer() for n in steps) or len(steps) < 2:
        return ""
    own = indexed(where(theory, sampler=point["sampler"]), "steps", "value")
    for (n, value), (more, less) in pairwise(sorted(own)):
        if value > target >= less and not metric.rises:
            part = math.log(value / target) / math.log(value / less)
            return f" (of the powers of 2 measured; by theory {math.ceil(n * (more / n) ** part - 0.01)})"
    return " (of the powers of 2 measured)"


def _beside(at: Point, ar: Point | None) -> tuple[str, list[tuple[str, str]]]:
    """A setting compared with AR: a sentence, and numbers with their meanings."""
    length = at["length"]
    if ar and ar["model_calls"]:
        length = ar["model_calls"]
    calls = at["model_calls"] - at["causal"]  # of the masked model
    if not length or calls <= 0:
        return "", []

    even = (length - at["causal"]) / calls  # AR tokens
    beside = least = compute = ""
    if at["causal"]:
        beside, least = f" and {at['causal']:.4g} AR tokens", "at least "
    if at["flops"] is not None:
        compute = f"; {least}{at['flops']:.3g} times AR's compute"

    numbers = [(f"{calls:.4g} model calls{beside}", f"per sequence; AR needs {length:.4g}{compute}")]
    if at["seconds"] and ar and ar["seconds"]:
        times = ar["seconds"] / at["seconds"]
        meaning = f"{at['seconds']:.3g} s per sequence, AR {ar['seconds']:.3g} s"
        numbers.append((f"{times:.2g} times AR's speed", meaning))
        which = "faster" if times > 1 else "slower"
        return f" It is {which} than AR here.", numbers

    numbers.append(
        (plural(float(f"{even:.3g}"), "AR token"), "break-even time of one model call: a faster call beats AR")
    )
    if even > 1:
        return f" It is faster than AR if one model call takes less time than {even:.3g} AR tokens.", numbers
    return " AR needs no more model calls.", numbers


def setting(point: Point) -> str:
    """A sampler with its number of steps."""
    return ", ".join(filter(None, (point["sampler"], pace(point))))


def pace(point: Point) -> str:
    if point["knob"]:
        return str(point["knob"])
    if point["steps"] is None:
        return calls_text(point)
    return plural(point["steps"], "step")


def calls_text(point: Point) -> str:
    if point["model_calls"] is None:
        return "-"
    return plural(float(f"{point['model_calls']:.4g}"), "model call")


def value_text(point: Fields, metric: Metric) -> str:
    """A value with its interval, in percent if it is a fraction."""
    estimate = Estimate.of_record(point)
    if not metric.share:
        return str(estimate)
    value, low, high = map(metric.shown, (estimate.value, estimate.low, estimate.high))
    if estimate.none_seen:
        return f"< {100 * estimate.high:.2g}%"
    if estimate.exact or estimate.open:
        return value
    return f"{value} [{low}, {high}]"


def grid(results: Results, state: Fields, metric: Metric) -> tuple[list[str], dict[tuple[str, str], dict[str, Point]]]:
    """(columns, points by row and column): languages and denoisers across; samplers and settings down, AR last."""
    here = matching(results.of(*metric.measures), state, ("of", "model", *RIVALS))
    several = len(set(column(here, "model")) - {None}) > 1
    order = different(here, "sampler")
    lines: dict[tuple[str, str], dict[str, Point]] = {}

    def head(point: Point) -> str:
        if several and point["model"]:
            return f"{point['of']}, {point['model']}"
        return str(point["of"])

    heads = list(dict.fromkeys(map(head, here)))
    here.sort(key=lambda p: (p["kind"] != "mdm", order.index(p["sampler"]), p["steps"] or 0, p["model_calls"] or 0))
    for point in here:
        name = {"ar": "AR", "text": "the text itself"}.get(point["kind"], point["sampler"] or "-")
        own = {"mdm": pace(point)}.get(point["kind"], "")
        lines.setdefault((name, own), {})[head(point)] = point
    return heads, lines


def table(shown: Shown) -> tuple[str, list[str], list[list[str]]]:
    """(title, head, rows) of the metric in the first state, for a terminal."""
    columns, lines = grid(shown.results, shown.state, shown.metric)
    rows = []
    for row, cells in lines.items():
        written = entries.mapped(partial(value_text, metric=shown.metric), cells)
        rows.append([*row, *(dict.fromkeys(columns, "-") | written).values()])
    return shown.metric.title, ["sampler", "setting", *columns], rows


def summary(shown: Shown) -> list[str]:
    """The messages of a page and its verdict with its numbers, for a terminal."""
    lines = list(starmap("{}  {}".format, shown.view.cards(shown.results, shown.state)))
    if shown.metrics:
        lines.append(shown.verdict.sentence)
        lines += starmap("  {}: {}".format, shown.verdict.numbers)
    return lines or ["No data yet."]
