"""As many positions as their entropies allow: one rule, two ways to add entropies up (theory.md 10).

Take the hidden positions one after another, by a proxy of their error, and reveal them as long as what they are
reckoned at is at most a budget in nats; H_1, H_2, .. are their entropies given what was revealed before the round.

    entropy-bounded  sum_{i <= n} H_i - max_{i <= n} H_i <= gamma     EB (arXiv 2505.24857); the surest first
    entropy-sum      sum_{i < n} H_i <= threshold                     Cai and Li, arXiv 2603.22248; at random

One position always satisfies either. For the ideal denoiser TC(X_U | x_R) <= sum H - max H, so that EB errs by at most
gamma a round, and the sum by at most the threshold: it needs about H(X) / threshold rounds, fewer where the language
says less. By entropy the largest is the last, and the two rules are one. gamma = 0 reveals what is certain, and one
more. The order in which the sum takes positions is ours to choose. Steps and schedule are not used.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.samplers.contract import SAMPLERS, Choice, Law, Sampler
from unmask.samplers.ranking import SCORES, arranged, check_ranking, chosen, in_order
from unmask.samplers.view import View


def but_the_largest(entropies: Tensor) -> Tensor:
    """(B, n): the sum of the first n entropies (B, L) without the largest of them."""
    return entropies.cumsum(1) - entropies.cummax(1).values


def before_the_last(entropies: Tensor) -> Tensor:
    """(B, n): the sum of the first n - 1 entropies (B, L)."""
    return torch.nn.functional.pad(entropies.cumsum(1)[:, :-1], (1, 0))


def affordable(view: View, proxy: str, ties: str, reckon: Callable[[Tensor], Tensor], budget: float) -> Tensor:
    """Bool (B, L): the hidden positions that the budget has room for, taken by the proxy."""
    place = in_order(view, SCORES[proxy](view), ties)
    error = reckon(arranged(view, view.entropy, place))
    return view.hidden & (error.gather(1, place) <= budget + view.resolution)


@SAMPLERS.register("entropy-bounded")
@dataclass(frozen=True)
class EntropyBounded(Sampler):
    """EB: the most positions whose entropies, but the largest, sum to at most gamma nats; steps are not used."""

    pace = "free"
    gamma: float = 0.1
    proxy: str = "entropy"
    temperature: float = 1.0
    ties: str = "chance"

    def __post_init__(self) -> None:
        arguments.number("gamma", self.gamma, what=" of nats")
        arguments.word("proxy", self.proxy, SCORES)
        check_ranking(self.temperature, self.ties)

    @property
    def law(self) -> Law | None:
        return "order" if self.temperature == 1 else None

    def choose(self, view: View) -> Choice:
        return chosen(view, affordable(view, self.proxy, self.ties, but_the_largest, self.gamma), self.temperature)


@SAMPLERS.register("entropy-sum")
@dataclass(frozen=True)
class EntropySum(Sampler):
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

    @property
    def law(self) -> Law | None:
        return "order" if self.temperature == 1 else None

    def choose(self, view: View) -> Choice:
        return chosen(view, affordable(view, self.proxy, self.ties, before_the_last, self.threshold), self.temperature)
