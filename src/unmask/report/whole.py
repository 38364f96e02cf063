"""The page of any results, and the pages of recipes: `unmask demo` and `unmask figure`.

The page of a recipe is recipes/NAME.yaml and a saved view, views/NAME.html.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from string import Template
from typing import Any

from unmask.core.files import finite, origin
from unmask.experiments.board.table import Table
from unmask.experiments.recipe import Recipe, read_recipe
from unmask.experiments.run import Sweep
from unmask.languages import PRESETS
from unmask.report import frame
from unmask.report.explorer.fragment import COLUMNS, Explorer
from unmask.report.frame import PAGE, Sentence, text
from unmask.report.publishing import Context, Page, write
from unmask.report.results import Results, read
from unmask.report.view import View, saved

NUMBERS = "data"  # the name of the data files
MOST_NAMES = 3  # languages in the title
LONGEST = 32  # characters of a directory in a table
OVERVIEW = 2  # figures side by side in overview.svg


def publish(directories: Sequence[str | Path], out: Path, drawings: bool = False) -> tuple[Explorer, list[Path]]:
    """Write the page of some stores, with its numbers; drawings: also each figure as SVG and PNG."""
    results = read(directories)
    explorer = Explorer(results, View() if results.points or not results.trainings else saved("training"))
    return explorer, write(out, contents(explorer, origin(), drawings, out), PAGE)


@dataclass(frozen=True)
class Selection:
    """The cells that a page shows."""

    recipe: str  # a name, or a file
    set: tuple[str, ...] = ()  # other values, as for `--set` of `unmask sweep run`
    languages: tuple[str, ...] = ()  # some languages of the recipe (default: all)
    device: str | None = None  # of networks; no number depends on it


def of_recipe(name: str) -> Page[Selection, Sweep]:
    """The page of a saved view; it fails if a cell failed."""
    return Page(PAGE, _recipe, lambda sweep, _: sweep.whole(), _contents, saved(name))


def _recipe(selection: Selection) -> Recipe:
    recipe = read_recipe(selection.recipe, selection.set)
    recipe = recipe if selection.device is None else recipe.with_changes({"device": selection.device})
    return recipe.only("language", selection.languages) if selection.languages else recipe


def _contents(sweep: Sweep | None, selection: Selection, context: Context) -> dict[str, bytes]:
    more = {"seconds": context.seconds, "settings": asdict(selection)}
    return contents(context.explorer, context.origin, sweep is not None, context.out, **more)


def contents(
    explorer: Explorer, origin: Mapping[str, Any], drawings: bool, out: Path | None = None, **about: Any
) -> dict[str, bytes]:
    """All files by name; about: entries of the data file."""
    results = explorer.results
    files = frame.drawings(explorer.drawings()) if drawings else {}
    if explorer.view.figures and files:
        parts = [files[f"{figure.name}.svg"] for figure in explorer.figures[:OVERVIEW]]
        files |= frame.beside("overview", parts, explorer.view.title)
    about |= {"sources": results.sources, "missing": results.missing}
    files |= frame.numbers(NUMBERS, records(results), origin=origin, **about)
    return files | page(explorer, origin, files, out, messages=[] if results.points else trained(results))


def page(
    explorer: Explorer,
    origin: Mapping[str, Any],
    beside: Iterable[str],
    out: Path | None = None,
    tables: Iterable[Table] = (),
    below: str = "",
    messages: Iterable[Sentence] = (),
) -> dict[str, bytes]:
    """The page alone, with links to the files next to it; tables, and words below them, are above the figures."""
    results = explorer.results
    head, _, notes = explorer.view.parts
    names = [*results.choices("of"), *(one.of for one in results.trainings)]
    names += [point["of"] for point in results.theory]
    about = _listed(list(dict.fromkeys(map(str, names)))) or "no data yet"
    content = frame.page(
        f"unmask: {explorer.view.name}",
        "report.html",
        origin,
        beside,
        (),
        head=Template(head).safe_substitute(about=text(about)),
        notes=notes.replace("$languages", languages(results)),
        missing=missing(results),
        cards=frame.cards([*messages, *explorer.cards]),
        first="\n".join([*map(frame.table, tables), below]),
        networks=networks(results, out),
        examples="".join(f"<h3>{text(a)}</h3>\n<pre class='text'>{text(b)}</pre>" for a, b in results.examples),
        made=text(_made(results, origin)),
        **explorer.parts(),
    )
    return {PAGE: content}


def records(results: Results) -> list[dict[str, Any]]:
    return [finite({name: point[name] for name in COLUMNS}) for point in results.points]


def trained(results: Results) -> list[Sentence]:
    """The final validation loss of each network, for the first few."""
    sentences = []
    for one in [one for one in results.trainings if one.journal][:MOST_NAMES]:
        last = one.journal[-1]
        about = (
            f"after {one.steps} training steps ({last.seconds:.0f} s). The loss is {last.validation:.4f} nats per token"
        )
        if one.entropy:
            number = f"{one.name}: {100 * (last.validation / one.entropy - 1):.2g}% above the entropy"
            words = f"Validation loss {about}; the entropy of the language, {one.entropy:.4f}, is the lower limit."
        else:
            number, words = f"{one.name}: {last.validation:.3g} nats per token", f"Validation loss {about}."
        sentences.append(Sentence(number, words))
    return sentences


def networks(results: Results, out: Path | None) -> str:
    """A table of the trained networks: loss, and a link from OUT to their directories."""
    rows = []
    for one in results.trainings:
        if not one.journal:
            continue
        last = one.journal[-1]
        over = "-" if not one.entropy else f"{100 * (last.validation / one.entropy - 1):+.2f}%"
        path = os.path.relpath(one.place, out) if out is not None else str(one.place)
        short = path if len(path) <= LONGEST else f"..{path[-LONGEST:]}"
        link = f'<a href="{frame.attribute(path)}/losses.csv"><code>{text(short)}</code></a>'
        cells = (f"{last.validation:.4f}", over, f"{one.steps}", f"{last.seconds:.0f} s", link)
        rows.append(f"<tr><th>{text(one.name)}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    if not rows:
        return ""
    heads = ("network", "loss, nats per token", "above the entropy", "training steps", "time", "directory")
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    note = "For <code>unmask generate --model</code> and <code>unmask model learning</code>."
    body = "\n".join(rows)
    table = f'<div class="table"><table><tr>{head}</tr>\n{body}</table></div>'
    return f'<h2>Trained networks</h2>\n<p class="note">{note}</p>\n{table}'


def languages(results: Results) -> str:
    """Rows of a table: each known language and its description."""
    names = {of: of.partition("(")[0] for of in results.choices("of")}
    known = {of: PRESETS.entry(name).about for of, name in names.items() if name in PRESETS.makers}
    return "\n".join(f"<tr><th>{text(of)}</th><td>{text(about)}.</td></tr>" for of, about in known.items())


def missing(results: Results) -> str:
    """A box with unmeasured and failed cells."""
    if not results.missing:
        return ""
    items = "".join(f"<li>{text(one)}</li>" for one in results.missing)
    return f'<div class="missing" role="note"><strong>Results are missing.</strong><ul>{items}</ul></div>'


def _made(results: Results, origin: Mapping[str, Any]) -> str:
    versions = origin.get("versions", {})
    parts = [", ".join(results.sources), f"{results.work:.0f} s of compute" if results.work else ""]
    parts += [str(origin.get("machine") or "")]
    parts += [f"{name} {versions[name]}" for name in ("unmask", "torch", "numba") if name in versions]
    return ", ".join(part for part in parts if part) + "."


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:MOST_NAMES])} and {more} more"
