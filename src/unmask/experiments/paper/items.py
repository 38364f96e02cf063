"""The items of the paper by name, in its order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unmask.core.errors import unknown
from unmask.experiments.jobs.recipe import Recipe, from_dict
from unmask.experiments.paper import (
    cache,
    figure_1,
    figure_2,
    lemmas,
    length,
    reviews,
    strategies,
    tables,
    theorems,
    timing,
)
from unmask.experiments.paper.claims import Claim, Finding, Item, Seen, Size

ITEMS: dict[str, Item] = {
    item.name: item
    for item in (
        figure_1.ITEM,
        length.ITEM,
        *figure_2.ITEMS,
        timing.ITEM,
        strategies.ITEM,
        tables.ITEM,
        *theorems.ITEMS,
        lemmas.ITEM,
        cache.ITEM,
        reviews.ITEM,
    )
}


def chosen(names: Sequence[str]) -> list[Item]:
    """The items of these names, in the order of the paper; all where none is named."""
    for name in names:
        if name not in ITEMS:
            raise unknown("item", name, ITEMS)
    return [item for name, item in ITEMS.items() if not names or name in names]


def recipe(items: Iterable[Item], size: Size) -> Recipe:
    """One sweep of all of their cells; what two items need is measured once."""
    parts = [part for item in items for part in item.cells(size)]
    return from_dict({"name": f"paper-{size.name}", "parts": parts})


def findings(items: Iterable[Item], seen: Seen) -> list[tuple[Claim, Finding]]:
    """Each claim with what the records say of it."""
    return [(claim, claim.finding(seen)) for item in items for claim in item.claims.values()]
