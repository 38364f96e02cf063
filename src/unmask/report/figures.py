"""The figures: from the points of a store to a drawing, with a sentence on its result."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import starmap
from operator import itemgetter

from unmask.core import entries
from unmask.core.errors import listed, needed
from unmask.report.charts import (
    ACCENT,
    DASHES,
    DOTS,
    INK,
    PAPER,
    Drawn,
    Keys,
    Maker,
    Row,
    Sentence,
    across,
    bars,
    base,
    below,
    between,
    bright,
    by_drawing,
    clauses,
    colour,
    control,
    dots,
    dotted,
    each,
    ends,
    finished,
    framed,
    here,
    lined,
    on,
    picked,
    row,
    tips,
    up,
    word,
)
from unmask.report.infilling import MEASURES, infilled
from unmask.report.metrics import METRICS, Metric
from unmask.report.results import AR, JOINT, Point
from unmask.report.select import (
    FIELDS,
    RIVALS,
    SHARED,
    Fields,
    among,
    column,
    different,
    having,
    indexed,
    matching,
    positive,
    where,
)
from unmask.report.spending import COSTS, spent
from unmask.report.verdict import Shown, keys_of, usable
from unmask.tasks.exact import is_ideal

with needed("pages", "a figure"):
    import altair as alt

BETWEEN = {"language": "of", "network": "model", "sampler": "sampler"}  # a line for each value of these
DRAWINGS = {"of": FIELDS, "model": ("of", *FIELDS[1:]), "sampler": SHARED}  # a drawing for each value of these
GOALS = {"steps_for_ser": "SER", "steps_for_ter": "TER"}
MASKS, UNIFORM = "ancestral", "uniform-ancestral"
NOISES = {MASKS: "masks", UNIFORM: "uniform noise"}
TICKS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000]
DIGITS = ("5", "1", "01")  # of the SER, after the point, in the figures of growth
MOST_NAMED, MOST_BESIDE = 4, 6  # settings in a sentence; names beside the lines of a figure


def span(rows: Sequence[Row], metric: Metric) -> str:
    values = column(rows, "value")
    low, high = metric.shown(min(values)), metric.shown(max(values))
    return low if low == high else f"{low} to {high}"


def curves(shown: Shown, metric: Metric, line: str) -> Drawn | None:
    """Against N: measured points and the curves of theory; a line joins points that theory does not predict."""
    by = BETWEEN[line]
    rows, keys = points_of_curves(shown, metric, by)
    own, ar = where(rows, kind="mdm"), where(rows, kind="ar")
    ticks = sorted(different(where(rows, dot=True), "x"))
    compared = len(indexed(own, "k", "hue")) > len(different(own, "k"))  # several lines in a drawing
    if len(ticks) < 2 or (by != "of" and not compared):
        return None

    lows, highs = framed(rows, len(keys.values), metric.least)
    wide = [column(own, "x") or [1, 2] for own in by_drawing(rows, len(keys.values))]
    limits = between(list(map(min, wide)), list(map(max, wide)), type="log", base=2)
    x = across("N, the number of steps", scale=limits, format="d", values=ticks)
    y = up(None, metric.share, scale=between(lows, highs, zero=False))

    names = [*column(own, "hue"), AR]
    look = {"color": colour(shown, names, "hue"), "opacity": here(rows) if by == "of" else alt.value(1)}

    masked, causal = base(own), base(ar)
    lines, measured = masked.transform_filter("datum.line"), masked.transform_filter("datum.dot")
    named = [r | {"x": max(wide[r["k"]]), "l": ""} for r in where(ar, first=True)]
    dash = alt.condition("datum.joint", alt.value(DASHES), alt.value([1, 0]))
    points = dots(measured).encode(x=x, y=y, tooltip=tips(line), **look)

    layers = [
        dotted(causal.transform_filter("datum.first")).encode(y=y),
        bars(masked, x, y, **look),
        lines.mark_line(strokeWidth=2, clip=True).encode(x=x, y=y, detail="series:N", strokeDash=dash, **look),
        points.add_params(picked("language", "l", shown.language)) if by == "of" else points,
        causal.mark_point(shape="diamond", size=120, strokeWidth=2, fill=PAPER, color=INK).encode(x=x, y=y),
        ends(where(own, line=True) + named, (lows, highs), x, y, **look),
    ]

    controls = keys.now()
    if metric.targets and metric == shown.metric:
        level = alt.Chart(alt.InlineData(values=[{}])).mark_rule(color=ACCENT, strokeDash=DASHES, clip=True)
        layers.insert(-1, level.encode(y=alt.YDatum(alt.ExprRef("+target"), type="quantitative")))
        controls.append(control("target", f"{metric.target:g}"))

    words = metric.title + {"language": "", "network": ", exact and trained", "sampler": ", by sampler"}[line]
    definition = finished(layers, f"{words}: a line per {line}, against the number of steps", *controls)
    describe = partial(values_of_curves, shown, metric)
    return Drawn(words, metric.under, definition, rows, keys.sentences(where(own, dot=True, joint=False), describe))


def points_of_curves(shown: Shown, metric: Metric, by: str) -> tuple[list[Row], Keys]:
    # Joint draws have lines of their own, in the drawings of their languages, and make no drawing.
    stepped = having(shown.masked(metric), "steps")
    by_draw = entries.grouped(stepped, lambda p: by == "of" and p["steps"] > 0 and JOINT in p["sampler"])
    joint, measured = by_draw.get(True, []), by_draw.get(False, [])
    keys = Keys.of(shown, keys_of(measured, DRAWINGS[by]))
    every = [p for p in shown.results.of(*metric.measures) if p["steps"] or p["kind"] == "ar"]
    theory = shown.results.of(metric.predicted)

    rows: list[Row] = []
    for k, values in enumerate(keys.values):
        own = matching(every, values)
        known = among(matching(theory, values), by, column(own, by))
        predicted = different(known, by)
        about = {"first": False, "dot": True, "joint": False}

        for p in own:
            if p["kind"] == "ar":
                first = not where(rows, k=k, first=True)
                place = p["model_calls"] or p["length"] or max(column(positive(own, "steps"), "steps"))
                more = {"line": False, "first": first, "dot": False, "joint": False}
                rows.append(row(shown, p, k, AR, place, hue=AR, **more) | {"name": "AR"})
            elif p["kind"] == "mdm":
                rows.append(row(shown, p, k, p[by], p["steps"], hue=p[by], line=p[by] not in predicted, **about))

        about |= {"line": True, "joint": True}
        for p in matching(joint, values, RIVALS):
            rows.append(row(shown, p, k, f"{p['of']}, joint", p["steps"], hue=p[by], **about) | {"name": "joint draws"})

        about |= {"dot": False, "joint": False}
        rows += [row(shown, p, k, p[by], p["steps"], hue=p[by], **about) for p in known]

    return rows, keys


def values_of_curves(shown: Shown, metric: Metric, values: Fields, rows: Sequence[Row]) -> str:
    """The values with the fewest steps and with the most."""
    by_steps = entries.grouped(rows, itemgetter("x"))
    parts = [f"{span(by_steps[n], metric)} with {n:g} steps" for n in sorted({min(by_steps), max(by_steps)})]
    return f"{shown.named(values)}: {', '.join(parts)}."


def lengths(shown: Shown) -> Drawn | None:
    """The steps for a target against the length: a solid line for SER, a dashed one for TER."""
    rows, points = [], shown.results.of(*GOALS)
    for p in sorted(points, key=lambda p: (p["measure"], p["of"], p["length"])):
        goal = GOALS[p["measure"]]
        rows.append(row(shown, p, 0, f"{p['of']}, {goal}", p["length"], of=p["of"], goal=goal) | {"name": p["of"]})

    places = sorted(different(rows, "x"))
    if len(places) < 2 or len(indexed(points, *RIVALS)) > 1:
        return None

    x = across("L, the number of tokens", values=places, format="d")
    y = up("N, the number of steps needed", log=True)
    y = y.axis(values=TICKS, format="d")
    steps = column(rows, "value")
    ar = rows[0] | {"series": AR, "name": "AR", "x": places[-1], "value": float(places[-1]), "l": "", "of": AR}

    look = {"color": colour(shown, [*column(rows, "of"), AR], "of"), "opacity": here(rows)}
    dash = alt.StrokeDash("goal:N", legend=None).scale(domain=list(GOALS.values()), range=[[1, 0], [5, 4]])
    own, same = base(rows, keyed=False), base([{"x": n, "value": n} for n in places], keyed=False)

    marks = dots(own).encode(x=x, y=y, tooltip=tips("line", cost=""), **look)
    layers = [
        same.mark_line(color=INK, strokeDash=DOTS, opacity=0.7).encode(x=x, y=y),
        own.mark_line(strokeWidth=2).encode(x=x, y=y, detail="series:N", strokeDash=dash, **look),
        bars(own, x, y, **look),
        marks.add_params(picked("language", "l", shown.language)),
        ends([*rows, ar], ([min(steps)], [max(steps)]), x, y, log=True, **look),
    ]

    lines = entries.grouped(rows, itemgetter("series"))
    words = f"Steps from {places[0]} to {places[-1]} tokens: {clauses(entries.mapped(grown, lines))}."
    under = "solid: for the SER target, dashed: for the TER target; dotted: one step per token, as AR"
    caption = "Parallel to the dotted line: proportional to the length."
    definition = finished(layers, "Steps needed for a target against the length, a line per language and target")
    return Drawn("Steps needed against sequence length", under, definition, rows, [Sentence(words)], caption)


def whole(row: Row) -> str:
    """The least number of steps, which is whole; interpolation between measured numbers is not."""
    return f"{math.ceil(row['value'])}"


def grown(rows: Sequence[Row]) -> str:
    return f"{whole(rows[0])} → {whole(rows[-1])}"


def front(shown: Shown) -> Drawn | None:
    """Quality against cost, a line per sampler at all of its settings; the Pareto front as a broad band."""
    rows: list[Row] = []
    drawings: list[Fields] = []

    tables, sentences = {}, []
    for metric in shown.metrics:
        points = shown.results.of(*metric.measures)
        priced = keys_of(positive(shown.masked(metric), "model_calls"), SHARED)
        compared = [v for v in priced if len(different(where(matching(points, v), kind="mdm"), "sampler")) > 1]
        if not compared:
            continue

        keys = Keys.of(shown, compared, len(drawings))
        tables[metric.name] = keys.table("at_a")

        for k, values in enumerate(compared, len(drawings)):
            best = on_front(shown, matching(points, values), metric, k)
            rows += best
            best_ones = listed(map("{series}, {pace}".format_map, where(best, front=True)), MOST_NAMED, "; ")
            words = f"{shown.named(values)}: no measured setting is both better and cheaper than {best_ones}."
            sentences.append(Sentence(words, keys.choices(k), metric.name))
        drawings += compared

    if not rows:
        return None

    lows, highs = framed(rows, len(drawings))
    cheapest, dearest = [], []
    for one, of_one in zip(drawings, by_drawing(rows, len(drawings)), strict=True):
        calls = column(of_one, "x")
        calls.append(one["length"] or calls[0])  # the cost of AR
        cheapest.append(min(calls) * 0.9)
        dearest.append(max(calls) * 1.15)

    limits = between(cheapest, dearest, type="log")
    x = across("model calls per sequence", scale=limits, tickCount=8)
    shares = json.dumps([metric.name for metric in shown.metrics if metric.share])
    y = up(None, scale=between(lows, highs, zero=False))
    y = y.axis(tickCount=6, labelExpr=f"format(datum.value, indexof({shares}, metric) < 0 ? '.4~g' : '~%')")

    own, ar = where(rows, kind="mdm"), where(rows, kind="ar")
    chosen = f"datum.series == ({json.dumps(column(shown.settings, 'sampler'))})[+at_a]"
    own.sort(key=lambda r: JOINT in r["series"])  # drawn last, and dashed: lines below it on the same level are seen
    dash = (
        alt.when(f"indexof(datum.series, {json.dumps(JOINT)}) < 0").then(alt.value([1, 0])).otherwise(alt.value(DASHES))
    )
    few = len(set(column(own, "series"))) <= MOST_BESIDE
    hues = colour(shown, column(own, "series"), legend=None if few else below())
    look = {"color": hues, "opacity": bright(chosen, 0.6)}

    masked = base(own)
    marks = dots(masked, 50).encode(x=x, y=y, tooltip=tips("sampler"), **look)
    even = alt.Chart(alt.InlineData(values=[{}])).transform_calculate(x=each(column(drawings, "length")).expr)

    layers = [
        masked.transform_filter("datum.front")
        .mark_line(interpolate="step-after", strokeWidth=9, opacity=0.13, color=INK)
        .encode(x=x, y=y),
        dotted(even).encode(x=x),
        word(even.encode(x=x, y=alt.value(0)), text="AR", dy=-10, fontWeight="bold"),
        bars(masked, x, y, color=hues, opacity=bright(chosen, 0.3)),
        masked.mark_line(clip=True).encode(x=x, y=y, strokeWidth=bright(chosen, 1.6, 3.2), strokeDash=dash, **look),
        marks.add_params(picked("at", "a", str(shown.at))),
        base(ar).mark_point(shape="diamond", size=130, strokeWidth=2, color=INK, fill=PAPER).encode(x=x, y=y),
        *([ends(own, (lows, highs), x, y, color=hues)] if few else []),
    ]

    by_metric = ", ".join(starmap('"{}": {}'.format, tables.items()))
    now = alt.param(name="now", expr=f"({{{by_metric}}})[metric]")
    first = next(iter(entries.picked(tables, (shown.metric.name, *tables))))
    title, under = (
        "Quality against cost, by sampler",
        "further left: cheaper; grey band: best measured; grey lines: references, which use the true language",
    )
    caption = "A line is a sampler at its measured settings; dashed: a joint draw. Dotted: cost of AR; diamond: AR."
    words = "Quality against cost in model calls, a line per sampler"
    definition = finished(layers, words, control("language", shown.language), control("metric", first), now)
    return Drawn(title, under, definition, rows, sentences, caption)


def on_front(shown: Shown, points: Sequence[Point], metric: Metric, k: int) -> list[Row]:
    """Rows from cheap to expensive; `front`: no other point is both better and cheaper, without references."""
    sign = -1 if metric.rises else 1
    best, rows = math.inf, []
    for p in sorted(positive(points, "model_calls"), key=lambda p: (p["model_calls"], sign * p["value"])):
        better = sign * p["value"] < best and usable(p["sampler"])
        if better:
            best = sign * p["value"]
        rows.append(row(shown, p, k, p["sampler"] or "-", p["model_calls"], front=better, a=str(shown.setting_of(p))))
    return rows


def by_length(shown: Shown, digits: str) -> Drawn | None:
    """The steps that an SER takes, against the length, by sampler."""
    target = f"0.{digits}"
    points = where(shown.results.of("steps_for_ser"), setting=f"ser={target}")
    if len(indexed(shown.results.of(*GOALS), *RIVALS)) < 2 or not points:
        return None

    keys, rows = Keys.of(shown, keys_of(points, ("of",))), []
    for p in sorted(points, key=lambda p: (p["sampler"] not in NOISES, p["sampler"] == UNIFORM, p["length"])):
        rows.append(row(shown, p, keys.values.index({"of": p["of"]}), label(p), p["length"]))

    x = across("L, the number of tokens", format="d", values=sorted(different(rows, "x")))
    y = up("N, the number of steps needed", scale=alt.Scale(type="log", nice=False, padding=12))
    own, look = base(rows), {"color": colour(shown, column(rows, "series"), legend=below(1))}
    same = own.mark_line(color=INK, strokeDash=DOTS, opacity=0.5).encode(x=x, y=on(y, "x"))
    layers = [same, *lined(own, x, y, tips("sampler"), look, detail="series:N")]

    title = f"Steps for an SER of {float(target):.0%} against sequence length"
    under = "parallel to the dotted line: proportional to the length; nearly flat: with its logarithm"

    caption = "Dotted: one per token, as AR. Missing points were out of reach."
    definition = finished(layers, title, *keys.now())
    return Drawn(title, under, definition, rows, keys.sentences(rows, growth_of_lines), caption)


def growth_of_lines(values: Fields, rows: Sequence[Row]) -> str:
    lines = entries.grouped(rows, itemgetter("series"))
    parts = {name: f"{grown(line)} from {line[0]['x']} to {line[-1]['x']} tokens" for name, line in lines.items()}
    return f"{values['of']}: {clauses(parts)}."


def label(point: Point) -> str:
    """The sampler, and its schedule if it is not the linear one of masks."""
    name = NOISES.get(point["sampler"]) or str(point["sampler"])
    return name if point["schedule"] == "linear" and point["sampler"] != UNIFORM else f"{name}, {point['schedule']}"


def ceilings(shown: Shown) -> Drawn | None:
    """The accuracy of a model on a task against its speed, next to that of the exact denoiser."""
    points = having(where(shown.results.of("accuracy"), kind="mdm"), "model")
    points = positive(positive(points, "model_calls"), "length")
    if not any(map(is_ideal, column(points, "model"))):
        return None

    keys, rows = Keys.of(shown, keys_of(points, ("of",))), []
    for p in points:
        exact, speed = is_ideal(p["model"]), p["length"] / p["model_calls"]
        about = {"model": p["model"], "exact": exact, "speed": f"{speed:.3g}"}
        rows.append(row(shown, p, keys.values.index({"of": p["of"]}), p["sampler"].partition("(")[0], speed, **about))

    several = not all(column(rows, "exact"))
    x = across("tokens per model call", scale=alt.Scale(type="log", base=2, nice=False, padding=12))
    y = up("accuracy", True, scale=alt.Scale(domain=[0, 1]))
    dash = alt.condition("datum.exact", alt.value(DASHES if several else [1, 0]), alt.value([1, 0]))
    own, look = base(rows), {"color": colour(shown, column(rows, "series"), legend=below(3))}
    hint = tips("sampler", said="accuracy", model="model", speed="tokens per model call")
    layers = lined(own, x, y, hint, look, order="x:Q", detail=["series:N", "model:N"], strokeDash=dash)

    title = "Accuracy against speed, with ceilings"
    under = "up and right is better; dashed: the exact denoiser with the same sampler"
    caption = (
        "Tokens per model call are positions of the canvas, with padding. Errors of the exact denoiser are due to the "
        "sampler; the distance from a line to its dashed one is due to the model."
    )
    sentences = keys.sentences(where(rows, exact=True), best_ceiling)
    return Drawn(title, under, finished(layers, title, *keys.now()), rows, sentences, caption)


def best_ceiling(values: Fields, rows: Sequence[Row]) -> str:
    """The best accuracy; "" without the exact denoiser."""
    if not rows:
        return ""
    best = max(rows, key=itemgetter("value", "x"))
    at = f"{100 * best['value']:.3g}% at {best['speed']} tokens per model call ({best['series']})"
    return f"{values['of']}: the exact denoiser is right in {at}."


def family(form: str, make: Callable[..., Drawn | None], option: str, values: Iterable[str]) -> dict[str, Maker]:
    """A figure for each value of an option, which is in its name."""
    return {form.format(value).replace("_", "-"): partial(make, **{option: value}) for value in values}


CURVES: dict[str, Maker] = {}
MORE: dict[str, Maker] = {}  # where a view names them
for metric in METRICS.values():
    CURVES |= family(f"{metric.name}-by-{{}}", partial(curves, metric=metric), "line", ("language", "network"))
    MORE |= family(f"{metric.name}-by-{{}}", partial(curves, metric=metric), "line", ("sampler",))

SPENT = family("accuracy-by-{}", spent, "cost", COSTS)
GROWTH = family("growth-{}", by_length, "digits", DIGITS)
INFILLED = family("infill-{}", infilled, "measure", MEASURES)
FIGURES = SPENT | {"ceilings": ceilings} | CURVES | {"lengths": lengths} | GROWTH | {"front": front} | INFILLED


def drawn(shown: Shown) -> dict[str, Drawn]:
    """The figures of the view, in its order (default: all usual ones), that have data."""
    names = shown.view.figures or list(FIGURES)
    return entries.given({name: (FIGURES | MORE)[name](shown) for name in names})
