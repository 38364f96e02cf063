"""The most positions that an entropy budget allows: one rule with two ways to sum entropies (theory.md 10).

Take the hidden positions one after another, by a proxy of their error, and reveal them as long as the estimate is at
most a budget in nats; H_1, H_2, .. are their entropies given the tokens of earlier steps.

    entropy-bounded  sum_{i <= n} H_i - max_{i <= n} H_i <= gamma     EB (arXiv 2505.24857); most confident first
    entropy-sum      sum_{i < n} H_i <= threshold                     Cai and Li, arXiv 2603.22248; in random order

One position always satisfies both. For the ideal denoiser TC(X_U | x_R) <= sum H - max H, so the error of EB is at most
gamma per step, and that of the sum at most the threshold. The sum needs about H(X) / threshold steps, fewer if the
language has dependence. If positions are sorted by entropy, the largest is the last, and the two rules are equal.
gamma = 0 reveals certain positions and one more. The order in which the sum takes positions is our choice. Steps and
schedule are not used.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.samplers.contract import SAMPLERS, Choice
from unmask.samplers.ranking import SCORES, DrawsAfter, arranged, check_ranking, chosen, in_order
from unmask.samplers.view import View


def but_the_largest(entropies: Tensor) -> Tensor:
    """(B, n): the sum of the first n entropies (B, L), without the largest."""
    return entropies.cumsum(1) - entropies.cummax(1).values


def before_the_last(entropies: Tensor) -> Tensor:
    """(B, n): the sum of the first n - 1 entropies (B, L)."""
    return torch.nn.functional.pad(entropies.cumsum(1)[:, :-1], (1, 0))


def affordable(view: View, proxy: str, ties: str, reckon: Callable[[Tensor], Tensor], budget: float) -> Tensor:
    """Bool (B, L): the hidden positions that the budget allows, in the order of the proxy."""
    place = in_order(view, SCORES[proxy](view), ties)
    error = reckon(arranged(view, view.entropy, place))
    return view.hidden & (error.gather(1, place) <= budget + view.resolution)


@SAMPLERS.register("entropy-bounded")
@dataclass(frozen=True)
class EntropyBounded(DrawsAfter):
    """EB: the most positions whose entropies, except the largest, sum to at most gamma nats; steps are not used."""

    pace = "free"
    gamma: float = 0.1
    proxy: str = "entropy"
    temperature: float = 1.0
    ties: str = "chance"

    def __post_init__(self) -> None:
        arguments.number("gamma", self.gamma, what=" of nats")
        arguments.word("proxy", self.proxy, SCORES)
        check_ranking(self.temperature, self.ties)

    def choose(self, view: View) -> Choice:
        return chosen(view, affordable(view, self.proxy, self.ties, but_the_largest, self.gamma), self.temperature)


@SAMPLERS.register("entropy-sum")
@dataclass(frozen=True)
class EntropySum(DrawsAfter):
    """Reveal until the cumulative entropy exceeds a threshold in nats; steps and schedule are not used."""

    pace = "free"
    threshold: float = 1.0
    proxy: str = "chance"
    temperature: float = 1.0
    ties: str = "chance"

    def __post_init__(self) -> None:
        arguments.number("threshold", self.threshold, what=" of nats")
        arguments.word("proxy", self.proxy, SCORES)
        check_ranking(self.temperature, self.ties)

    def choose(self, view: View) -> Choice:
        return chosen(view, affordable(view, self.proxy, self.ties, before_the_last, self.threshold), self.temperature)
