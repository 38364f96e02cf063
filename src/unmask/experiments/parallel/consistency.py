"""A test that needs no reference: with one model call for the whole canvas, all samplers must write the same tokens.

At temperature 0, a sampler that fills the canvas in one model call writes the most likely token at each position,
whatever its rule. Two such outcomes of one model on one item have the same score. If they differ, then the temperature,
the prompt, the items or the count of model calls does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from unmask.experiments.parallel.points import Outcome, Setting


class Broken(NamedTuple):
    """A cell with outcomes unlike those of most samplers on the same items."""

    source: str
    model: str
    sampler: str
    setting: str
    task: str
    items: int  # unlike most
    of: int  # items with one model call, also of other samplers


def broken(settings: Iterable[Setting]) -> list[Broken]:
    """The cells that break the test. Of two equally frequent scores, that of the first sampler is right."""
    at_once: dict[tuple[str, str, str, str], list[Outcome]] = {}
    for setting in settings:
        for task, own in setting.tasks.items():
            for one in own:
                if one.forwards == 1:
                    at_once.setdefault((one.source, one.model, task, one.item), []).append(one)
    tested: Counter[tuple[str, str, str, str, str]] = Counter()
    unlike: Counter[tuple[str, str, str, str, str]] = Counter()
    for (_, _, task, _), same in at_once.items():
        usual = Counter(one.score for one in same).most_common(1)[0][0]
        tested.update((*one.place, task) for one in same if len(same) > 1)
        unlike.update((*one.place, task) for one in same if one.score != usual)
    return [Broken(*cell, unlike[cell], tested[cell]) for cell in sorted(unlike)]
