"""unmask report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from unmask.cli.options import Answer, Switch

Directories = Annotated[tuple[Path, ...], "DIR"]


def command(
    directories: Directories,
    /,
    *,
    out: Path = Path("report"),
    drawings: Switch = False,
    terminal: Switch = False,
    open: Switch = False,
) -> Answer:
    """Build an interactive HTML report from any results.

    Examples:
        unmask report sweeps/smoke --open
        unmask report demo figure-1 --out both --drawings
        unmask report board --terminal

    DIR has the results of a sweep, a page (demo, board, figure-1, figure-2,
    reasoning), an evaluation or a training; several directories become one page.
    Controls select the language, the setting (sampler, length, denoiser), the
    target and the metric of all numbers and figures; so does a click on a point.
    The page lists missing and failed results.

    Args:
        directories: Directories with results.
        out: Directory of the page and its numbers; created if missing.
        drawings: Also write each figure as SVG and PNG.
        terminal: Print the verdict and its table, and write no files.
    """
    import webbrowser
    from time import perf_counter

    from unmask.cli.output import say, show_grid
    from unmask.report import publishing
    from unmask.report.publishing import PAGE, check_directory
    from unmask.report.results import read
    from unmask.report.verdict import Shown, summary, table

    began = perf_counter()
    files: list[Path] = []
    if terminal:
        shown = Shown(read(directories))
    else:
        check_directory(out, PAGE)
        shown, files = publishing.report(directories, out, drawings)
    page = None if terminal else str((out / PAGE).resolve())
    verdict = shown.verdict if shown.metrics else None

    def text() -> None:
        for line in summary(shown) if terminal else [] if verdict is None else [verdict.sentence]:
            print(line)
        if terminal and shown.metrics:
            show_grid(*table(shown))
        for one in shown.results.missing:
            say(one)
        if page is not None:
            print(f"{page}, {(out / PAGE).stat().st_size / 1e6:.1f} MB")

    if open and page is not None:
        webbrowser.open(Path(page).as_uri())
    about: dict[str, Any] = {"page": page, "files": [str(file) for file in files]}
    about |= {"points": len(shown.results.points), "missing": shown.results.missing}
    about |= {"seconds": perf_counter() - began}
    about |= {"verdict": None if verdict is None else {"sentence": verdict.sentence, "numbers": verdict.numbers}}
    return Answer(about, text)
