"""The items of the paper by name, in its order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unmask.core.errors import unknown
from unmask.experiments.paper import figure_1, lemmas, rebuttal, reviews
from unmask.experiments.paper.figures import CACHE, LENGTH, STRATEGIES, cache, lengths, strategies
from unmask.experiments.paper.judge import Item, Size, item
from unmask.experiments.paper.models import LEFT, RIGHT, TIMING, sums, text, times
from unmask.experiments.paper.theorems import CORRECT, ENOUGH, FLUENCY, correct, enough, fluency
from unmask.experiments.recipe import Recipe, from_dict

ITEMS: dict[str, Item] = {
    one.name: one
    for one in (
        item("figure-1", "Figure 1: TER and SER by the number of steps, with AR last", figure_1.cells, figure_1.CLAIMS),
        item("length", "the dichotomy: steps for TER and for SER by length", lengths, LENGTH),
        item("figure-2-left", "Figure 2, left: open text, MDLM-OWT against GPT-2 medium", text, LEFT),
        item("figure-2-right", "Figure 2, right: reasoning, SMDM 1.1B on GSM8K", sums, RIGHT),
        item("timing", "the poster's table of times: 512 steps against AR at 512, 1024 and 2048 tokens", times, TIMING),
        item(
            "sampling-strategies", "do other orders change the conclusion? (poster, Appendix D)", strategies, STRATEGIES
        ),
        item("tables-rebuttal", "the rebuttal's tables: GSM8K, MBPP, HumanEval", rebuttal.cells, rebuttal.CLAIMS),
        item("theorem-4.2", "the number of steps for fluency does not grow with the length", fluency, FLUENCY),
        item("theorem-4.3", "enough steps make SER as low as desired", enough, ENOUGH),
        item(
            "theorem-4.4",
            "the number of steps for correctness is proportional to the length: a theorem about masks "
            "(docs/uniform.md has other noise)",
            correct,
            CORRECT,
        ),
        item(
            "lemmas",
            "every lemma of the appendix, compared with enumeration and closed forms",
            lemmas.cells,
            lemmas.CLAIMS,
        ),
        item("ddpm-cache", "Appendix D: the cached sampler, its two regimes, and the theorems", cache, CACHE),
        item("reviews", "the reviewers' questions, answered by measurement", reviews.cells, reviews.CLAIMS),
    )
}


def chosen(names: Sequence[str]) -> list[Item]:
    """The items with these names, in the order of the paper (default: all)."""
    for name in names:
        if name not in ITEMS:
            raise unknown("item", name, ITEMS)
    return [item for name, item in ITEMS.items() if not names or name in names]


def recipe(items: Iterable[Item], size: Size) -> Recipe:
    """One sweep of all cells of the items; a cell of two items is measured once."""
    parts = [part for item in items for part in item.cells(size)]
    return from_dict({"name": f"paper-{size.name}", "parts": parts})
