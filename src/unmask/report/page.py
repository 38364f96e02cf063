"""The page: one HTML file that asks nobody for anything, with the figures and the numbers as files beside it.

Each figure stands in the page twice: drawn, for readers without JavaScript and for printers, and as a definition that
replaces the drawing with one that answers to the pointer and follows the width of the window.
"""

from __future__ import annotations

import html
import io
import json
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import altair as alt
import pandas as pd
import vl_convert

from unmask.board.table import Table
from unmask.errors import UnmaskError
from unmask.files import atomic, check_writable
from unmask.languages import PRESETS
from unmask.report import standing
from unmask.report.captions import caption as caption_of
from unmask.report.cells import Record
from unmask.report.figures import TITLES, Figures
from unmask.report.plan import Settings, of_samplers
from unmask.report.story import Sentence, Story

PAGE = "index.html"
SCALE = 2  # PNG pixels for each of the figure
WIDTH = 520  # of a drawn plot
WIDTHS = {"lengths": 900}
OVERVIEW_WIDTH = 440


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


def render(
    records: Sequence[Record], settings: Settings, origin: Mapping[str, Any], seconds: float
) -> dict[str, bytes]:
    """All files by name."""
    figures = Figures(records, settings)
    alone = {name: svg(figures.titled(name, WIDTHS.get(name, WIDTH))) for name in figures.makers}
    alone["overview"] = svg(figures.overview(OVERVIEW_WIDTH))
    alone["samplers"] = svg(standing.titled(of_samplers(records)))
    contents = {f"{name}.svg": drawn.encode() for name, drawn in alone.items()}
    contents |= {f"{name}.png": vl_convert.svg_to_png(drawn, scale=SCALE) for name, drawn in alone.items()}
    data = {"origin": origin, "seconds": seconds, "settings": asdict(settings), "records": list(records)}
    contents["data.json"] = json.dumps(data, indent=1, allow_nan=False).encode() + b"\n"
    contents["data.csv"] = pd.DataFrame(list(records)).to_csv(index=False).encode()
    story = Story(records, settings)
    parts = {
        "sentences": "\n".join(_sentence(sentence) for sentence in story.sentences()),
        "tables": "\n".join(_table(table) for table in story.tables()),
        "languages": "\n".join(_language(name, story) for name in figures.languages),
        "made": _made(origin, settings, seconds),
        "command": _text(shlex.join([Path(origin["command"][0]).name, *origin["command"][1:]])),
        "files": ", ".join(f'<a href="{name}">{name}</a>' for name in sorted(contents)),
        "figures": "\n".join(_steps_figure(name, figures) for name in figures.makers),
        "samplers": _samplers_figure(of_samplers(records), settings),
        "library": _library(),
    }
    template = files("unmask.report").joinpath("page.html").read_text("utf-8")
    return contents | {PAGE: Template(template).substitute(parts).encode()}


@cache
def _library() -> str:
    """Vega, Vega-Lite and vegaEmbed as one script, from the package that holds them."""
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


def _steps_figure(name: str, figures: Figures) -> str:
    title, subtitle = TITLES[name]
    caption = caption_of(name, figures.settings)
    live = figures.plain(name, "container")
    return _figure(name, title, subtitle, caption, figures.plain(name, WIDTHS.get(name, WIDTH)), live)


def _samplers_figure(records: Sequence[Record], settings: Settings) -> str:
    title, subtitle = standing.TITLE
    drawn = standing.chart(records)
    return _figure("samplers", title, subtitle, standing.caption(settings.sampler_rows), drawn, drawn)


def _figure(name: str, title: str, subtitle: str, caption: str, drawn: Any, live: Any) -> str:
    """A drawing, and the definition that will replace it."""
    definition = json.dumps(live.to_dict()).replace("</", "<\\/")
    title, subtitle = _text(title), _text(subtitle)
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


def _made(origin: Mapping[str, Any], settings: Settings, seconds: float) -> str:
    versions = origin["versions"]
    by = f"unmask {versions['unmask']} (torch {versions['torch']}, numba {versions['numba']})"
    return _text(
        f"Measured in {seconds:.0f} s by {by} on {origin['machine']} with seed {settings.seed}; the same command "
        "gives the same numbers:"
    )


def _sentence(sentence: Sentence) -> str:
    return f"<li><strong>{_text(sentence.number)}</strong>{_text(sentence.text)}</li>"


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in table.head)
    rows = []
    for heading, cells in table.rows:
        data = "".join(f"<td>{_text(v)}{f'<small>{_text(i)}</small>' if i else ''}</td>" for v, i in cells)
        rows.append(f'<tr><th scope="row">{_text(heading)}</th>{data}</tr>')
    body = "\n".join(rows)
    return (
        f'<div class="table"><table>\n<caption>{_text(table.title)}</caption>\n<tr>{head}</tr>\n{body}\n</table></div>'
    )


def _language(name: str, story: Story) -> str:
    about = PRESETS[name].about if name in PRESETS else "a language of your own"
    own = story.own_ter(name)
    ter = f" Its own TER is {own:.4g} at {story.settings.length} tokens." if own is not None else ""
    return f"<tr><th>{_text(name)}</th><td>{_text(about)}.{ter}</td></tr>"


def _text(text: str) -> str:
    return html.escape(text, quote=False)
