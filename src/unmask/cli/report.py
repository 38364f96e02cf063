"""unmask report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from unmask.cli.options import Switch

Directories = Annotated[tuple[Path, ...], "DIR"]


def command(
    directories: Directories,
    /,
    *,
    out: Path = Path("report"),
    drawings: Switch = False,
    terminal: Switch = False,
    open: Switch = False,
    json: Switch = False,
) -> None:
    """Make a page of what was measured: the verdict, and figures that can be asked.

    Examples:
        unmask report sweeps/smoke --open
        unmask report demo figure-1 --out both --drawings
        unmask report board --terminal

    A directory is that of a sweep, of a page made here (demo, board, figure-1,
    figure-2, reasoning), of an evaluation or of a training; several become one
    page. Its controls choose yardstick, target, language, denoiser, sampler and
    length, and all that is shown obeys; their state stands in the address of the
    page, for others to open. What is missing or has failed is said.

    Args:
        directories: Where results are.
        out: The directory of the page and its numbers; made if it is not there.
        drawings: Write each figure as SVG and PNG, too.
        terminal: Print the verdict and small plots, and write nothing.
        open: Open the page in the browser.
        json: Print one JSON object on the last line.
    """
    import webbrowser
    from time import perf_counter

    from unmask.cli.output import say, show
    from unmask.report import whole
    from unmask.report.explorer.fragment import Explorer
    from unmask.report.frame import PAGE
    from unmask.report.results import read
    from unmask.report.terminal import lines

    began = perf_counter()
    files: list[Path] = []
    if terminal:
        explorer = Explorer(read(directories))
    else:
        whole.check(out)
        explorer, files = whole.publish(directories, out, drawings)
    page = None if terminal else str((out / PAGE).resolve())
    said = explorer.verdict if explorer.yardsticks else None
    if json:
        told: dict[str, Any] = {
            "page": page,
            "files": [str(file) for file in files],
            "points": len(explorer.results.points),
        }
        told |= {"missing": explorer.results.missing, "seconds": perf_counter() - began}
        told |= {"verdict": None if said is None else {"sentence": said.sentence, "numbers": said.numbers}}
        show(told, True)
    else:
        for line in lines(explorer) if terminal else [] if said is None else [said.sentence]:
            print(line)
        for one in explorer.results.missing:
            say(one)
        if page is not None:
            print(f"{page}, {(out / PAGE).stat().st_size / 1e6:.1f} MB")
    if open and page is not None:
        webbrowser.open(Path(page).as_uri())
