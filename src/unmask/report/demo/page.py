"""The demo's page: one HTML file that asks nobody for anything, with the figures and the numbers as files beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import altair as alt

from unmask.core.errors import UnmaskError
from unmask.experiments.jobs.recipe import Recipe, from_dict
from unmask.experiments.jobs.run import Sweep
from unmask.experiments.measures.sources import ground_truth
from unmask.languages import PRESETS
from unmask.report import frame
from unmask.report.demo.charts import Charts
from unmask.report.demo.figures import OVERVIEW, Figure, figures, of_ancestral, record
from unmask.report.demo.settings import Settings
from unmask.report.demo.story import Story
from unmask.report.frame import PAGE as FILE
from unmask.report.frame import text
from unmask.report.publishing import Page

TITLE = "Masked diffusion with a perfect network: fluent after a few dozen steps, correct after many more"
OVERVIEW_WIDTH = 440


def recipe(settings: Settings) -> Recipe:
    """What its figures need of a sweep; fails where a language is none that they can show."""
    s = settings
    for name in dict.fromkeys((*s.shown, *s.sampler_languages)):
        if ground_truth(name, s.language_seed).end is not None:
            what = "its sequences vary in length, and the demo compares fixed lengths"
            raise UnmaskError(f"cannot show {name}: {what}; name another language")
    parts: list[dict[str, Any]] = []
    for figure in figures(s):
        parts += [part for part in figure.parts(s) if part and part not in parts]
    seeds = {"language_seed": s.language_seed, "seed": s.seed}  # of those that do not have their own
    own = [part if "seed" in part.get("zip", {}) else part | {"fixed": part.get("fixed", {}) | seeds} for part in parts]
    return from_dict({"name": "demo", "parts": own})


def measured(sweep: Sweep, settings: Settings) -> Story:
    """A record is one number: what was measured (`measure`) of what, and the Estimate's fields.

    `ter` is exact, `ter_upper` its bound (theory.md 7.2); `_ratio` means relative to TER(q), the language's own.
    `steps` is the number of rounds N, None where there are none (AR) or where they are the answer; `pruned` is False
    for languages that can say everything.
    """
    rows = of_ancestral(sweep.whole())
    drawn = figures(settings)
    shown = frozenset[str]().union(*(figure.shows for figure in drawn))
    records = [record(row) for row in rows if row["pruned"] and row["measure"] in shown]
    return Story([*records, *(more for figure in drawn for more in figure.records(sweep))], settings)


def contents(story: Story, settings: Settings, origin: Mapping[str, Any], seconds: float) -> dict[str, bytes]:
    """All files by name."""
    charts, drawn = Charts(story.records, settings), figures(settings)
    defined = {figure: frame.themed(figure.draw(charts, figure.width)) for figure in drawn}
    alone = {figure.name: frame.alone(definition, _heading(figure)) for figure, definition in defined.items()}
    found = frame.drawings(alone | {"overview": _overview(charts)})
    found |= frame.numbers("data", story.records, origin=origin, seconds=seconds, settings=asdict(settings))
    sections: dict[str, list[str]] = {}
    for figure, definition in defined.items():
        live = definition | {"width": "container"} if figure.fluid else definition
        words = figure.name, figure.title, figure.subtitle, figure.caption(settings)
        sections.setdefault(figure.section, []).append(frame.figure(*words, definition, live))
    found[FILE] = frame.page(
        "unmask demo: what sampling in parallel costs",
        "demo.html",
        story.sentences(),
        story.tables(),
        origin,
        found,
        languages="\n".join(_language(name, story) for name in settings.shown),
        made=_made(origin, settings, seconds),
        **{name: "\n".join(items) for name, items in sections.items()},
    )
    return found


def _heading(figure: Figure) -> Any:
    return frame.heading(figure.title, figure.subtitle, **figure.heading)


def _overview(charts: Charts) -> Any:
    """Fluency and correctness side by side: the picture for a README."""
    parts = [figure.draw(charts, OVERVIEW_WIDTH).properties(title=_heading(figure)) for figure in OVERVIEW]
    both = alt.hconcat(*parts, spacing=40).resolve_legend(color="independent", shape="independent")
    return frame.alone(frame.themed(both), frame.heading(TITLE, fontSize=18, offset=20))


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


PAGE: Page[Settings, Story] = Page(FILE, recipe, measured, contents)
