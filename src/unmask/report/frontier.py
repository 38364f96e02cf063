"""`unmask frontier`: perplexity against two entropies, as figures and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unmask.core.files import origin
from unmask.diagnosis.frontier import Point
from unmask.languages import Language
from unmask.report import frame
from unmask.report.explorer.fragment import Explorer
from unmask.report.publishing import check_directory, write
from unmask.report.results import FRONTIER, Results
from unmask.report.view import View

VIEW = View("report", ("frontier", "frontier-unigram"))
TITLE = "Generative perplexity against entropy: true, and as often reported"


def check(out: Path) -> None:
    """Fail before the work is done."""
    check_directory(out, FRONTIER)


def publish(out: Path, language: Language, points: Sequence[Point], configuration: dict[str, Any]) -> list[Path]:
    """frontier.svg and .png, and the numbers as JSON and CSV."""
    about = origin(**configuration) | {"language": language.source()}
    drawn = [frame.svg(one).encode() for one in panels(points, configuration["language"]).drawings().values()]
    found = frame.beside("frontier", drawn, TITLE) | frame.numbers("frontier", records(points), origin=about)
    return write(out, found, FRONTIER)


def panels(points: Sequence[Point], of: str) -> Explorer:
    return Explorer(Results([], frontier=[record | {"of": of} for record in records(points)]), VIEW)


def records(points: Sequence[Point]) -> list[dict[str, Any]]:
    """A row per point: each number under its name, with the ends of its interval."""
    found = []
    for point in points:
        record: dict[str, Any] = {"sampler": point.sampler, "setting": point.setting, "exact": point.exact}
        for name in ("cross_entropy", "entropy", "divergence", "unigram", "ser"):
            estimate = getattr(point, name)
            for end, field in ((name, "value"), (f"{name}_low", "low"), (f"{name}_high", "high")):
                record[end] = None if estimate is None else getattr(estimate, field)
        found.append(record | {"evaluations": point.evaluations})
    return found
