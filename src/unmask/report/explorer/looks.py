"""One colour for one thing, in every figure of a page."""

from __future__ import annotations

from typing import Any

import altair as alt

from unmask.report.frame import COLOURS, INK
from unmask.report.kinds import colour as colour_of_sampler
from unmask.report.results import IDEAL, TRAINED, Results

USUAL = ("paper-2gram", "paper-3gram", "paper-4gram", "sparse-hmm", "interval-5")  # alike in every page
PALETTE = COLOURS[:-1]  # for what has no colour of its own; grey is for what is left out


def looks(results: Results, by: str) -> dict[str, str]:
    """Values of a control to colours: languages in their order, samplers by how they work, black what is exact."""
    values = results.choices(by)
    if by == "sampler":
        return {value: colour_of_sampler(value) for value in values}
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
