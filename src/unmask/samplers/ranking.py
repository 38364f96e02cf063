"""Confidence scores of positions, and the best positions of a row; float noise does not decide ties.

    confidence  max_v p(v)           margin  p_(1) - p_(2)           entropy  sum_v p log p  (nats, negative)

A higher score means more certain. `chance` gives equal scores, so that only the ties decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Stream
from unmask.denoisers.canvas import by_length
from unmask.denoisers.marginals import EXACT
from unmask.samplers.contract import Choice, Distribution, Sampler
from unmask.samplers.view import View

TIES = ("chance", "position")
ROUND_TIES = (*TIES, "topk")  # for rules that follow the schedule's counts
DTYPES = ("float32", "bfloat16")  # of published scores

SCORES: dict[str, Callable[[View], Tensor]] = {
    "confidence": lambda view: view.confidence,
    "margin": lambda view: view.margin,
    "entropy": lambda view: -view.entropy,
    "chance": lambda view: torch.zeros(view.hidden.shape, dtype=torch.float64),
}
Temperature = Annotated[float, arguments.number]
Ties = Annotated[str, lambda _, ties: arguments.word("way to break ties", ties, TIES)]


def check_ranking(
    temperature: float, ties: str, noise: float = 0.0, ways: Iterable[str] = TIES, dtype: str = "float32"
) -> None:
    arguments.number("temperature", temperature)
    arguments.number("noise", noise)
    arguments.word("way to break ties", ties, ways)
    arguments.word("dtype", dtype, DTYPES)


def score_at(view: View, score: str, dtype: str) -> Tensor:
    """(B, L): a score of SCORES; bfloat16 rounding of the probabilities first, or the entropy itself."""
    if dtype == "float32" or score == "entropy":
        return rounded(SCORES[score](view), dtype)
    second = torch.zeros_like(view.confidence)
    if score == "margin":
        second = view.confidence - view.margin
    return rounded(rounded(view.confidence, dtype) - rounded(second, dtype), dtype)


def rounded(scores: Tensor, dtype: str) -> Tensor:
    """Scores (B, L) rounded to this dtype, if it is less than float32; bfloat16 has a spacing of 0.004 near 1."""
    return scores if dtype == "float32" else scores.to(torch.bfloat16).double()


def above(view: View, values: Tensor, bound: Tensor | float) -> Tensor:
    """Bool: values > bound; equal numbers are not above, so that float noise decides no tie."""
    return values > bound + view.resolution


def at_least(view: View, values: Tensor, bound: Tensor | float) -> Tensor:
    """Bool: values >= bound, also of numbers that are equal but for float noise."""
    return values >= bound - view.resolution


def chosen(view: View, reveal: Tensor, temperature: float) -> Choice:
    """Reveal these positions, with tokens drawn at a temperature that the scores do not use."""
    return Choice(reveal, None if temperature == 1 else view.draw(temperature))


class DrawsAfter(Sampler):
    """Samplers that choose positions by marginals, then draw tokens; at temperature 1 the claim is "order"."""

    temperature: float

    @property
    def chooses_before_drawing(self) -> bool:
        return True

    @property
    def distribution(self) -> Distribution | None:
        return "order" if self.temperature == 1 else None


@dataclass(frozen=True, kw_only=True)
class ChoosesFirst(DrawsAfter):
    """`DrawsAfter` with its two options; ties go by chance or by position."""

    temperature: Temperature = 1.0
    ties: Ties = "chance"

    def surest(self, view: View, among: Tensor, scores: Tensor, number: Tensor | int = 1) -> Tensor:
        """Bool (B, L): the `number` highest scores of each row among these positions, Bool (B, L)."""
        if not isinstance(number, Tensor) and number == 1:
            return self._highest(view, among, scores)
        return among & (in_order(view, torch.where(among, scores, -torch.inf), self.ties) < number)

    def _highest(self, view: View, among: Tensor, scores: Tensor) -> Tensor:
        """Bool (B, L): the first by `in_order`, without sorting."""
        rounded = torch.where(among, torch.round(scores / view.resolution), -torch.inf)
        equal = among & (rounded == rounded.amax(1, keepdim=True))
        place = torch.arange(among.shape[1])
        first = view.rng(Stream.TIE) if self.ties == "chance" else place.double().expand(among.shape)
        return equal & (place == torch.where(equal, first, torch.inf).argmin(1, keepdim=True))

    def enough(self, view: View, among: Tensor, scores: Tensor, threshold: float) -> Tensor:
        """Bool (B, L): all positions with at least the threshold, and the highest score of each row in any case."""
        passes = among & at_least(view, scores, threshold)
        return passes | (self.surest(view, among, scores) & ~passes.any(1, keepdim=True))


def surest(view: View, scores: Tensor, ties: str, noise: float = 0.0) -> Tensor:
    """Bool (B, L): the hidden positions with the highest scores of each row, as many as the schedule gives.

    With noise they are drawn without replacement from softmax(scores / noise), by Gumbel maxima. ties="topk" applies
    torch.topk to the float32 scores of a row, -inf where nothing is hidden: its order of equal scores is undocumented,
    and on a CPU it takes neither the first nor the last.
    """
    if noise:
        scores = scores.double() - noise * (-view.rng(Stream.TIE).log()).log()
    if ties == "topk":
        return _by_topk(view, scores)
    return in_order(view, scores, ties) < torch.where(view.hidden, view.count.unsqueeze(1), 0)


def _by_topk(view: View, scores: Tensor) -> Tensor:
    """Bool (B, L): the result of torch.topk for each row, up to the row's own length."""
    scored = torch.where(view.hidden, scores.float(), -torch.inf)
    chosen = torch.zeros_like(view.hidden)
    counts = torch.where(view.hidden.any(1), view.count, 0)
    for size, rows in by_length(view.canvas.lengths):
        for count in counts[rows].unique().tolist():
            these = rows[counts[rows] == count]
            chosen[these.unsqueeze(1), scored[these, :size].topk(count, dim=1).indices] = True
    return chosen


def in_order(view: View, scores: Tensor, ties: str) -> Tensor:
    """(B, L): the rank of each hidden position in its row, 0 for the highest score; other positions come last."""
    return _ranked(view, scores, view.hidden, ties)


def lowest(view: View, scores: Tensor, among: Tensor, most: Tensor, ties: str) -> Tensor:
    """Bool (B, L): the lowest scores of each row among these positions, Bool (B, L), at most `most` (B)."""
    return among & (_ranked(view, -scores, among, ties) < most.unsqueeze(1))


def _ranked(view: View, scores: Tensor, among: Tensor, ties: str) -> Tensor:
    rng = view.rng(Stream.TIE) if ties == "chance" else None
    return ranks(scores, among, rng, view.resolution)


def arranged(view: View, values: Tensor, place: Tensor) -> Tensor:
    """(B, L) float64: the values of the hidden positions in the order of their ranks, then zeros."""
    out = torch.zeros(place.shape, dtype=torch.float64)
    return out.scatter_(1, place, torch.where(view.hidden, values, 0.0).double())


def ranks(scores: Tensor, hidden: Tensor, ties: Tensor | None, resolution: float = EXACT) -> Tensor:
    """(B, L): the rank of each position in its row by scores (B, L), hidden positions first.

    Scores closer than the resolution are equal; then the lower of `ties` (B, L) comes first, or the lower position.
    """
    rounded = torch.where(hidden, torch.round(scores.double() / resolution), -torch.inf)
    place = torch.arange(scores.shape[1]).expand(scores.shape)
    if ties is None:
        ties = place
    order = torch.from_numpy(np.lexsort((ties.numpy(), -rounded.numpy()), axis=1))  # twice as fast as torch's sorts
    return torch.empty_like(order).scatter_(1, order, place)
