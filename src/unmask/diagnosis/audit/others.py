"""Faults that are only compared once samples differ: they name a difference, and add no test that could be an alarm.

other positions   the positions of a step by another rule: at random, by another score, from the left
other logits      the logits of the position beside, of the row before, or of the step before
second draw       a token is drawn again after the first draw has chosen its position
another filter    one that was not named, or the same one with another number of tokens
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.denoisers import Denoiser, as_marginals
from unmask.denoisers.reshaped import Around
from unmask.diagnosis.audit.changes import Altered, AlteredEngine
from unmask.diagnosis.audit.specimens import CUTS, Changed, Meant, Specimen, deciding, replaced_inside
from unmask.samplers.contract import Choice, Sampler, as_sampler
from unmask.samplers.rules.low_confidence import LowConfidence
from unmask.samplers.view import View

POSITIONS = {  # samplers with the same counts, in words
    "at random": "fixed-size",
    "from left to right": "left-to-right",
    "by the probability of the draw": "low-confidence",
    "by the largest probability": "top-probability",
    "by the margin": "margin",
    "by the entropy": "entropy",
}
UNNAMED: list[tuple[str, float]] = [
    ("top_p", 0.98),
    ("top_p", 0.95),
    ("top_p", 0.9),
    ("top_p", 0.8),
    ("min_p", 0.05),
    ("min_p", 0.1),
    ("top_k", 2),
    ("top_k", 3),
    ("top_k", 5),
]


@dataclass(frozen=True)
class Lowest(LowConfidence):
    """The least probable draws first."""

    def score(self, view: View, tokens: Tensor) -> Tensor:
        return -super().score(view, tokens)


@dataclass(frozen=True)
class Again(LowConfidence):
    """The tokens are drawn again, at the positions of the best first draws."""

    def choose(self, view: View) -> Choice:
        return Choice(super().choose(view).reveal, view.draw(self.temperature))


class ElsewhereEngine(AlteredEngine):
    denoiser: Elsewhere

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Tensor:
        rows = (rows - self.denoiser.above).clamp(min=0)
        positions = (positions + self.denoiser.ahead).clamp(0, self.tokens.shape[1] - 1)
        p = as_marginals(super().at(rows, positions, time)).dense().double()
        own, symbols = self.tokens[rows, positions].unsqueeze(1), torch.arange(p.shape[1])
        return torch.where(own < p.shape[1], (symbols == own).double(), p)  # a model is certain of revealed tokens


class Elsewhere(Altered):
    """The predictions of the position `ahead` of each, or of the row `above`; the last ones are their own."""

    engine_kind = ElsewhereEngine

    def __init__(self, inner: Denoiser, ahead: int = 0, above: int = 0) -> None:
        super().__init__(inner)
        self.ahead, self.above = ahead, above


class LateEngine(AlteredEngine):
    """Its own tokens are those of the step before."""

    last = (torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64))

    def __init__(self, denoiser: Around, tokens: Tensor, given: Tensor | None, valid: Tensor | None) -> None:
        super().__init__(denoiser, tokens.clone(), given, valid)
        self.now = tokens

    def renew(self, rows: Tensor, positions: Tensor) -> None:
        self.tokens[self.last] = self.now[self.last]
        super().renew(*self.last)
        self.last = (rows, positions)


class Late(Altered):
    """Predictions that do not know the tokens of the last step."""

    engine_kind = LateEngine


def others(meant: Meant) -> Iterator[Specimen]:
    """The specimens that only name a difference."""
    sampler, decides = meant.sampler, deciding(meant.sampler)
    yield from other_filters(meant)
    if decides.implements("run") or sampler.removes == "uniform":
        return

    beside = "of the position beside"  # statistics of tokens hardly tell the two sides apart
    for detail, denoiser in (
        (beside, Elsewhere(meant.denoiser, ahead=-1)),
        (beside, Elsewhere(meant.denoiser, ahead=1)),
        ("of another row", Elsewhere(meant.denoiser, above=1)),
        ("one step old", Late(meant.denoiser)),
    ):
        yield Specimen("other logits", Changed(sampler, denoiser=denoiser), detail)

    if decides.pace != "counts" or decides.draws_steps:
        return

    rules: dict[str, Sampler] = {detail: as_sampler(name) for detail, name in POSITIONS.items()}
    rules["by the lowest probability"] = Lowest()
    for detail, rule in rules.items():
        alone = sampler is decides or rule.implements("choose")  # `dream` has counts for choices alone
        if alone and type(rule) is not type(decides):
            yield Specimen("other positions", replaced_inside(sampler, rule), detail)

    if isinstance(decides, LowConfidence):
        yield Specimen("second draw", replaced_inside(sampler, Again(decides.temperature)), "of the chosen positions")


def other_filters(meant: Meant) -> Iterator[Specimen]:
    """The filters with another rule or number; without any, common ones that were not named."""
    filters = dict(meant.filters)
    changed = UNNAMED
    if "top_k" in filters:
        changed = [("top_k", k) for k in (filters["top_k"] - 1, filters["top_k"] + 1) if k]
    elif not filters.keys().isdisjoint(CUTS):
        changed = []

    if "top_p" in filters:
        dropped = {{"top_p": "nucleus"}.get(name, name): value for name, value in filters.items()}
        detail = "top-p drops the token that crosses p"
        yield Specimen("another filter", meant.with_filters(dropped), detail)
    for name, value in changed:
        yield Specimen("another filter", meant.with_filters(filters | {name: value}), f"{name} of {value}")
