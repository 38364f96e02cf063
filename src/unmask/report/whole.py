"""The page of any results: one template, a view, and what is missing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from string import Template
from typing import Any

from unmask.core.files import finite, origin
from unmask.experiments.board.table import Table
from unmask.experiments.jobs.recipe import Recipe
from unmask.experiments.jobs.run import Sweep
from unmask.languages import PRESETS
from unmask.report import frame
from unmask.report.explorer.fragment import COLUMNS, Explorer
from unmask.report.frame import PAGE, text
from unmask.report.publishing import Made, Page, check_directory, write
from unmask.report.results import Results, read
from unmask.report.view import View

NUMBERS = "points"  # the name of the data files
MOST_NAMES = 3  # of languages, in the title
DATA = "data"  # the same, of a page with a view
OVERVIEW = 2  # figures side by side in overview.svg


def check(out: Path) -> None:
    """Fail before the work is done."""
    check_directory(out, PAGE)


def publish(directories: Sequence[str | Path], out: Path, drawings: bool = False) -> tuple[Explorer, list[Path]]:
    """A page of some stores in OUT, with its numbers; drawings: also each figure as SVG and PNG."""
    explorer = Explorer(read(directories))
    return explorer, write(out, contents(explorer, origin(), drawings, out=out), PAGE)


def viewed(view: View, recipe: Callable[[Any], Recipe], early: int = 0) -> Page[Any, Sweep]:
    """A page of a sweep with a saved view; it fails if a cell has failed."""

    def whole(made: Sweep, _settings: Any) -> Sweep:
        return made.whole()

    def every(made: Sweep | None, settings: Any, about: Made) -> dict[str, bytes]:
        more = {"seconds": about.seconds, "settings": asdict(settings)}
        return contents(about.explorer, about.origin, made is not None, about.out, DATA, **more)

    return Page(PAGE, recipe, whole, every, view, early)


def contents(
    explorer: Explorer,
    made: Mapping[str, Any],
    drawings: bool,
    out: Path | None = None,
    name: str = NUMBERS,
    **about: Any,
) -> dict[str, bytes]:
    """All files by name; about: entries of the data file."""
    results = explorer.results
    found = frame.drawings(explorer.drawings()) if drawings else {}
    if explorer.view.figures and found:
        parts = [found[f"{figure.name}.svg"] for figure in explorer.figures[:OVERVIEW]]
        found |= frame.beside("overview", parts, explorer.view.words)
    about |= {"sources": results.sources, "missing": results.missing}
    found |= frame.numbers(name, records(results), origin=made, **about)
    return found | page(explorer, made, found, out)


def page(
    explorer: Explorer,
    made: Mapping[str, Any],
    beside: Iterable[str],
    out: Path | None = None,
    tables: Iterable[Table] = (),
    below: str = "",
) -> dict[str, bytes]:
    """The page alone, with links to the files next to it; tables, with words below them: above the figures."""
    results = explorer.results
    head, _, notes = explorer.view.parts
    names = [*results.choices("of"), *(one.of for one in (*results.trainings,))]
    names += [point["of"] for point in (*results.frontier, *results.theory)]
    about = _listed(list(dict.fromkeys(map(str, names)))) or "nothing was measured yet"
    content = frame.page(
        f"unmask: {explorer.view.words}",
        "report.html",
        made,
        beside,
        (),
        (),
        head=Template(head).safe_substitute(about=text(about)),
        notes=notes.replace("$languages", languages(results)),
        missing=missing(results),
        cards=frame.cards(explorer.cards),
        first="\n".join([*map(frame.table, tables), below]),
        networks=networks(results, out),
        examples="".join(
            f"<h3>{text(who)}</h3>\n<pre class='text'>{text(said)}</pre>" for who, said in results.examples
        ),
        made=text(_made(results, made)),
        **explorer.parts(),
    )
    return {PAGE: content}


def records(results: Results) -> list[dict[str, Any]]:
    return [finite({name: point[name] for name in COLUMNS}) for point in results.points]


def networks(results: Results, out: Path | None) -> str:
    """The trained networks: their loss, and a link to their directories from OUT."""
    rows = []
    for one in results.trainings:
        if not one.journal:
            continue
        last = one.journal[-1]
        over = "-" if not one.entropy else f"{100 * (last.validation / one.entropy - 1):+.2f}%"
        place = os.path.relpath(one.place, out) if out is not None else str(one.place)
        link = f'<a href="{frame.attribute(place)}/README.md"><code>{text(place)}</code></a>'
        cells = (f"{last.validation:.4f}", over, f"{one.steps}", f"{last.seconds:.0f} s", link)
        rows.append(f"<tr><th>{text(one.name)}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    if not rows:
        return ""
    heads = ("network", "loss, nats per token", "above the entropy", "training steps", "time", "directory")
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    note = "For <code>unmask generate --model</code> and <code>unmask learning</code>."
    body = "\n".join(rows)
    whole = f'<div class="table"><table><tr>{head}</tr>\n{body}</table></div>'
    return f'<h2>Trained networks</h2>\n<p class="note">{note}</p>\n{whole}'


def languages(results: Results) -> str:
    """Rows of a table: each known language and its description."""
    found = {of: of.partition("(")[0] for of in results.choices("of")}
    known = {of: PRESETS.entry(bare).about for of, bare in found.items() if bare in PRESETS.makers}
    return "\n".join(f"<tr><th>{text(of)}</th><td>{text(about)}.</td></tr>" for of, about in known.items())


def missing(results: Results) -> str:
    """Unmeasured and failed cells, above everything."""
    if not results.missing:
        return ""
    items = "".join(f"<li>{text(one)}</li>" for one in results.missing)
    return f'<div class="missing" role="note"><strong>Results are missing.</strong><ul>{items}</ul></div>'


def _made(results: Results, made: Mapping[str, Any]) -> str:
    versions = made.get("versions", {})
    parts = [f"{results.work:.0f} s of work" if results.work else "", str(made.get("machine") or "")]
    parts += [f"{name} {versions[name]}" for name in ("unmask", "torch", "numba") if name in versions]
    parts += [f"from {', '.join(results.sources)}"] if results.sources else []
    return ", ".join(part for part in parts if part) + "."


def _listed(names: Sequence[str]) -> str:
    """The first few."""
    more = len(names) - MOST_NAMES
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:MOST_NAMES])} and {more} more"
