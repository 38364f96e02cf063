"""The dichotomy: how many rounds TER and SER take, by the length."""

from __future__ import annotations

from typing import Any

from unmask.core.estimates import Estimate
from unmask.experiments.paper.claims import (
    Absent,
    Finding,
    Item,
    Seen,
    Size,
    all_of,
    at_most,
    judged,
    part,
)

LENGTHS = (130, 260, 510, 1025, 2050)  # the last of them for the full size alone


def _lengths(size: Size) -> list[dict[str, Any]]:
    both = {"language": ["paper-2gram", "interval-5"], "length": LENGTHS if size.full else LENGTHS[:-1]}
    return [
        part("steps_for_ter", rows=100 if size.full else 40, **both),
        part("steps_for_ser", rows=500 if size.full else 200, **both),
    ]


ITEM = Item("length", "the dichotomy: rounds for TER and for SER, by the length", _lengths)


def _by_length(seen: Seen, measure: str) -> dict[str, dict[int, Estimate]]:
    found = {
        name: {n: e for n, e in seen.by("length", measure, language=name).items() if n in LENGTHS}
        for name in ("paper-2gram", "interval-5")
    }
    if min(map(len, found.values())) < 2:
        raise Absent(f"{measure} at several lengths")
    return found


@ITEM.claim(
    "ter",
    "Theorem 4.2; poster, experiments",
    "The rounds at which TER saturates are the same at every length.",
    "unmask sweep run recipes/lengths.yaml --store lengths",
)
def ter_by_length(seen: Seen) -> Finding:
    found = _by_length(seen, "steps_for_ter")
    ours = [(f"N for a TER within 1%, {q}, L = {n}", e) for q, by in found.items() for n, e in by.items()]
    tests = [max(e.low for e in by.values()) <= 1.1 * min(e.high for e in by.values()) for by in found.values()]
    return judged(
        all(tests), ours, "The same number, to a tenth, over an eightfold length.", "It grows with the length."
    )


@ITEM.claim(
    "saturates",
    "Poster, experiments",
    "TER saturates at about 512 steps.",
    "unmask plan --language paper-2gram --length 510 --target 0.1",
    "about 512 steps",
)
def saturates(seen: Seen) -> Finding:
    needed = _by_length(seen, "steps_for_ter")
    ours = [(f"N for a TER within 1%, {q}, L = {n}", e) for q, by in needed.items() for n, e in by.items()]
    test = all_of(*(at_most(e, 512) for by in needed.values() for e in by.values()))
    return judged(test, ours, "To within 1% it is there well before.", "It is not there yet at 512 rounds.")


@ITEM.claim(
    "ser",
    "Theorem 4.4; poster, experiments",
    "The rounds for a given SER grow with the length.",
    "unmask sweep run recipes/lengths.yaml --store lengths",
)
def ser_by_length(seen: Seen) -> Finding:
    found = _by_length(seen, "steps_for_ser")
    ours, tests = [], []
    for q, by in found.items():
        ours += [(f"N for an SER of 1/2, {q}, L = {n}", e) for n, e in by.items()]
        (short, first), *_, (long, last) = by.items()
        growth = (last.low / first.high, last.high / first.low)
        lengths = long / short
        tests.append(True if growth[0] >= 0.6 * lengths else False if growth[1] < 0.6 * lengths else None)
    return judged(all_of(*tests), ours, "In proportion to it.", "More slowly than in proportion.")
