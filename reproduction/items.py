"""The items of the paper by name, in its order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches

from reproduction import figure_1, lemmas, rebuttal, reviews
from reproduction.figures import CACHE, LENGTH, STRATEGIES, cache, lengths, strategies
from reproduction.judge import Item, item
from reproduction.models import LEFT, RIGHT, TIMING, sums, text, times
from reproduction.theorems import CORRECT, ENOUGH, FLUENCY, correct, enough, fluency
from unmask import UnmaskError

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


def chosen(names: Sequence[str]) -> dict[str, Item]:
    """The items with these names, in the order of the paper (default: all); a claim's name keeps that claim alone."""
    known = [*ITEMS, *(name for own in ITEMS.values() for name in own.claims)]
    for name in names:
        if name not in known:
            near = ", ".join(get_close_matches(name, known)) or ", ".join(ITEMS)
            raise UnmaskError(f"there is no item or claim {name!r}. Expected a name of `list`. Did you mean: {near}?")
    items = {}
    for own in ITEMS.values():
        claims = {name: claim for name, claim in own.claims.items() if not names or {own.name, name} & {*names}}
        if claims:
            items[own.name] = replace(own, claims=claims)
    return items
