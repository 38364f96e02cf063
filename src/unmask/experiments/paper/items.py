"""The items of the paper by name, in its order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unmask.core.errors import unknown
from unmask.experiments.paper import figure_1, figures, lemmas, models, rebuttal, reviews, theorems
from unmask.experiments.paper.judge import Item, Size
from unmask.experiments.sweeps.recipe import Recipe, from_dict

ITEMS: dict[str, Item] = {
    item.name: item
    for item in (
        figure_1.FIGURE_1,
        figures.LENGTH,
        models.LEFT,
        models.RIGHT,
        models.TIMING,
        figures.STRATEGIES,
        rebuttal.ITEM,
        theorems.FLUENCY,
        theorems.ENOUGH,
        theorems.CORRECT,
        lemmas.ITEM,
        figures.CACHE,
        reviews.ITEM,
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
