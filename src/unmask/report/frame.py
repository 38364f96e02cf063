"""The frame of every page and figure: one HTML file without requests, one style, and data files next to it.

A page contains each figure twice: as a drawing, for print and for readers without JavaScript, and as a definition from
which the script draws an interactive one. Neutral parts have the colour of the surrounding text.
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
COLOURS = ("#0077bb", "#009988", "#ee3377", "#ee7733", "#8c6bb1", "#7a7a7a")  # Paul Tol's vibrant, for colour blindness
INK = "currentColor"
FONTS = "system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"
GAP, TITLED = 40, 44  # pixels between drawings side by side, and above them for a title
DENSE = 9  # columns of a table; a wider one is set smaller
GREY = "#7a7a7a"  # for parts without the colour of the text
WHOLE = "\n/* whole */"  # the end of a complete script
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
    **parts: str,
) -> bytes:
    """A complete page: a template of this package, in the frame with style and library."""
    package = files("unmask.report")
    body = Template(package.joinpath(template).read_text("utf-8")).substitute(
        parts,
        sentences="\n".join(map(_sentence, sentences)),
        command=text(_command(origin["command"])),
        files=_listed(beside),
    )
    frame = Template(package.joinpath("frame.html").read_text("utf-8"))
    html = frame.substitute(title=text(title), body=body, library=_library())
    return html.encode(errors="backslashreplace")  # a path may not be text


def _command(words: Sequence[str]) -> str:
    name = Path(words[0]).name
    return shlex.join(["unmask" if name == "__main__.py" else name, *words[1:]])


@cache
def _library() -> str:
    """Vega, Vega-Lite and vegaEmbed as one script, cached next to the compiled sources if these are writable."""
    cached = Path(__file__).parent / "__pycache__" / f"vega-{version('vl-convert-python')}.js"
    with suppress(OSError, UnicodeDecodeError):
        if (script := cached.read_text("utf-8")).endswith(WHOLE):
            return script
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;") + WHOLE
    with suppress(OSError, UnmaskError), atomic(cached) as file:
        file.write(script.encode())
    return script


def figure(name: str, title: str, subtitle: str, caption: str, drawn: Definition, live: Definition) -> str:
    """A drawing, and the definition of its interactive version."""
    definition = json.dumps(live).replace("<", "\\u003c")  # no name ends or begins a script
    title, subtitle = text(title), text(subtitle)
    return f"""<figure>
<h3>{title}</h3>
<p class="under">{subtitle}</p>
<div class="plot" id="{name}" role="img" aria-label="{title}: {subtitle}">{hidden(svg(drawn))}</div>
<figcaption>{caption}</figcaption>
<script type="application/json" data-figure="{name}">{definition}</script>
</figure>"""


def svg(definition: Definition) -> str:
    try:
        return vl_convert.vegalite_to_svg(definition)
    except BaseException as error:  # a panic of Rust is not an Exception; later calls are cancelled
        usual = isinstance(error, Exception) and "canceled" not in str(error)
        if usual or isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        advice = "expected free file descriptors. Raise their limit (ulimit -n)"
        raise UnmaskError(f"vl-convert panicked: {cut(str(error))}; {advice}") from error


def hidden(svg: str) -> str:
    """A drawing that screen readers skip, as the text around it describes it."""
    return svg.replace("<svg ", '<svg aria-hidden="true" ', 1)


def drawings(definitions: Mapping[str, Definition]) -> dict[str, bytes]:
    """NAME.svg of each, then NAME.png."""
    drawn = {name: svg(definition) for name, definition in definitions.items()}
    vectors = {f"{name}.svg": picture.encode() for name, picture in drawn.items()}
    return vectors | {f"{name}.png": vl_convert.svg_to_png(drawn[name], scale=SCALE) for name in drawn}


def numbers(name: str, records: Sequence[Mapping[str, Any]], **about: Any) -> dict[str, bytes]:
    """NAME.json, with their origin and one record per line, and NAME.csv."""
    lines = ",\n  ".join(json.dumps(finite(record), allow_nan=False) for record in records)
    head = "".join(f' "{key}": {json.dumps(finite(value), allow_nan=False)},\n' for key, value in about.items())
    data = f'{{\n{head} "records": [\n  {lines}\n ]\n}}\n'
    return {f"{name}.json": data.encode(), f"{name}.csv": pd.DataFrame(list(records)).to_csv(index=False).encode()}


def themed(chart: alt.TopLevelMixin) -> Definition:
    """The definition of a chart in our style, checked with the schema of Vega-Lite."""
    with alt.data_transformers.disable_max_rows():
        return chart.to_dict() | {"config": look()}


def look() -> Definition:
    """Quiet axes in the colour of the text."""
    text = {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    lines = {"gridColor": INK, "gridOpacity": 0.12, "domainColor": INK, "domainOpacity": 0.4, "tickColor": INK}
    title = {"anchor": "start", "color": INK, "subtitleColor": INK, "fontSize": 16, "subtitleFontSize": 12}
    return {
        "font": FONTS,
        "background": "transparent",
        "view": {"stroke": None},
        "axis": text | lines | {"tickOpacity": 0.4},
        "legend": {"labelColor": INK, "labelFontSize": 12, "labelLimit": 240, "offset": 8},
        "title": title | {"offset": 12},
    }


def alone(definition: Definition, title: Mapping[str, Any]) -> Definition:
    """For a file without a page: with a title, on white."""
    return definition | {"title": title, "background": "white"}


def beside(name: str, parts: Sequence[bytes], title: str) -> dict[str, bytes]:
    """NAME.svg and NAME.png: drawings side by side, on white, under one title."""
    sizes = [tuple(float(x) for x in re.findall(r'(?:width|height)="([\d.]+)"', part.decode())[:2]) for part in parts]
    wide, high = sum(width for width, _ in sizes) + GAP * (len(parts) - 1), TITLED + max(height for _, height in sizes)
    left, placed = 0.0, []
    for part, (width, _) in zip(parts, sizes, strict=True):
        placed.append(part.decode().replace("<svg ", f'<svg x="{left:g}" y="{TITLED}" ', 1))
        left += width + GAP
    drawn = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:g}" height="{high:g}" viewBox="0 0 {wide:g} {high:g}">'
        f'<rect width="100%" height="100%" fill="white"/><text x="5" y="26" font-size="18" font-weight="bold" '
        f'font-family="{html.escape(FONTS)}">{text(title)}</text>{"".join(placed)}</svg>'
    )
    return {f"{name}.svg": drawn.encode(), f"{name}.png": vl_convert.svg_to_png(drawn, scale=SCALE)}


def heading(title: str, *below: str, **options: Any) -> dict[str, Any]:
    return {"text": title, "subtitle": below} | options


def cards(sentences: Iterable[Sentence]) -> str:
    items = "\n".join(map(_sentence, sentences))
    return f'<ol class="see">\n{items}\n</ol>' if items else ""


def _listed(names: Iterable[str]) -> str:
    """Links to files, grouped by stem."""
    stems: dict[str, list[str]] = {}
    for name in sorted(names):
        stems.setdefault(name.rpartition(".")[0], []).append(name)
    links = {stem: " ".join(f'<a href="{n}">{n.rpartition(".")[2]}</a>' for n in of) for stem, of in stems.items()}
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
    dense, title = " dense" * (len(table.head) > DENSE), text(table.title)
    scrolls = f'tabindex="0" role="region" aria-label="{attribute(table.title)}"'  # by keys, on a narrow screen
    rows_ = f"<caption>{title}</caption>\n<tr>{head}</tr>\n{body}"
    return f'<div class="table{dense}" {scrolls}><table>\n{rows_}\n</table></div>'


def text(text: str) -> str:
    return html.escape(text, quote=False)


def attribute(text: str) -> str:
    """The value of an attribute in quotes."""
    return html.escape(text)
