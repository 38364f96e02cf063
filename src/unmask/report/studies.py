"""The figures of theory, of the gap, and of tasks with known answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import altair as alt
import numpy as np
import torch
from scipy.special import rel_entr

from unmask.core.estimates import Estimate
from unmask.diagnosis.flops import model_calls
from unmask.languages import Language
from unmask.report.charts import (
    DASHES,
    DOTS,
    INK,
    SOFT,
    Drawn,
    Keys,
    Maker,
    Row,
    Sentence,
    across,
    bars,
    base,
    below,
    colour,
    dots,
    finished,
    on,
    row,
    tips,
    up,
)
from unmask.report.results import IDEAL, Point
from unmask.report.verdict import Shown
from unmask.samplers import orders
from unmask.samplers.schedules import Fit, Schedule, deltas
from unmask.tasks.exact import is_ideal
from unmask.theory.best_orders import headroom, of_orders
from unmask.theory.chains import first_order, order_divergence
from unmask.theory.correctness import model_calls_per_token, ser_at
from unmask.theory.known import curve, exact_error_curve

ERRORS = {"ser": "SER", "answer_error": "incorrect answers"}
ONE_BY_ONE = "fixed-size"  # the sampler of one token per step
TRUTHS = ("gap_exact_nats", "divergence_nats")  # the better one first
NATS = alt.Scale(type="symlog", constant=0.1, domainMin=0, nice=False, clamp=True)
NATS_AT = [0, 0.1, 0.3, 1, 3, 10, 30, 100]
STEPS, POINTS, MOST_LENGTH = 8, 96, 512  # of the stairs of a schedule; a longer curve looks the same
BITS = 1 / np.log(2)
EXACT = "exact"
SMALLEST_SER, SMALLEST_KL = 1e-4, 1e-5  # on a logarithmic axis; KL in nats
RATIOS = (0.1, 0.35, 0.7)  # AR tokens per model call, inverted; the second is the one of the poster
LEAST, MOST = 1e-3, 0.999  # allowed SER
LONGEST = 128  # tokens, of searched orders


def cells(shown: Shown) -> list[dict[str, Point]]:
    """The points of each cell with a gap, by measure."""
    settings: dict[tuple[Any, ...], dict[str, Point]] = {}
    for point in shown.results.points:
        who = tuple(point[name] for name in ("of", "model", "sampler", "length", "steps"))
        settings.setdefault(who, {})[point["measure"]] = point
    return [cell for cell in settings.values() if "gap_nats" in cell]


def gap_divergence(shown: Shown) -> Drawn | None:
    """The gap, which needs no ground truth, against the divergence from a known language."""
    rows = []
    for cell in cells(shown):
        same = cell["gap_nats"]["model"] == IDEAL or cell.get("ser", {"value": 0})["value"] == 0
        if same and (known := [name for name in TRUTHS if name in cell]):
            gap, truth = cell["gap_nats"], cell[known[0]]
            about = {"other": str(Estimate.of_record(truth)), "model": gap["model"], "sure": known[0] == TRUTHS[0]}
            rows.append(row(shown, gap, 0, gap["sampler"], truth["value"], of=gap["of"], **about))
    if len(rows) < 2:
        return None
    x = across("true divergence, nats", scale=NATS, values=NATS_AT, labelExpr="datum.value")
    y = up("measured gap, nats", scale=NATS).axis(values=NATS_AT, labelExpr="datum.value", grid=False)
    own, look = base(rows, keyed=False), {"color": colour(shown, [r["series"] for r in rows], legend=below(2))}
    most = max(max(r["x"], r["value"]) for r in rows)
    same = base([{"x": v, "value": v} for v in np.linspace(0, most, 50)], keyed=False)
    points = dots(own, 55).encode(
        x=x, y=y, tooltip=tips("sampler", of="language", other="divergence", model="denoiser")
    )
    shape = alt.condition("datum.sure", alt.value("diamond"), alt.value("circle"))
    layers = [
        same.mark_line(color=INK, strokeDash=DOTS, opacity=0.6).encode(x=x, y=y),
        bars(own, x, y, **look),
        points.encode(shape=shape, **look),
    ]
    exact = [r["value"] / r["x"] for r in rows if r["sure"] and r["x"] > 0]
    sentences = (
        f"Gap / divergence is {min(exact):.3g} to {max(exact):.3g} where theory knows the divergence." if exact else ""
    )
    title, under = (
        "Gap against true divergence",
        "dotted: equal; diamonds: divergence from theory; circles: from sequences",
    )
    caption = (
        "The gap sees the model alone. Points of a trained network are to the right of the line by its learning error. "
        "Where some sequences are impossible, both are means over the possible ones."
    )
    return Drawn(title, under, finished(layers, title), rows, [Sentence(sentences)], caption)


def gap_errors(shown: Shown, error: str) -> Drawn | None:
    """Errors against the gap, and the most errors that a gap allows.

    No gap in nats below the binary divergence kl(s || s_1) allows an error rate s, if the same model has s_1 one token
    at a time (data processing). Confidence orders stay far below that curve.
    """
    finite = [c for c in cells(shown) if error in c and not c.get("gap_infinite", {"value": 1})["value"]]
    keys = Keys.of(
        shown, [dict(of=of, model=m) for of, m in dict.fromkeys((c[error]["of"], c[error]["model"]) for c in finite)]
    )
    rows, most = [], []
    for cell in finite:
        gap, p = cell["gap_nats"], cell[error]
        k = keys.values.index({"of": p["of"], "model": p["model"]})
        rows.append(row(shown, p, k, p["sampler"], gap["value"], other=str(Estimate.of_record(gap)), steps=p["steps"]))
    for p in shown.results.of(error):
        one = {"of": p["of"], "model": p["model"]}
        if p["sampler"] == ONE_BY_ONE and one in keys.values and 0 < p["value"] < 1:
            rates = np.linspace(p["value"], 1, 100)
            nats = rel_entr(rates, p["value"]) + rel_entr(1 - rates, 1 - p["value"])
            k = keys.values.index(one)
            most += [{"x": float(x), "value": float(v), "k": k} for x, v in zip(nats, rates, strict=True)]
    if len(rows) < 2:
        return None
    x = across("measured gap, nats per sequence", scale=NATS, values=NATS_AT, labelExpr="datum.value")
    y = up(ERRORS[error], True, scale=alt.Scale(domain=[0, 1]))
    own, look = base(rows), {"color": colour(shown, [r["series"] for r in rows], legend=below(2))}
    layers = [
        *(
            [base(most).mark_line(color=INK, strokeDash=DASHES, opacity=0.6, clip=True).encode(x=x, y=y)]
            if most
            else []
        ),
        own.mark_line(strokeWidth=1.8).encode(x=x, y=y, order="steps:Q", detail="series:N", **look),
        bars(own, x, y, **look),
        dots(own, 55).encode(x=x, y=y, tooltip=tips("sampler", other="gap"), **look),
    ]
    sentences = []
    for k, values in enumerate(keys.values):
        last = {r["series"]: r for r in rows if r["k"] == k}
        parts = "; ".join(f"{name} {r['x']:.3g} nats, {100 * r['value']:.3g}%" for name, r in last.items())
        sentences.append(Sentence(f"{shown.named(values)}, with the most steps: {parts}.", keys.choices(k)))
    title = f"Gap against {ERRORS[error]}"
    under = "dashed: the most errors that a gap allows in random order; far below it: nats that are not errors"
    caption = "Each point is one number of steps, N. Only models without impossible sequences have a finite gap."
    return Drawn(title, under, finished(layers, title, *keys.now()), rows + most, sentences, caption)


def ceilings(shown: Shown) -> Drawn | None:
    """The accuracy of a model on a task against its speed, next to that of the exact denoiser."""
    points = [p for p in shown.results.of("accuracy") if p["kind"] == "mdm" and p["model"]]
    points = [p for p in points if p["model_calls"] and p["length"]]
    if not any(is_ideal(p["model"]) for p in points):
        return None
    keys, rows = Keys.of(shown, [{"of": of} for of in dict.fromkeys(p["of"] for p in points)]), []
    for p in points:
        exact, speed = is_ideal(p["model"]), p["length"] / p["model_calls"]
        about = {"model": p["model"], "exact": exact, "speed": f"{speed:.3g}"}
        rows.append(row(shown, p, keys.values.index({"of": p["of"]}), p["sampler"].partition("(")[0], speed, **about))
    several = not all(r["exact"] for r in rows)
    x = across("tokens per model call", scale=alt.Scale(type="log", base=2, nice=False, padding=12))
    y = up("accuracy", True, scale=alt.Scale(domain=[0, 1]))
    dash = alt.condition("datum.exact", alt.value(DASHES if several else [1, 0]), alt.value([1, 0]))
    own, look = base(rows), {"color": colour(shown, [r["series"] for r in rows], legend=below(3))}
    names = {"model": "model", "speed": "tokens per model call"}
    layers = [
        bars(own, x, y, opacity=alt.value(0.45), **look),
        own.mark_line(strokeWidth=1.8).encode(
            x=x, y=y, order="x:Q", detail=["series:N", "model:N"], strokeDash=dash, **look
        ),
        dots(own, 45).encode(x=x, y=y, tooltip=tips("sampler", said="accuracy", **names), **look),
    ]
    sentences = []
    for k, values in enumerate(keys.values):
        best = max((r for r in rows if r["k"] == k and r["exact"]), key=lambda r: (r["value"], r["x"]), default=None)
        if best is not None:
            words = (
                f"the exact denoiser is right in {100 * best['value']:.3g}% at {best['speed']} tokens per model call"
            )
            sentences.append(Sentence(f"{values['of']}: {words} ({best['series']}).", keys.choices(k)))
    title, under = (
        "Accuracy against speed, with ceilings",
        "up and right is better; dashed: the exact denoiser with the same sampler",
    )
    caption = (
        "Tokens per model call are positions of the canvas, with padding. Errors of the exact denoiser are due to the "
        "sampler; the distance from a line to its dashed one is due to the model."
    )
    return Drawn(title, under, finished(layers, title, *keys.now()), rows, sentences, caption)


def schedule(shown: Shown, name: str) -> Drawn | None:
    """The divergence of a schedule as an area: the information curve and the staircase of N steps (theory.md 7.2).

    E KL(q || p_order) = sum_k delta_k h(p_k) - int h        step k adds the area between its stair and the curve
    """
    known = [(of, language, length_of(shown, of)) for of, language in languages(shown).items()]
    curves = [(of, language, length) for of, language, length in known if length is not None]
    rows: list[Row] = []
    for k, (of, language, length) in enumerate(curves):
        information = curve(language, length)
        u = (np.arange(POINTS + 1) / POINTS) ** 2  # dense where h is steep
        h = information.h(u) * BITS / length
        begin = Schedule(deltas(name, STEPS, Fit(language, length))).p.numpy()
        tops = information.h(begin) * BITS / length
        for step, (left, right, top) in enumerate(zip(begin, [*begin[1:], 1.0], tops, strict=True), 1):
            inside = u[(u >= left - 1e-12) & (u <= right + 1e-12)]
            places = np.concatenate([[left], inside, [right]])
            heights = np.interp(places, u, h)
            loss = float(top * (right - left) - np.trapezoid(heights, places))
            about = {"k": k, "series": of, "step": step, "loss": loss, "high": float(top)}
            about |= {"said": f"step {step}: {loss:.4f} bits"}
            rows += [about | {"x": float(p), "value": float(v)} for p, v in zip(places, heights, strict=True)]
    if not rows:
        return None
    keys = Keys.of(shown, [{"of": of} for of, _, _ in curves])
    x = across("u, the revealed fraction", scale=alt.Scale(domain=[0, 1], nice=False), format="~%", tickCount=5)
    y, own = up("h(u) / L, bits per token"), base(rows)
    hint = tips("language", said="divergence per token", pace="", cost="", n="")
    layers = [
        own.mark_area(color="var(--c2)", opacity=0.28).encode(x=x, y=y, y2="high:Q", detail="step:N", tooltip=hint),
        own.mark_line(color="var(--c2)", strokeWidth=1.5).encode(x=x, y=on(y, "high"), detail="step:N"),
        own.mark_line(strokeWidth=2.5).encode(x=x, y=y, color=colour(shown, [of for of, _, _ in curves])),
    ]
    sentences = []
    for k, (of, _, _) in enumerate(curves):
        loss = sum({r["step"]: r["loss"] for r in rows if r["k"] == k}.values())
        sentences.append(Sentence(f"{of}: {STEPS} steps lose {loss:.4f} bits per token.", keys.choices(k)))
    caption = (
        "The curve h(u) is the conditional entropy of a hidden token after a fraction u is revealed. The area below it "
        "is the entropy. Each step uses the value at its start, which gives the stairs. The area between is the "
        "divergence, which no better network removes."
    )
    title, under = f"Divergence of the {name} schedule", f"shaded: extra bits per token of {STEPS} steps"
    return Drawn(
        title, under, finished(layers, title, *keys.now()), rows, sentences, caption if name == "linear" else ""
    )


def languages(shown: Shown) -> dict[str, Language]:
    """The known languages of a page."""
    known = {of: shown.results.language(of) for of in shown.languages}
    return {of: language for of, language in known.items() if language is not None}


def length_of(shown: Shown, of: str) -> int | None:
    """The length of the drawn curve: that of a theory table, or the most frequent one; None without a formula."""
    if tabulated := [record["length"] for record in shown.results.theory if record["of"] == of]:
        return int(tabulated[0])
    language = shown.results.language(of)
    lengths = [p["length"] for p in shown.results.points if p["of"] == of and p["length"]]
    if language is None or not lengths:
        return None
    known = language.closed_form is not None or first_order(language) is not None
    return min(max(lengths, key=lengths.count), MOST_LENGTH) if known else None


def lines(shown: Shown, rows: Sequence[Row], looks: Mapping[str, list[int]], x: alt.X, y: alt.Y) -> alt.Chart:
    """Lines with a legend of colours and dashes, sorted as in `looks`."""
    legend = alt.Legend(orient="bottom", columns=1, symbolType="stroke", symbolSize=300, labelLimit=400)
    dash = alt.StrokeDash("series:N", legend=legend).scale(domain=list(looks), range=list(looks.values()))
    line = base(rows, keyed=False).mark_line(strokeWidth=2)
    return line.encode(
        x=x, y=y, color=colour(shown, looks, legend=legend), strokeDash=dash, tooltip=["series:N", "value:Q"]
    )


def bounds(shown: Shown, quantity: str) -> Drawn | None:
    """Bounds of theorems are dashed lines, exact values solid lines, measurements points."""
    less, least = (1.0, 0.0) if quantity == "ter_ratio" else (0.0, SMALLEST_SER)
    rows: list[Row] = []
    for record in shown.results.theory:
        about = {end: None if record[end] is None else record[end] - less for end in ("value", "low", "high")}
        if record["quantity"] == quantity and about["value"] is not None and about["value"] > least:
            rows.append(
                about | {"of": record["of"], "series": record["name"], "x": record["steps"], "part": record["kind"]}
            )
    drawn, points = ([r for r in rows if (r["part"] == "measured") == m] for m in (False, True))
    if not drawn:
        return None
    title = {"ser": "SER: exact value and bounds", "ter_ratio": "TER: exact value and bounds"}[quantity]
    x = across("N, the number of steps", values=sorted({r["x"] for r in rows}), format="d")
    y = up({"ser": "SER", "ter_ratio": "TER / TER of the language - 1"}[quantity], True, log=True)
    looks = {name: [1, 0] if name == EXACT else DASHES for name in dict.fromkeys(r["series"] for r in drawn)}
    layers: list[Any] = [lines(shown, drawn, looks, x, y)]
    if points:
        measured = base(points, keyed=False)
        layers += [bars(measured.transform_filter("datum.low > 0"), x, y, color=alt.value(SOFT))]
        layers.append(measured.mark_point(filled=True, size=60, color=INK, opacity=1).encode(x=x, y=y))
    above = "above the language's own TER; points: measured mean over orders, itself an upper bound"
    under = {"ser": "dashed: bounds; points: measured, 95% intervals", "ter_ratio": above}[quantity]
    return Drawn(title, under, finished(layers, title), rows, sentences_of_bounds(rows))


def sentences_of_bounds(rows: Sequence[Row]) -> list[Sentence]:
    most = max(r["x"] for r in rows)
    upper = [r for r in rows if (r["part"], r["x"]) == ("upper", most)]
    best = min(upper, key=lambda r: r["value"], default=None)
    return [] if best is None else [Sentence(f"The tightest upper bound with {most} steps is {best['series']}.")]


def cases(shown: Shown) -> list[tuple[str, int, Language]]:
    """Names, lengths and languages of the tables of theory."""
    pairs = dict.fromkeys((record["of"], record["length"]) for record in shown.results.theory)
    known = languages(shown)
    return [(of, length, known[of]) for of, length in pairs if of in known]


def crossover(shown: Shown) -> Drawn | None:
    """Model calls per token at an allowed SER: the formula for any length, the values of this one, equal times."""
    rows: list[Row] = []
    for of, length, language in cases(shown):
        records = [r for r in shown.results.theory if (r["of"], r["length"], r["quantity"]) == (of, length, "ser")]
        errors = exact_error_curve(language, length)
        if errors is None or errors.constant.value <= 0 or any(r["schedule"] != "linear" for r in records):
            continue
        constant = errors.constant.value / length
        grid = 1 / (1 + np.exp(-np.linspace(np.log(LEAST / (1 - LEAST)), np.log(MOST / (1 - MOST)), 200)))
        rows += [{"part": "line", "x": float(s), "value": model_calls_per_token(constant, s)} for s in grid]
        for r in [r for r in records if r["name"] == EXACT] or [r for r in records if r["kind"] == "measured"]:
            if LEAST <= r["value"] <= MOST:
                calls = model_calls(deltas("linear", r["steps"]), length) / length
                rows.append({"part": "dot", "x": r["value"], "value": calls})
        for ratio in RATIOS:
            ser = ser_at(constant, ratio)
            words = f"a model call takes {1 / ratio:.2g} AR tokens: faster above {ser:.2%}"
            rows.append({"part": "even", "x": ser if ser >= LEAST else None, "value": ratio, "said": words})
    if not rows:
        return None
    x = across("allowed SER", scale=alt.Scale(type="log", domain=[LEAST, 1.0], nice=False), format="~%", tickCount=6)
    y = up("model calls per token", scale=alt.Scale(domain=[0, 1]))
    line, dot, even = (base([r for r in rows if r["part"] == what], keyed=False) for what in ("line", "dot", "even"))
    text = even.mark_text(align="left", dx=4, dy=-7, fontSize=11, color=INK)
    layers = [
        even.mark_rule(strokeDash=DASHES, color=SOFT).encode(y=y),
        line.mark_line(strokeWidth=2.5, color="var(--c0)").encode(x=x, y=y),
        even.mark_point(filled=True, size=70, shape="diamond", color="var(--c2)", opacity=1).encode(x=x, y=y),
        dot.mark_point(filled=True, size=55, color=INK, opacity=1).encode(x=x, y=y),
        text.encode(x=alt.value(0), y=y, text="said:N"),
    ]
    title = "SER above which masked diffusion is faster than AR"
    under = (
        "line: formula for any length; dots: this length; dashed: time of a model call; AR is faster left of a diamond"
    )
    sentences = next(r["said"] for r in rows if (r["part"], r["value"]) == ("even", RATIOS[1]))
    return Drawn(title, under, finished(layers, title), rows, [Sentence(f"If {sentences}, and AR below.")])


def by_order(shown: Shown) -> Drawn | None:
    """KL at N = 1..8 of first-order chains, at a length that is quick to search (theory.best_orders)."""
    looks = {"random order, linear": [1, 0], "random order, its best schedule": DASHES, "dyadic": [1, 0]}
    looks |= {"best order": [1, 0], "best choice given the revealed tokens": DOTS}
    rows: list[Row] = []
    for of, full, language in cases(shown):
        chain, length = first_order(language), min(full, LONGEST)
        if chain is None or (choices := headroom(language, length, STEPS)) is None:
            continue
        hidden, information = torch.ones((1, length), dtype=torch.bool), curve(language, length)
        fit = Fit(language, length)
        for n, (order, choice) in enumerate(zip(of_orders(language, length, STEPS), choices, strict=True), 1):
            linear, optimal = (
                information.divergence(deltas(*one)).value for one in (("linear", n), ("optimal", n, fit))
            )
            dyadic = float(order_divergence(chain, orders.dyadic(n, hidden))[0])
            values = zip(looks, (linear, optimal, dyadic, float(order), float(choice)), strict=True)
            rows += [{"of": of, "series": name, "x": n, "value": v} for name, v in values if v > SMALLEST_KL]
    if not rows:
        return None
    x = across("N, the number of steps", log=False, format="d", values=list(range(1, STEPS + 1)))
    title = "Divergence by the order of positions"
    layer = lines(shown, rows, looks, x, up("KL(q || p of an order), nats", log=True))
    under = f"at most {LONGEST} tokens; no random order beats the best fixed one, no rule the best choice"
    most = {r["series"]: r["value"] for r in rows if r["x"] == max(r["x"] for r in rows)}
    parts = ", ".join(f"{name} {value:.3g}" for name, value in most.items())
    return Drawn(title, under, finished([layer], title), rows, [Sentence(f"Nats with the most steps: {parts}.")])


STUDIES: dict[str, Maker] = {
    "schedule": partial(schedule, name="linear"),
    "schedule-optimal": partial(schedule, name="optimal"),
    "gap-divergence": gap_divergence,
    "gap-ser": partial(gap_errors, error="ser"),
    "gap-answer-error": partial(gap_errors, error="answer_error"),
    "ceilings": ceilings,
    "theory-ser": partial(bounds, quantity="ser"),
    "theory-ter": partial(bounds, quantity="ter_ratio"),
    "theory-crossover": crossover,
    "theory-orders": by_order,
}
