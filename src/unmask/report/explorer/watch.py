"""One row of what is chosen, played: where it went wrong, and which tokens did not agree."""

from __future__ import annotations

from typing import Any

from unmask.generation import generate
from unmask.report.explorer.chosen import USUAL
from unmask.report.player import Run, assets, fragment
from unmask.report.results import Results

LENGTH, ROUNDS, ROWS = 32, 10, 6


def watch(results: Results) -> str:
    """A player of the first known language: few rounds of ancestral sampling beside AR; nothing where none is known."""
    known = ((of, results.language(of)) for of in results.choices("of"))
    name, language = next(((of, language) for of, language in known if language is not None), ("", None))
    if language is None:
        return ""
    (length, *_) = language.nearest_lengths(LENGTH)
    asked: dict[str, Any] = {"length": length, "rows": ROWS, "seed": 0}
    few = generate(language, sampler=USUAL, steps=ROUNDS, **asked)
    one = generate(language, sampler="autoregressive", steps=length, **asked)
    runs = [
        Run(f"{USUAL}, N = {ROUNDS}, {name}", few.trace(), language),
        Run("AR, one token a round", one.trace(), language),
    ]
    return f"<h2>Watch one become impossible</h2>\n{fragment(runs, 'watch')}\n{assets()}"
