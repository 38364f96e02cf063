"""How sure the denoiser is of a position, and the best positions of a row, with ties that float noise does not decide.

    confidence  max_v p(v)           margin  p_(1) - p_(2)           entropy  sum_v p log p  (nats, negative)

The higher the score, the surer. `chance` scores all alike, so that only the ties decide.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from unmask.chance import Stream
from unmask.denoisers import heated
from unmask.samplers import checks
from unmask.samplers.contract import Choice, View

RESOLUTION = 1e-9
TIES = ("chance", "position")


def confidence(probabilities: Tensor) -> Tensor:
    return probabilities.amax(-1)


def margin(probabilities: Tensor) -> Tensor:
    first, second = probabilities.topk(2, dim=-1).values.unbind(-1)
    return first - second


def entropy(probabilities: Tensor) -> Tensor:
    """H in nats, 0 or more."""
    return -torch.xlogy(probabilities, probabilities).sum(-1)


SCORES: dict[str, Callable[[Tensor], Tensor]] = {
    "confidence": confidence,
    "margin": margin,
    "entropy": lambda probabilities: -entropy(probabilities),
    "chance": lambda probabilities: torch.zeros_like(probabilities[..., 0]),
}


def check_ranking(temperature: float, ties: str, noise: float = 0.0) -> None:
    checks.number("temperature", temperature)
    checks.number("noise", noise)
    checks.one_of("way to break ties", ties, TIES)


def chosen(view: View, reveal: Tensor, temperature: float) -> Choice:
    """Reveal these, and draw what stands there at a temperature that the scores have not seen."""
    return Choice(reveal, None if temperature == 1 else view.draw(heated(view.probabilities, temperature)))


def surest(view: View, scores: Tensor, ties: str, noise: float = 0.0) -> Tensor:
    """Bool (B, W): of each row the hidden positions with the highest scores, as many as the schedule gives.

    With noise they are drawn without replacement from softmax(scores / noise), as Gumbel's maxima.
    """
    if noise:
        scores = scores.double() - noise * (-view.luck(Stream.TIE).log()).log()
    return best(scores, view.hidden, view.count, _ties(view, ties))


def in_order(view: View, scores: Tensor, ties: str) -> Tensor:
    """(B, W): each hidden position's place in its row, 0 for the highest score; what is not hidden comes last."""
    return ranks(scores, view.hidden, _ties(view, ties))


def arranged(view: View, values: Tensor, place: Tensor) -> Tensor:
    """(B, W) float64: the values of the hidden positions in the order of their places, then zeros."""
    out = torch.zeros(place.shape, dtype=torch.float64)
    return out.scatter_(1, place, torch.where(view.hidden, values, 0.0).double())


def best(scores: Tensor, hidden: Tensor, count: Tensor, ties: Tensor | None) -> Tensor:
    """Bool (B, W): the count (B) hidden positions of each row with the highest scores (B, W)."""
    return hidden & (ranks(scores, hidden, ties) < count.unsqueeze(1))


def ranks(scores: Tensor, hidden: Tensor, ties: Tensor | None) -> Tensor:
    """(B, W): each position's place in its row's order of scores (B, W), the hidden ones first.

    Scores closer than the resolution are equal; then the lower of `ties` (B, W) comes first, or the lower position.
    Each row is ordered by itself: rows never trade positions.
    """
    rounded = torch.where(hidden, torch.round(scores.double() / RESOLUTION), -torch.inf)
    first = torch.arange(scores.shape[1]).expand(scores.shape) if ties is None else ties.argsort(dim=1)
    second = rounded.gather(1, first).argsort(dim=1, descending=True, stable=True)
    return first.gather(1, second).argsort(dim=1)


def _ties(view: View, ties: str) -> Tensor | None:
    return view.luck(Stream.TIE) if ties == "chance" else None
