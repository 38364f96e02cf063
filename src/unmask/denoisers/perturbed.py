"""An ideal denoiser with a learning error of known size: KL(q || p_theta) = epsilon in every context, or a mixture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Stream, check_seed, uniform
from unmask.denoisers.denoiser import Denoiser
from unmask.denoisers.marginals import Marginals
from unmask.denoisers.reshaped import Reshaped
from unmask.denoisers.source import as_denoiser
from unmask.languages import Language

KINDS = ("leak", "tilt", "mix")
NEAR = 1e-12  # relative step at which the iteration ends; the remaining error is of the order of its square


class Perturbed(Reshaped):
    """p = (1-w) q + w on the least likely token, with w solved so that KL(q || p) is epsilon nats in every context.

    `leak` uses the least likely token of all, so it makes errors that are impossible under q. `tilt` uses the least
    likely possible token, which preserves the support; the divergence is then 0 if only one token is possible. Ties are
    broken by a random ranking of the tokens for each seed and position. Assumption 4.1 holds for epsilon with equality
    (theory.md 4).

    `mix` has another meaning of epsilon: p = (1 - epsilon) q + epsilon / V. Under uniform noise a wrong token at level
    a is repaired only while 1 - a is above epsilon.
    """

    def __init__(self, source: Language | Denoiser, kind: str, epsilon: float, seed: int = 0) -> None:
        arguments.word("kind of perturbation", kind, KINDS)
        if kind == "mix":
            arguments.number("epsilon", epsilon, most=1.0, what=", a weight")
        else:
            arguments.number("epsilon", epsilon, what=" in nats")
        check_seed(seed)
        super().__init__(as_denoiser(source))
        self.kind, self.epsilon, self.seed = kind, epsilon, seed

    def options(self) -> Mapping[str, Any]:
        return {"kind": self.kind, "epsilon": self.epsilon, "seed": self.seed}

    def reshape(self, marginals: Marginals, positions: Tensor) -> Tensor:
        exact = marginals.dense()
        if self.kind == "mix":
            return (1 - self.epsilon) * exact + self.epsilon / self.vocabulary
        symbols = torch.arange(self.vocabulary)
        rank = uniform(self.seed, Stream.TIE, symbols, positions.unsqueeze(-1))
        score = torch.round(exact / 1e-9) + rank  # the rank decides between probabilities equal to 1e-9
        if self.kind == "tilt":
            score = torch.where(exact > 0, score, torch.inf)
        chosen = score.argmin(-1, keepdim=True)
        weight = solve_weight(exact.gather(-1, chosen), self.epsilon)
        return ((1 - weight) * exact).scatter_add(-1, chosen, weight)


def solve_weight(probability: Tensor, epsilon: float) -> Tensor:
    """The w for which adding weight w to a token of probability s gives KL = epsilon; 0 if s is 1.

    With y = -log(1-w):  KL(y) = (1-s) y - s log(e^-y + (1-e^-y)/s),  convex and increasing from 0, so Newton's
    iteration decreases to the root from the right. Each s stops at its own root, independently of the others.
    """
    probability = probability.double()
    free = probability < 1
    s = torch.where(free, probability, 0.5)
    entropy = -torch.xlogy(s, s)
    y = (epsilon + entropy) / (1 - s)
    falls = free
    for _ in range(60):
        rest = torch.exp(-y)
        mixed = s * rest - torch.expm1(-y)  # the new probability of the token
        value = (1 - s) * y - torch.xlogy(s, mixed) - entropy
        slope = (1 - s) - s * rest * (1 - s) / mixed
        below = torch.where(slope > 0, y - (value - epsilon) / slope.clamp(min=1e-300), y).clamp(min=0.0)
        y, falls = torch.where(falls, below, y), falls & (y - below > NEAR * y)
        if not bool(falls.any()):
            break
    return torch.where(free, -torch.expm1(-y), 0.0)
