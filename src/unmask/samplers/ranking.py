"""How sure the denoiser is of a position, and the best positions of a row, with ties that float noise does not decide.

    confidence  max_v p(v)           margin  p_(1) - p_(2)           entropy  sum_v p log p  (nats, negative)

The higher the score, the surer. `chance` scores all alike, so that only the ties decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Stream
from unmask.denoisers.canvas import by_length
from unmask.denoisers.marginals import EXACT
from unmask.samplers.contract import Choice, Law, Sampler
from unmask.samplers.view import View

TIES = ("chance", "position")
ROUND_TIES = (*TIES, "topk")  # of rules that take as many as the schedule gives
DTYPES = ("float32", "bfloat16")  # of published scores

SCORES: dict[str, Callable[[View], Tensor]] = {
    "confidence": lambda view: view.confidence,
    "margin": lambda view: view.margin,
    "entropy": lambda view: -view.entropy,
    "chance": lambda view: torch.zeros(view.hidden.shape, dtype=torch.float64),
}


def check_ranking(
    temperature: float, ties: str, noise: float = 0.0, ways: Iterable[str] = TIES, dtype: str = "float32"
) -> None:
    arguments.number("temperature", temperature)
    arguments.number("noise", noise)
    arguments.word("way to break ties", ties, ways)
    arguments.word("dtype", dtype, DTYPES)


def score_at(view: View, score: str, dtype: str) -> Tensor:
    """(B, L): a score of SCORES; in bfloat16 of probabilities that are rounded, and the entropy itself is."""
    if dtype == "float32" or score == "entropy":
        return rounded(SCORES[score](view), dtype)
    second = view.confidence - view.margin if score == "margin" else torch.zeros_like(view.confidence)
    return rounded(rounded(view.confidence, dtype) - rounded(second, dtype), dtype)


def rounded(scores: Tensor, dtype: str) -> Tensor:
    """Scores (B, L) as this dtype has them, where it is less than float32: near 1 it knows no two within 0.004."""
    return scores if dtype == "float32" else scores.to(torch.bfloat16).double()


def chosen(view: View, reveal: Tensor, temperature: float) -> Choice:
    """Reveal these, and draw what stands there at a temperature that the scores have not seen."""
    return Choice(reveal, None if temperature == 1 else view.draw(temperature))


@dataclass(frozen=True, kw_only=True)
class ChoosesFirst(Sampler):
    """Places are chosen by what is said of them, and their tokens drawn after; equal scores by chance or position."""

    temperature: float = 1.0
    ties: str = "chance"

    def __post_init__(self) -> None:
        check_ranking(self.temperature, self.ties)

    @property
    def law(self) -> Law | None:
        return "order" if self.temperature == 1 else None

    def surest(self, view: View, among: Tensor, scores: Tensor, number: Tensor | int = 1) -> Tensor:
        """Bool (B, L): of each row so many of those among which to choose, Bool (B, L), the highest scores first."""
        if not isinstance(number, Tensor) and number == 1:
            return self._highest(view, among, scores)
        return among & (in_order(view, torch.where(among, scores, -torch.inf), self.ties) < number)

    def _highest(self, view: View, among: Tensor, scores: Tensor) -> Tensor:
        """The first by `in_order`, without an order."""
        rounded = torch.where(among, torch.round(scores / view.resolution), -torch.inf)
        equal = among & (rounded == rounded.amax(1, keepdim=True))
        place = torch.arange(among.shape[1])
        first = view.luck(Stream.TIE) if self.ties == "chance" else place.double().expand(among.shape)
        return equal & (place == torch.where(equal, first, torch.inf).argmin(1, keepdim=True))

    def enough(self, view: View, among: Tensor, scores: Tensor, threshold: float) -> Tensor:
        """Bool (B, L): all of them that have at least the threshold, and of each row the highest in any case."""
        above = among & (scores >= threshold - view.resolution)
        return above | (self.surest(view, among, scores) & ~above.any(1, keepdim=True))


def surest(view: View, scores: Tensor, ties: str, noise: float = 0.0) -> Tensor:
    """Bool (B, L): of each row the hidden positions with the highest scores, as many as the schedule gives.

    With noise they are drawn without replacement from softmax(scores / noise), as Gumbel's maxima. ties="topk" leaves
    it to torch.topk of the float32 scores of a row, -inf where nothing is hidden: it takes equal ones in an order that
    is written down nowhere, and on a CPU neither the first nor the last.
    """
    if noise:
        scores = scores.double() - noise * (-view.luck(Stream.TIE).log()).log()
    if ties == "topk":
        return _by_topk(view, scores)
    return in_order(view, scores, ties) < torch.where(view.hidden, view.count.unsqueeze(1), 0)


def _by_topk(view: View, scores: Tensor) -> Tensor:
    """Bool (B, L): what torch.topk takes of each row, which ends where its own positions do."""
    scored = torch.where(view.hidden, scores.float(), -torch.inf)
    taken = torch.zeros_like(view.hidden)
    asked = torch.where(view.hidden.any(1), view.count, 0)
    for size, rows in by_length(view.canvas.lengths):
        for count in asked[rows].unique().tolist():
            these = rows[asked[rows] == count]
            found = scored[these, :size].topk(count, dim=1).indices
            taken[these.unsqueeze(1), found] = True
    return taken


def in_order(view: View, scores: Tensor, ties: str) -> Tensor:
    """(B, L): each hidden position's place in its row, 0 for the highest score; what is not hidden comes last."""
    luck = view.luck(Stream.TIE) if ties == "chance" else None
    return ranks(scores, view.hidden, luck, view.resolution)


def lowest(view: View, scores: Tensor, among: Tensor, most: Tensor, ties: str) -> Tensor:
    """Bool (B, L): of each row the places among these, Bool (B, L), with the lowest scores, at most so many (B)."""
    luck = view.luck(Stream.TIE) if ties == "chance" else None
    return among & (ranks(-scores, among, luck, view.resolution) < most.unsqueeze(1))


def arranged(view: View, values: Tensor, place: Tensor) -> Tensor:
    """(B, L) float64: the values of the hidden positions in the order of their places, then zeros."""
    out = torch.zeros(place.shape, dtype=torch.float64)
    return out.scatter_(1, place, torch.where(view.hidden, values, 0.0).double())


def ranks(scores: Tensor, hidden: Tensor, ties: Tensor | None, resolution: float = EXACT) -> Tensor:
    """(B, L): each position's place in its row's order of scores (B, L), the hidden ones first.

    Scores closer than the resolution are equal; then the lower of `ties` (B, L) comes first, or the lower position.
    Each row is ordered by itself: rows never trade positions.
    """
    rounded = torch.where(hidden, torch.round(scores.double() / resolution), -torch.inf)
    place = torch.arange(scores.shape[1]).expand(scores.shape)
    second = place if ties is None else ties
    order = torch.from_numpy(np.lexsort((second.numpy(), -rounded.numpy()), axis=1))  # half of what torch's sorts take
    return torch.empty_like(order).scatter_(1, order, place)
