"""unmask report; unmask demo."""

from __future__ import annotations

from itertools import starmap
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Answer, Assignments, Grid, Languages, Measuring, Switch, Word, browse, refuse
from unmask.core.entries import mapped
from unmask.core.errors import UnmaskError, cut, unknown

if TYPE_CHECKING:
    from unmask.report.publishing import Published

NAMES = ("figure-1", "figure-2", "reasoning", "growth", "growth-networks", "gap")


def command(
    directories: Annotated[tuple[Path, ...], "DIR"] = (),
    /,
    *,
    recipe: Word = None,
    quick: Switch = False,
    set: Assignments = (),
    languages: Languages = (),
    device: str = "auto",
    out: Annotated[Path | None, "DIR"] = None,
    svg: Switch = False,
    open: Switch = False,
    by: Measuring = Measuring(),
) -> Answer:
    """Build an HTML report from any results, or measure the paper's figures.

    Examples:
        unmask report sweeps/smoke --open
        unmask report --recipe figure-1 --quick
        unmask report --recipe figure-2 --set text=letters.txt --out letters

    DIR has the results of a sweep, a page (demo, board, figure-1) or an evaluation;
    several directories become one page. --recipe measures first; the
    same command resumes after an interruption. With --quick it takes minutes,
    figure-1 half an hour on two cores:

        figure-1   SER and generative perplexity, exact and trained, next to AR
        figure-2   perplexity, entropy and time of texts (--set text=, tokenizer=)
        reasoning  Figure 2, right, on sums: incorrect answers, incorrect steps
        growth     the steps for an SER against the length, masks and uniform
                   noise; growth-networks trains networks
        gap        the gap, which needs no ground truth, next to the true loss

    Args:
        directories: Directories with results.
        recipe: One of figure-1, figure-2, reasoning, growth, growth-networks and gap.
        quick: Use the recipe with -quick in its name: smaller networks, shorter trainings, fewer sequences.
        set: Other values for the recipe, for example steps=[2,8] or training_steps=100.
        languages: Only these languages of the recipe (default: all).
        device: Device of the networks: auto, cpu or cuda.
        out: Directory of the page, its numbers and networks; created if missing. (default: report, or the recipe)
        svg: Also write the first three figures as SVG files, for a talk.
    """
    if bool(directories) == (recipe is not None):
        raise UnmaskError("name either directories with results, or --recipe: unmask report --recipe figure-1 --quick")
    if recipe is not None:
        return measured(recipe, NAMES, out or Path(recipe), quick, set, languages, device, svg, open, by)
    changes = {"quick": quick or None, "set": set or None, "languages": languages or None}
    refuse(changes, f"is for --recipe; the results in {directories[0]} are there already")
    for directory in directories:
        if not directory.exists():  # said here, before slow imports
            way = f"Measure it: --recipe {directory}" if str(directory) in NAMES else "Measure with `unmask sweep run`"
            raise UnmaskError(f"there is no directory {cut(str(directory))}; expected one with results. {way}")

    return _read(directories, out or Path("report"), svg, open)


def demo(
    *,
    out: Path = Path("demo"),
    languages: Languages = (),
    set: Assignments = (),
    svg: Switch = False,
    by: Measuring = Measuring(),
    open: Switch = False,
) -> Answer:
    """Reproduce the paper's main result as a web page.

    Examples:
        unmask demo --open
        unmask demo --set rows=200 --out small
        unmask demo --languages interval-5 --out one

    An exact denoiser replaces the network. The fluency of masked diffusion (TER)
    is near that of the language after a few dozen steps at any length; its
    correctness (SER) needs steps in proportion to the length. Numbers (JSON, CSV)
    are beside the page. The same command resumes.

    Args:
        out: Directory of the page and its files; created if missing.
        languages: Languages of the recipe to use. (default: all four)
        set: Other values for the recipe `demo`, for example rows=200 or steps=[8,64].
        svg: Also write the first three figures as SVG files, for a talk.
    """
    return measured("demo", ("demo",), out, False, set, languages, None, svg, open, by)


def measured(
    name: str,
    names: tuple[str, ...],
    out: Path,
    quick: bool,
    changes: tuple[str, ...],
    languages: tuple[str, ...],
    device: str | None,
    svg: bool,
    open: bool,
    by: Measuring,
) -> Answer:
    """Measure a recipe and draw its page."""
    from unmask.report.publishing import Selection, page_of, publish

    if name not in names:
        raise unknown("recipe", name, names)
    cells = Selection(f"{name}-quick" if quick else name, changes, languages, device)
    published = publish(page_of(name), cells, out, svg, **by.options(device or "cpu"))
    browse(published.page, open)
    return answer_of(published)


def _read(directories: tuple[Path, ...], out: Path, svg: bool, open: bool) -> Answer:
    from unmask.report import publishing
    from unmask.report.publishing import PAGE, check_directory

    began = perf_counter()
    check_directory(out, PAGE)
    shown, files = publishing.report(directories, out, svg)
    page = (out / PAGE).resolve()
    about: dict[str, Any] = {
        "page": str(page),
        "files": list(map(str, files)),
        "points": len(shown.results.points),
        "missing": shown.results.missing,
        "verdict": None,
    }

    text = []
    if shown.metrics:
        text.append(shown.verdict.sentence)
        about["verdict"] = {"sentence": shown.verdict.sentence, "numbers": shown.verdict.numbers}
    text += [*shown.results.missing, f"{page}, {page.stat().st_size / 1e6:.1f} MB"]
    browse(page, open)
    return Answer(about | {"seconds": perf_counter() - began}, text)


def answer_of(published: Published[Any]) -> Answer:
    """Return the numbers of a page, its messages and verdict, and the directories of its networks."""
    from unmask.report.publishing import records
    from unmask.report.verdict import summary, table

    shown = published.shown
    networks = mapped(str, shown.results.networks)
    about = {
        "page": str(published.page),
        "files": list(map(str, published.files)),
        "networks": networks,
        "seconds": published.seconds,
        "records": records(shown.results),
        "sentences": list(starmap("{}: {}".format, shown.view.cards(shown.results, shown.state))),
    }
    text: list[Grid | str] = []
    if shown.metrics:
        text.append(Grid(*table(shown)))
    text += [
        *summary(shown),
        *starmap("network {}: {}".format, networks.items()),
        "",
        str(published.page),
        f"{published.page.stat().st_size / 1e6:.1f} MB, {published.seconds:.0f} s; open it in any browser.",
    ]
    return Answer(about, text)
