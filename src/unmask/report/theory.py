"""`unmask theory figure`: the table of theorems as figures, numbers and a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unmask.core.files import finite, origin
from unmask.diagnosis.table import Record
from unmask.languages import Language
from unmask.report import frame, whole
from unmask.report.explorer.fragment import Explorer
from unmask.report.publishing import check_directory, write
from unmask.report.results import THEORY, Results
from unmask.report.view import View

FIGURES = ("theory-ser", "theory-ter", "theory-crossover", "theory-orders")
STAIRS = ("schedule", "schedule-optimal")
VIEW = View("theory", (*FIGURES, *STAIRS))
CURVE = "theory-curve"


def check(out: Path) -> None:
    """Fail before the work is done."""
    check_directory(out, THEORY)


def publish(
    out: Path, language: Language, length: int, records: Sequence[Record], configuration: dict[str, Any]
) -> list[Path]:
    """theory-ser, -ter, -crossover, -orders and -curve as SVG and PNG, where they are known; numbers and a page."""
    of = configuration["language"]
    about = {"of": of, "length": length, "schedule": configuration["schedule"]}
    results = Results([], theory=[finite(record) | about for record in records], languages={of: language})
    explorer, made = Explorer(results, VIEW), origin(**configuration) | {"language": language.source()}
    drawn = explorer.drawings()
    stairs = [frame.svg(drawn.pop(name)).encode() for name in STAIRS if name in drawn]
    found = frame.drawings(drawn) | frame.beside(CURVE, stairs, "Divergence of a schedule")
    found |= frame.numbers("theory", records, origin=made)
    return write(out, found | whole.page(explorer, made, found, out), THEORY)
