"""What every page of ours is made of: a frame that asks nobody for anything, figures, tables, and files beside it.

Each figure stands in a page twice: drawn, for readers without JavaScript and for printers, and as a definition that
replaces the drawing with one that answers to the pointer and follows the width of the window.
"""

from __future__ import annotations

import html
import io
import json
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import altair as alt
import vl_convert

from unmask.core.errors import UnmaskError
from unmask.core.files import atomic, check_writable
from unmask.experiments.board.table import Table

PAGE = "index.html"
STORE = "sweep"  # beside the page: what was measured, from which an interrupted command goes on
SCALE = 2  # PNG pixels for each of the figure


class Sentence(NamedTuple):
    """One of those that say what to see."""

    number: str  # the one to remember
    text: str


def check_directory(out: Path, last: str = PAGE) -> None:
    """Fail before the work is done: `out` is a directory that can be written to, or made."""
    if out.exists() and not out.is_dir():
        raise UnmaskError(f"cannot write to {out}: it is a file; name a directory with --out")
    check_writable(out / last if out.is_dir() else out)


def write(out: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Each file whole or not at all, the page last; a directory that was made for them goes if they fail."""
    made = not out.exists()
    if made:
        out.mkdir()
    written = []
    try:
        for name in sorted(contents, key=lambda name: name == PAGE):
            with atomic(out / name) as file:
                file.write(contents[name])
            written.append(out / name)
    except BaseException:
        if made:
            for name in contents:
                (out / name).unlink(missing_ok=True)
            with suppress(OSError):  # if somebody else has put something there, it stays
                out.rmdir()
        raise
    return written


def framed(title: str, template: str, parts: Mapping[str, str]) -> bytes:
    """A whole page: a template of this package, in the frame that holds the looks and the library."""
    room = files("unmask.report")
    body = Template(room.joinpath(template).read_text("utf-8")).substitute(parts)
    frame = Template(room.joinpath("frame.html").read_text("utf-8"))
    return frame.substitute(title=text(title), body=body, library=_library()).encode()


@cache
def _library() -> str:
    """Vega, Vega-Lite and vegaEmbed as one script, from the package that holds them."""
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


def figure(name: str, title: str, subtitle: str, caption: str, drawn: Any, live: Any) -> str:
    """A drawing, and the definition that will replace it."""
    definition = json.dumps(live.to_dict()).replace("</", "<\\/")
    title, subtitle = text(title), text(subtitle)
    return f"""<figure>
<h3>{title}</h3>
<p class="under">{subtitle}</p>
<div class="plot" id="{name}" role="img" aria-label="{title}: {subtitle}">{svg(drawn)}</div>
<figcaption>{caption}</figcaption>
<script type="application/json" data-figure="{name}">{definition}</script>
</figure>"""


def svg(chart: alt.TopLevelMixin) -> str:
    """A drawing of it."""
    buffer = io.StringIO()
    chart.save(buffer, format="svg")
    return buffer.getvalue()


def sentence_item(sentence: Sentence) -> str:
    return f"<li><strong>{text(sentence.number)}</strong>{text(sentence.text)}</li>"


def table_html(table: Table) -> str:
    head = "".join(f'<th scope="col">{text(name)}</th>' for name in table.head)
    rows = []
    for heading, cells in table.rows:
        data = "".join(f"<td>{text(v)}{f'<small>{text(i)}</small>' if i else ''}</td>" for v, i in cells)
        rows.append(f'<tr><th scope="row">{text(heading)}</th>{data}</tr>')
    body = "\n".join(rows)
    return (
        f'<div class="table"><table>\n<caption>{text(table.title)}</caption>\n<tr>{head}</tr>\n{body}\n</table></div>'
    )


def text(text: str) -> str:
    return html.escape(text, quote=False)
