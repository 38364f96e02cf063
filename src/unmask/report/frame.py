"""The frame of every page and figure: one HTML file without requests, one style, and data files next to it.

A page contains each figure twice: drawn, for readers without JavaScript and for print, and as a definition that
replaces the drawing by an interactive one. Neutral parts have the colour of the surrounding text, for light, dark and
paper.

A chart becomes a definition once: checking Vega-Lite's schema takes longer than drawing. Its title, width and
background are entries of the definition.
"""

from __future__ import annotations

import html
import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import altair as alt
import pandas as pd
import vl_convert

from unmask.core.errors import UnmaskError, cut
from unmask.core.files import atomic, finite
from unmask.experiments.board.table import Table

PAGE = "index.html"
SCALE = 2  # PNG pixels for each of the figure
HEIGHT = 320
COLOURS = ("#0077bb", "#009988", "#ee3377", "#ee7733", "#8c6bb1", "#7a7a7a")  # Paul Tol's vibrant: all can tell apart
INK = "currentColor"
FONTS = "system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"
GAP, TITLED = 40, 44  # pixels between drawings side by side, and above them for a title
GREY = "#7a7a7a"  # for what cannot take the colour of the text

WHOLE = "\n/* whole */"  # the end of a script that was not cut short
Definition = dict[str, Any]  # of a figure, as Vega-Lite reads it


class Sentence(NamedTuple):
    """A message of a page."""

    number: str
    text: str


def page(
    title: str,
    template: str,
    origin: Mapping[str, Any],
    beside: Iterable[str],
    sentences: Iterable[Sentence] = (),
    tables: Iterable[Table] = (),
    **parts: str,
) -> bytes:
    """A whole page: a template of this package, in the frame that holds the looks and the library."""
    room = files("unmask.report")
    body = Template(room.joinpath(template).read_text("utf-8")).substitute(
        parts,
        sentences="\n".join(map(_sentence, sentences)),
        tables="\n".join(map(table, tables)),
        command=text(shlex.join([Path(origin["command"][0]).name, *origin["command"][1:]])),
        files=_listed(beside),
    )
    frame = Template(room.joinpath("frame.html").read_text("utf-8"))
    return frame.substitute(title=text(title), body=body, library=_library()).encode(
        errors="backslashreplace"
    )  # of paths


@cache
def _library() -> str:
    """Vega, Vega-Lite and vegaEmbed as one script, from the package that holds them.

    It takes longer to make than a page, and is kept beside the compiled sources, where that can be written.
    """
    kept = Path(__file__).parent / "__pycache__" / f"vega-{version('vl-convert-python')}.js"
    with suppress(OSError, UnicodeDecodeError):
        if (script := kept.read_text("utf-8")).endswith(WHOLE):
            return script
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;") + WHOLE
    with suppress(OSError, UnmaskError), atomic(kept) as file:
        file.write(script.encode())
    return script


def figure(name: str, title: str, subtitle: str, caption: str, drawn: Definition, live: Definition) -> str:
    """A drawing, and the definition that will replace it."""
    definition = json.dumps(live).replace("<", "\\u003c")  # no name in it ends the script, or begins one
    title, subtitle = text(title), text(subtitle)
    return f"""<figure>
<h3>{title}</h3>
<p class="under">{subtitle}</p>
<div class="plot" id="{name}" role="img" aria-label="{title}: {subtitle}">{hidden(svg(drawn))}</div>
<figcaption>{caption}</figcaption>
<script type="application/json" data-figure="{name}">{definition}</script>
</figure>"""


def svg(definition: Definition) -> str:
    """A drawing of it."""
    try:
        return vl_convert.vegalite_to_svg(definition)
    except BaseException as error:  # a panic of Rust is no Exception; after it the library cancels what it is given
        usual = isinstance(error, Exception) and "canceled" not in str(error)
        if usual or isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        what = "without descriptors it cannot draw: raise their limit (ulimit -n)"
        raise UnmaskError(f"vl-convert has panicked: {cut(str(error))}; {what}") from error


def hidden(svg: str) -> str:
    """A drawing that is told in words by what is around it."""
    return svg.replace("<svg ", '<svg aria-hidden="true" ', 1)


def drawings(definitions: Mapping[str, Definition]) -> dict[str, bytes]:
    """NAME.svg of each, then NAME.png."""
    drawn = {name: svg(definition) for name, definition in definitions.items()}
    vectors = {f"{name}.svg": picture.encode() for name, picture in drawn.items()}
    return vectors | {f"{name}.png": vl_convert.svg_to_png(drawn[name], scale=SCALE) for name in drawn}


def numbers(name: str, records: Sequence[Mapping[str, Any]], **about: Any) -> dict[str, bytes]:
    """NAME.json, with where they come from and one record a line, for people and for diffs; and NAME.csv."""
    lines = ",\n  ".join(json.dumps(finite(record), allow_nan=False) for record in records)
    head = "".join(
        f" {json.dumps(name)}: {json.dumps(finite(value), allow_nan=False)},\n" for name, value in about.items()
    )
    data = f'{{\n{head} "records": [\n  {lines}\n ]\n}}\n'
    return {f"{name}.json": data.encode(), f"{name}.csv": csv(records)}


def csv(records: Sequence[Mapping[str, Any]]) -> bytes:
    return pd.DataFrame(list(records)).to_csv(index=False).encode()


def themed(chart: alt.TopLevelMixin) -> Definition:
    """A chart, held against Vega-Lite's schema, in our looks."""
    with alt.data_transformers.disable_max_rows():
        return chart.to_dict() | {"config": look()}


def look() -> Definition:
    """Quiet axes in the colour of the text."""
    text = {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    lines = {"gridColor": INK, "gridOpacity": 0.12, "domainColor": INK, "domainOpacity": 0.4, "tickColor": INK}
    title = {
        "anchor": "start",
        "color": INK,
        "subtitleColor": INK,
        "fontSize": 16,
        "subtitleFontSize": 12,
        "offset": 12,
    }
    return {
        "font": FONTS,
        "background": "transparent",
        "view": {"stroke": None},
        "axis": text | lines | {"tickOpacity": 0.4},
        "legend": {"labelColor": INK, "labelFontSize": 12, "labelLimit": 240, "offset": 8},
        "title": title | {"offset": 12},
    }


def alone(definition: Definition, title: Mapping[str, Any]) -> Definition:
    """To stand without a page: under its title and on white, since what surrounds it is not known."""
    return definition | {"title": title, "background": "white"}


def beside(name: str, parts: Sequence[bytes], title: str) -> dict[str, bytes]:
    """NAME.svg and NAME.png: drawings side by side, on white, under one title."""
    sizes = [tuple(float(x) for x in re.findall(r'(?:width|height)="([\d.]+)"', part.decode())[:2]) for part in parts]
    wide, high = sum(width for width, _ in sizes) + GAP * (len(parts) - 1), TITLED + max(height for _, height in sizes)
    left, placed = 0.0, []
    for part, (width, _) in zip(parts, sizes, strict=True):
        placed.append(part.decode().replace("<svg ", f'<svg x="{left:g}" y="{TITLED}" ', 1))
        left += width + GAP
    whole = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:g}" height="{high:g}" viewBox="0 0 {wide:g} {high:g}">'
        f'<rect width="100%" height="100%" fill="white"/><text x="5" y="26" font-size="18" font-weight="bold" '
        f'font-family="{html.escape(FONTS)}">{text(title)}</text>{"".join(placed)}</svg>'
    )
    return {f"{name}.svg": whole.encode(), f"{name}.png": vl_convert.svg_to_png(whole, scale=SCALE)}


def heading(title: str, *below: str, **options: Any) -> dict[str, Any]:
    return {"text": title, "subtitle": below} | options


def cards(sentences: Iterable[Sentence]) -> str:
    """Messages side by side."""
    items = "\n".join(map(_sentence, sentences))
    return f'<ol class="see">\n{items}\n</ol>' if items else ""


def _listed(names: Iterable[str]) -> str:
    """Links to files, those of one stem together."""
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        found.setdefault(name.rpartition(".")[0], []).append(name)
    links = {stem: " ".join(f'<a href="{n}">{n.rpartition(".")[2]}</a>' for n in of) for stem, of in found.items()}
    return "; ".join(f"{stem} {of}" for stem, of in links.items())


def _sentence(sentence: Sentence) -> str:
    return f"<li><strong>{text(sentence.number)}</strong>{text(sentence.text)}</li>"


def table(table: Table) -> str:
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


def attribute(text: str) -> str:
    """For the value of an attribute in quotes."""
    return html.escape(text)
