"""The demo's page: one HTML file that asks nobody for anything, with the figures and the numbers as files beside it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import vl_convert

from unmask.experiments.measures.catalogue import Record
from unmask.languages import PRESETS
from unmask.report import standing
from unmask.report.captions import caption as caption_of
from unmask.report.figures import TITLES, Figures
from unmask.report.frame import PAGE, SCALE, figure, framed, sentence_item, svg, table_html, text
from unmask.report.measured import of_samplers
from unmask.report.plan import Settings
from unmask.report.story import Story

WIDTH = 520  # of a drawn plot
WIDTHS = {"lengths": 900}
OVERVIEW_WIDTH = 440


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
        "sentences": "\n".join(sentence_item(sentence) for sentence in story.sentences()),
        "tables": "\n".join(table_html(table) for table in story.tables()),
        "languages": "\n".join(_language(name, story) for name in figures.languages),
        "made": _made(origin, settings, seconds),
        "command": text(shlex.join([Path(origin["command"][0]).name, *origin["command"][1:]])),
        "files": ", ".join(f'<a href="{name}">{name}</a>' for name in sorted(contents)),
        "figures": "\n".join(_steps_figure(name, figures) for name in figures.makers),
        "samplers": _samplers_figure(of_samplers(records), settings),
    }
    return contents | {PAGE: framed("unmask demo: what sampling in parallel costs", "page.html", parts)}


def _steps_figure(name: str, figures: Figures) -> str:
    title, subtitle = TITLES[name]
    caption = caption_of(name, figures.settings)
    live = figures.plain(name, "container")
    return figure(name, title, subtitle, caption, figures.plain(name, WIDTHS.get(name, WIDTH)), live)


def _samplers_figure(records: Sequence[Record], settings: Settings) -> str:
    title, subtitle = standing.TITLE
    drawn = standing.chart(records)
    return figure("samplers", title, subtitle, standing.caption(settings.sampler_rows), drawn, drawn)


def _made(origin: Mapping[str, Any], settings: Settings, seconds: float) -> str:
    versions = origin["versions"]
    by = f"unmask {versions['unmask']} (torch {versions['torch']}, numba {versions['numba']})"
    return text(
        f"Measured with {seconds:.0f} s of work by {by} on {origin['machine']} with seed {settings.seed} "
        f"and language seed {settings.language_seed}; the same "
        "command gives the same numbers:"
    )


def _language(name: str, story: Story) -> str:
    about = PRESETS[name].about if name in PRESETS else "a language of your own"
    own = story.own_ter(name)
    ter = f" Its own TER is {own:.4g} at {story.settings.length} tokens." if own is not None else ""
    return f"<tr><th>{text(name)}</th><td>{text(about)}.{ter}</td></tr>"
