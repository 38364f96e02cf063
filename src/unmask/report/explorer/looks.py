"""One colour for one thing, in every figure of a page."""

from __future__ import annotations

from typing import Any

import altair as alt

from unmask.report.frame import COLOURS, GREY, INK
from unmask.report.results import IDEAL, TRAINED, Results

USUAL = ("paper-2gram", "paper-3gram", "paper-4gram", "sparse-hmm", "interval-5")  # the same on every page
PALETTE = COLOURS[:-1]  # for values without a colour of their own; grey is for references
FEW = (*PALETTE, "#cc3311", "#33bbee", "#997700", "#994455")  # of few samplers each has its own
ORACLES = ("best-order", "clairvoyant")  # they ask the language itself
BY_PACE = ("localleap", "deferred", "adaptive-blocks", "multi-block", "klass", "settled", "credit", "slowfast", "sched")
REPAIRS = ("wino", "saber", "token-editing", "p2", "informed-corrector", "particle-gibbs")
KINDS = {  # of many samplers those that work alike share one
    "#0077bb": ("ancestral", "fixed-size", "first-hitting", "blocks", "as-published-mdlm"),
    "#009988": ("left-to-right", "strided", "dyadic", "block-strided", "dilated"),
    "#ee3377": ("low-confidence", "top-probability", "margin", "entropy", "pc-sampler", "info-gain"),
    "#ee7733": ("threshold", "factor", "entropy-bounded", "entropy-sum", "punt", *BY_PACE),
    "#8c6bb1": ("remdm", "gibbs", "verify-and-restart", *REPAIRS),
    GREY: ("speculative", "self-speculative", "apd", *ORACLES, "autoregressive"),
}
OWN = "#bb5566"  # of a sampler from elsewhere


def bare(specification: str) -> str:
    """A sampler's name without its options."""
    return specification.partition("(")[0]


def colour(sampler: str) -> str:
    """By how it works."""
    return next((colour for colour, names in KINDS.items() if bare(sampler) in names), OWN)


def looks(results: Results, by: str) -> dict[str, str]:
    """Colours of a control's values: black is exact, grey a reference."""
    values = results.choices(by)
    if by == "sampler":
        own = [value for value in values if bare(value) not in (*ORACLES, "autoregressive")]
        few = dict(zip(own, FEW, strict=False)) if len(own) <= len(FEW) else {}
        return {value: few.get(value) or colour(value) for value in values}
    if by == "model":
        fixed = {IDEAL: INK, TRAINED: COLOURS[2]}
        others = [value for value in values if value not in fixed]
        return fixed | {value: COLOURS[number % len(COLOURS)] for number, value in enumerate(others)}
    ordered = [value for value in USUAL if value in values] + [value for value in values if value not in USUAL]
    kept = {value: COLOURS[number] for number, value in enumerate(USUAL)}
    return {value: kept.get(value) or PALETTE[number % len(PALETTE)] for number, value in enumerate(ordered)}


def colours(results: Results, by: str, field: str = "series") -> Any:
    found = looks(results, by)
    return alt.Color(f"{field}:N", legend=None).scale(domain=list(found), range=list(found.values()))
