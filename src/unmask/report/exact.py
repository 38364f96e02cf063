"""Figures and numbers without a sweep: `unmask theory figure`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unmask.core.files import finite, origin
from unmask.diagnosis.table import Record
from unmask.languages import Language
from unmask.report import frame, whole
from unmask.report.explorer.fragment import Explorer
from unmask.report.frame import Sentence
from unmask.report.publishing import write
from unmask.report.results import THEORY, Results
from unmask.report.view import saved

STAIRS = ("schedule", "schedule-optimal")
CURVE = "theory-curve"


def theory(
    out: Path, language: Language, length: int, records: Sequence[Record], configuration: dict[str, Any]
) -> list[Path]:
    """Write theory-ser, -ter, -crossover, -orders and -curve as SVG and PNG, numbers, and a page."""
    of = configuration["language"]
    about = {"of": of, "length": length, "schedule": configuration["schedule"]}
    results = Results([], theory=[finite(record) | about for record in records], languages={of: language})
    explorer, source = Explorer(results, saved("theory")), origin(**configuration) | {"language": language.source()}
    drawn = explorer.drawings()
    stairs = [frame.svg(drawn.pop(name)).encode() for name in STAIRS if name in drawn]
    files = frame.drawings(drawn) | frame.beside(CURVE, stairs, "Divergence of a schedule")
    files |= frame.numbers("theory", records, origin=source)
    page = whole.page(explorer, source, files, out, messages=messages(records, length))
    return write(out, files | page, THEORY)


def messages(records: Sequence[Record], length: int) -> list[Sentence]:
    """The SER from the fewest to the most steps, and the tightest upper bounds with the most steps."""
    fewest, most = (end(record["steps"] for record in records) for end in (min, max))
    known = {(r["quantity"], r["kind"], r["steps"]): r["value"] for r in records if r["kind"] in ("exact", "measured")}
    sentences: list[Sentence] = []
    for kind, about in (("exact", "Exact values"), ("measured", "Measured values")):
        ends = [known[key] for steps in (fewest, most) if (key := ("ser", kind, steps)) in known]
        if len(ends) == 2 and not sentences:
            number = f"SER {100 * ends[0]:.3g}% \u2192 {100 * ends[1]:.3g}%"
            sentences.append(Sentence(number, f"{about} with {fewest} and with {most} steps, at {length} tokens."))
    for quantity, less, text in (("ser", 0.0, "SER <="), ("ter_ratio", 1.0, "TER <= the language's own +")):
        bounds = [r for r in records if (r["quantity"], r["kind"], r["steps"]) == (quantity, "upper", most)]
        if bounds:
            best = min(bounds, key=lambda record: record["value"])
            words = f"The tightest of {len(bounds)} upper bounds with {most} steps: {best['name']}."
            sentences.append(Sentence(f"{text} {100 * (best['value'] - less):.2g}%", words))
    return sentences
