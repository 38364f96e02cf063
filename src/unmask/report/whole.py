"""The page of any results: what they come to, what can be asked of them, and what is not there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from unmask.core.files import finite, origin
from unmask.report import frame
from unmask.report.explorer.fragment import COLUMNS, Explorer
from unmask.report.frame import PAGE, text
from unmask.report.publishing import check_directory, write
from unmask.report.results import Results, read

NUMBERS = "points"  # of the files beside the page
NUMBERED = """<h2>The numbers</h2>
<p class="note">With their 95% intervals; press one to choose it, and to see what makes it again.</p>"""
MOST_NAMES = 3  # of languages, in its title


def check(out: Path) -> None:
    """Fail before the work is done."""
    check_directory(out, PAGE)


def publish(directories: Sequence[str | Path], out: Path, drawings: bool = False) -> tuple[Explorer, list[Path]]:
    """A page of some stores in OUT, its numbers beside it; drawings: each figure as SVG and PNG, too."""
    explorer = Explorer(read(directories))
    return explorer, write(out, contents(explorer, origin(), drawings), PAGE)


def contents(explorer: Explorer, made: Mapping[str, Any], drawings: bool) -> dict[str, bytes]:
    """All files by name."""
    results = explorer.results
    found = frame.drawings(explorer.drawings()) if drawings else {}
    found |= frame.numbers(NUMBERS, records(results), origin=made, sources=results.sources, missing=results.missing)
    return found | page(explorer, made, found)


def page(explorer: Explorer, made: Mapping[str, Any], beside: Iterable[str]) -> dict[str, bytes]:
    """The page alone, with links to what lies beside it."""
    results = explorer.results
    trained = [training.of for training in results.trainings]
    names = results.choices("of") or trained or [point["of"] for point in results.frontier]
    about = _listed(list(dict.fromkeys(map(str, names)))) or "nothing was measured yet"
    parts = explorer.parts()
    if parts["numbers"]:
        parts["numbers"] = f"{NUMBERED}\n{parts['numbers']}"
    content = frame.page(
        "unmask report",
        "report.html",
        made,
        beside,
        (),
        (),
        heading=text(f"What parallel decoding costs: {about}"),
        lead=text(f"Measured with {results.work:.0f} s of work, in {', '.join(results.sources)}."),
        missing=missing(results),
        **parts,
    )
    return {PAGE: content}


def records(results: Results) -> list[dict[str, Any]]:
    return [finite({name: point[name] for name in COLUMNS}) for point in results.points]


def _listed(names: Sequence[str]) -> str:
    """The first few."""
    more = len(names) - MOST_NAMES
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:MOST_NAMES])} and {more} more"


def missing(results: Results) -> str:
    """What is not there, said where everybody sees it."""
    if not results.missing:
        return ""
    items = "".join(f"<li>{text(one)}</li>" for one in results.missing)
    return f'<div class="missing" role="note"><strong>Not all is here.</strong><ul>{items}</ul></div>'
