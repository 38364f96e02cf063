"""An ideal denoiser with a learning error of known size: KL(q || p_theta) = epsilon in every context."""

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
from unmask.ideal.denoiser import as_denoiser
from unmask.languages import Language

KINDS = ("leak", "tilt")
NEAR = 1e-12  # a step of the iteration, relative, that ends it: the error left is of the order of its square


class Perturbed(Reshaped):
    """p = (1-w) q + w on the least likely token, with w solved so that KL(q || p) is epsilon nats in every context.

    `leak` takes the least likely token of all, and so makes errors that q never makes; `tilt` takes the least likely
    one that is possible, so that the support stays: the divergence is then 0 where only one token is possible. Ties
    are broken by a ranking of the tokens that is keyed by seed and position. It is the epsilon of Assumption 4.1
    (theory.md 4), with equality.
    """

    def __init__(self, source: Language | Denoiser, kind: str, epsilon: float, seed: int = 0) -> None:
        arguments.word("kind of perturbation", kind, KINDS)
        arguments.number("epsilon", epsilon, what=" of nats")
        check_seed(seed)
        super().__init__(as_denoiser(source))
        self.kind, self.epsilon, self.seed = kind, epsilon, seed

    def options(self) -> Mapping[str, Any]:
        return {"kind": self.kind, "epsilon": self.epsilon, "seed": self.seed}

    def reshape(self, marginals: Marginals, positions: Tensor) -> Tensor:
        exact = marginals.dense()
        symbols = torch.arange(self.vocabulary)
        rank = uniform(self.seed, Stream.TIE, symbols, positions.unsqueeze(-1))
        score = torch.round(exact / 1e-9) + rank  # equal to 1e-9: the keyed rank decides
        if self.kind == "tilt":
            score = torch.where(exact > 0, score, torch.inf)
        chosen = score.argmin(-1, keepdim=True)
        share = exact.gather(-1, chosen)
        weight = solve_weight(share, self.epsilon)
        return ((1 - weight) * exact).scatter_add(-1, chosen, weight)


def solve_weight(share: Tensor, epsilon: float) -> Tensor:
    """The w for which mixing w of a token that has probability `share` costs KL = epsilon; 0 where share is 1.

    With y = -log(1-w):  KL(y) = (1-share) y - share log(e^-y + (1-e^-y)/share),  convex and increasing from 0, so
    Newton's iteration falls to the root from the right; each share goes on until it is there, whatever the others do.
    """
    share = share.double()
    free = share < 1
    s = torch.where(free, share, 0.5)
    entropy = -torch.xlogy(s, s)
    y = (epsilon + entropy) / (1 - s)
    falls = free
    for _ in range(60):
        kept = torch.exp(-y)
        mixed = s * kept - torch.expm1(-y)  # the new probability of the token
        value = (1 - s) * y - torch.xlogy(s, mixed) - entropy
        slope = (1 - s) - s * kept * (1 - s) / mixed
        below = torch.where(slope > 0, y - (value - epsilon) / slope.clamp(min=1e-300), y).clamp(min=0.0)
        y, falls = torch.where(falls, below, y), falls & (y - below > NEAR * y)
        if not bool(falls.any()):
            break
    return torch.where(free, -torch.expm1(-y), 0.0)
