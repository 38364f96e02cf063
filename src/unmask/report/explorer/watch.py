"""One sequence of the results, played next to AR: the tokens that contradict each other."""

from __future__ import annotations

from typing import Any

from unmask.core.errors import UnmaskError
from unmask.generation import generate
from unmask.languages import Language
from unmask.report.explorer.chosen import USUAL, State, usable
from unmask.report.frame import text
from unmask.report.player import Run, assets, fragment
from unmask.report.results import IDEAL, Point, Results

ROWS, LONGEST, MOST = 6, 128, 64  # sequences; tokens and steps of a player that can be followed
LENGTH, STEPS, SEED = 32, 10, 0  # of an example


def watch(results: Results, state: State) -> str:
    """A player of a measured setting of a known language; an example that says so, where none is short enough."""
    for point in _settings(results, state):
        language = results.language(point["of"])
        if language is not None and (found := _played(language, point, f"A setting of this page: {point['of']}")):
            return found
    for of in results.choices("of"):
        if (language := results.language(of)) is not None:
            (length, *_) = language.nearest_lengths(LENGTH)
            example = {"sampler": USUAL, "steps": STEPS, "length": length}
            return _played(language, example, f"An example, not a setting of this page: {of}")
    return ""


def _settings(results: Results, state: State) -> list[Point]:
    """Measured settings that fail at times, those of the first state first; short ones before long ones."""
    found = [
        p
        for p in results.of("ser")
        if (p["kind"], p["model"], p["knob"]) == ("mdm", IDEAL, None)
        and p["steps"]
        and p["steps"] <= MOST
        and (p["length"] or LONGEST + 1) <= LONGEST
        and p["value"] > 0.0
        and usable(p["sampler"])
    ]
    chosen = ("of", "sampler", "length")
    return sorted(found, key=lambda p: (*(p[name] != state[name] for name in chosen), abs(p["value"] - 0.5)))


def _played(language: Language, setting: Point, title: str) -> str:
    """Empty where the sampler cannot be made again."""
    asked: dict[str, Any] = {"length": setting["length"], "rows": ROWS, "seed": SEED}
    try:
        few = generate(language, sampler=setting["sampler"], steps=setting["steps"], **asked)
        one = generate(language, sampler="autoregressive", steps=setting["length"], **asked)
    except UnmaskError:
        return ""
    runs = [
        Run(f"{setting['sampler']}, {setting['steps']} steps", few.trace(), language),
        Run(f"AR, {setting['length']} steps", one.trace(), language),
    ]
    about = f"{title}, {setting['length']} tokens, {setting['sampler']}, {setting['steps']} steps."
    return f"<h2>Watch one sequence</h2>\n<p class='note'>{text(about)}</p>\n{fragment(runs, 'watch')}\n{assets()}"
