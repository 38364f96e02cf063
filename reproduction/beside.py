"""The numbers that the paper and its poster print, each beside ours: our value, the ratio, and why they differ.

The rows are computed from the records of the claims. reproduction/README.md and the page of the demo have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from reproduction.figure_1 import CLOCK, FLUENT, gain, perplexity
from reproduction.models import LENGTHS, POSTER, STEPS
from reproduction.records import Measured, Records

GPU = "another GPU, and a product of valid steps and measured times"
HEAD = ("quantity", "the paper", "ours", "ratio", "why")


class Beside(NamedTuple):
    quantity: str
    theirs: float
    ours: float
    why: str

    @property
    def cells(self) -> tuple[str, ...]:
        return self.quantity, f"{self.theirs:.3g}", f"{self.ours:.3g}", f"{self.ours / self.theirs:.2f}", self.why


def rows(sources: Sequence[Measured]) -> list[Beside]:
    """The rows of Figure 1, then those of the poster's times. sources: on two cores, then on a GPU."""
    exact, timed = (Records(source.records) for source in sources)
    return [*_figure_1(exact, timed), *_poster(timed)]


def _figure_1(exact: Records, timed: Records) -> list[Beside]:
    sampled = [
        Beside(
            f"perplexity over AR, N = 64, {language}",
            1.0,
            perplexity(exact, {"language": language, "sampler": "ancestral", "steps": 64}).value,
            "the paper calls it similar, by a curve; our denoiser is exact, so only sampling errs",
        )
        for language in FLUENT
    ]
    cached = exact.one("valid_steps", length=512, steps=2048, batch=1).value
    fluent = exact.one("steps_for_ter", language="paper-2gram", length=510, excess=0.01).value
    return [
        *sampled,
        Beside("speed-up of 64 steps over AR, batch 16", 1.57, gain(timed, CLOCK), GPU),
        Beside("steps until TER is saturated", 512, fluent, "1% above that of the language; the poster has no limit"),
        Beside("speed-up by the cache", 3.5, 2048 / cached, "3 to 4 in the paper, without an N; here N = 4 L"),
    ]


def _poster(timed: Records) -> list[Beside]:
    table = []
    for length in LENGTHS:
        mdm, ar = POSTER[length]
        at = {"job": "clock", "batch": 1, "length": length}
        call, token = (timed.one("milliseconds", kind=kind, **at).value / 1000 for kind in ("mdm", "ar"))
        own = timed.one("valid_steps", length=length, **STEPS).value * call, length * token
        table += [
            Beside(f"seconds of 512 steps, {length} tokens", mdm, own[0], GPU),
            Beside(f"seconds of AR, {length} tokens", ar, own[1], "another GPU; time a token x tokens"),
            Beside(f"512 steps over AR, {length} tokens", mdm / ar, own[0] / own[1], _winner(mdm / ar, own, length)),
        ]
    return table


def _winner(theirs: float, own: tuple[float, float], length: int) -> str:
    """Whether both name the same winner, and how much faster each of the two is here."""
    same = (theirs < 1) == (own[0] < own[1])
    winner = "MDM is faster in both" if same else "AR is faster on the poster, MDM here"
    step, token = (ours / poster for ours, poster in zip(own, POSTER[length], strict=True))
    return f"{winner}; ours takes {step:.2f} of the time a step, {token:.2f} a token"


def markdown(every: Sequence[Beside]) -> list[str]:
    """The rows as a table of reproduction/README.md."""
    lines = [f"| {' | '.join(HEAD)} |", "|---|---|---|---|---|"]
    return [*lines, *(f"| {' | '.join(one.cells)} |" for one in every)]


def html(every: Sequence[Beside]) -> str:
    """The rows as those of a table on a page."""

    def row(first: str, *others: str) -> str:
        return f"<tr><th>{escape(first)}</th>{''.join(f'<td>{escape(one)}</td>' for one in others)}</tr>"

    return "\n".join([row(*HEAD), *(row(*one.cells) for one in every)])
