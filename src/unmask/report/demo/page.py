"""The demo's page: one HTML file that asks nobody for anything, with the figures and the numbers as files beside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from unmask.experiments.jobs.run import Sweep
from unmask.languages import PRESETS
from unmask.report import frame, whole
from unmask.report.demo.recipe import first, recipe
from unmask.report.demo.settings import Settings
from unmask.report.demo.story import Story
from unmask.report.frame import PAGE as FILE
from unmask.report.frame import text
from unmask.report.publishing import Made, Page
from unmask.report.results import read

TITLE = "Masked diffusion with a perfect network: fluent after a few dozen steps, correct after many more"
OVERVIEW = ("ter-by-language", "ser-by-language")
TO_COME = "The rest is being measured: this page is completed in place, so look again soon."


def measured(sweep: Sweep, settings: Settings) -> Story:
    """All points of its store; fails where a cell has failed."""
    return Story(read([sweep.whole().directory]), settings)


def contents(story: Story, settings: Settings, about: Made) -> dict[str, bytes]:
    """All files by name."""
    drawn = frame.drawings(about.explorer.drawings())
    found = drawn | frame.beside(
        "overview", [drawn[f"{name}.svg"] for name in OVERVIEW if f"{name}.svg" in drawn], TITLE
    )
    origin = {"origin": about.origin, "seconds": about.seconds, "settings": asdict(settings)}
    found |= frame.numbers("data", whole.records(story.results), **origin)
    found[FILE] = _page(story, settings, about, found)
    return found


def early(settings: Settings, about: Made) -> dict[str, bytes]:
    """The page alone, of the first cells."""
    about.explorer.results.missing[:] = [TO_COME]
    return {FILE: _page(None, settings, about, ())}


def _page(story: Story | None, settings: Settings, about: Made, beside: Iterable[str]) -> bytes:
    """story: what the whole comes to, if it is there."""
    return frame.page(
        "unmask demo: what sampling in parallel costs",
        "demo.html",
        about.origin,
        beside,
        () if story is None else story.sentences(),
        () if story is None else story.tables(),
        languages="\n".join(_language(name, story) for name in settings.shown),
        missing=whole.missing(about.explorer.results),
        made=_made(settings, about),
        **about.explorer.parts(),
    )


def _made(settings: Settings, about: Made) -> str:
    versions = about.origin["versions"]
    by = f"unmask {versions['unmask']} (torch {versions['torch']}, numba {versions['numba']})"
    return text(
        f"Measured with {about.seconds:.0f} s of work by {by} on {about.origin['machine']} with seed {settings.seed} "
        f"and language seed {settings.language_seed}; the same "
        "command gives the same numbers:"
    )


def _language(name: str, story: Story | None) -> str:
    about = PRESETS.entry(name).about if name in PRESETS.makers else "a language of your own"
    own = None if story is None else story.own_ter(name)
    ter = f" Its own TER is {own:.4g} at {story.settings.length} tokens." if story and own is not None else ""
    return f"<tr><th>{text(name)}</th><td>{text(about)}.{ter}</td></tr>"


PAGE: Page[Settings, Story] = Page(FILE, recipe, measured, contents, first, early)
