"""Published surrogates for log p(x) of the sampler, each with its formula and its paper.

Most are weighted sums over sets M of hidden positions, with x without M as the context:

    s(x) = sum_M c_M sum_{i in M} log p(x_i | x without M)

    one-step     c = 1 for M = all positions                                                    d1, arXiv 2504.12216
    elbo         sizes m uniform in 1..L, uniform M, c = L / m                  VRPO (LLaDA 1.5), arXiv 2505.19223
    stratified   elbo, the k-th of K sizes from the k-th of K equal parts
    antithetic   m uniform in 0..L; (L + 1) / 2 m for M, (L + 1) / 2 (L - m) for the others  ESPO, arXiv 2512.03759
    coupled      t uniform in (.2, .8), each position in M with t; 1 / 2 t for M, 1 / 2 (1 - t) for the others, and
                 half of one-step                                                    DiffuCoder, arXiv 2506.20639
    gdpo         m = floor(L t) at Gauss nodes t of [0, 1] with weights w, c = w / t       GDPO, arXiv 2510.08554

The expectation of all is linear in the 2^L - 1 sets. `elbo`, `stratified` and `antithetic` have the same. SPG (arXiv
2510.09541) takes elbo where the advantage A is positive; where it is not, an upper bound, or half of each:

    spg-upper    sum_i log(E_m E_M [L / m, i in M, p(x_i | x without M)^b]) / b,    b = 1.5       spg-mixed  (1/2, 1/2)

The mean over K sets is inside the logarithm, so few sets are biased; positions in none of them are left out, and the
sum is scaled up to L. wd1 (arXiv 2507.08838) weights one-step by e^A / E e^A - e^-A / E e^-A in place of A. Trajectory
(TraceRL, arXiv 2509.06949; d2) needs the steps of x: the sum of log p of the tokens that each step kept. `exact` is
log p(x). These two are gradients of the enumerated distribution (enumeration.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.diagnosis.policy.sets import (
    Linear,
    antithetic_draw,
    coupled_draw,
    coupled_mean,
    elbo_draw,
    elbo_mean,
    gdpo_draw,
    gdpo_mean,
    logs,
    one_step_draw,
    one_step_mean,
    stratified_draw,
)

POWER = 1.5  # b of SPG
ONE_STEP, ELBO = Linear(one_step_mean, one_step_draw), Linear(elbo_mean, elbo_draw)


@dataclass(frozen=True)
class Sandwiched:
    """SPG: elbo where the advantage is positive, else `share` of the upper bound and the rest of elbo."""

    share: float

    def __call__(
        self, model: Any, x: Tensor, generator: torch.Generator | None, calls: int = 1, *, advantage: Tensor
    ) -> Tensor:
        hidden, chance = ELBO.sets(generator, calls, *x.shape)
        return self.of(logs(model, x, hidden), hidden, chance, advantage)

    def of(self, log: Tensor, hidden: Tensor, chance: Tensor, advantage: Tensor) -> Tensor:
        """(B): from log-probabilities (B, M, L) at hidden positions, Bool (B, M, L), and chances L / m P(M) (B, M)."""
        lower = (log.sum(2) * chance).sum(1)
        powers = torch.where(hidden, (POWER * log).exp(), 0.0) * chance.unsqueeze(2)
        seen = hidden.any(1)
        each = torch.where(seen, torch.where(seen, powers.sum(1), 1.0).log() / POWER, 0.0)
        upper = each.sum(1) * log.shape[2] / seen.sum(1)
        return torch.where(advantage > 0, lower, self.share * upper + (1 - self.share) * lower)


def plain(p: Tensor, advantage: Tensor) -> Tensor:
    """The weight of a policy gradient: A."""
    return advantage


def exponential(p: Tensor, advantage: Tensor) -> Tensor:
    """wd1's: e^A / E e^A - e^-A / E e^-A, with means over texts of probability p."""
    up, down = advantage.exp(), (-advantage).exp()
    return up / (p * up).sum() - down / (p * down).sum()


@dataclass(frozen=True)
class Surrogate:
    """s(x), the weight of its gradient, or whether an enumeration gives its gradient."""

    score: Callable[..., Tensor] | None  # (model, x (B, L), generator, calls) -> (B)
    weight: Callable[[Tensor, Tensor], Tensor] = plain  # of (p, A)
    sided: bool = False  # whether `score` takes the advantage
    of_paths: bool = False  # without a score: the gradient of trajectories


SURROGATES: dict[str, Surrogate] = {
    "exact": Surrogate(None),
    "trajectory": Surrogate(None, of_paths=True),
    "one-step": Surrogate(ONE_STEP),
    "elbo": Surrogate(ELBO),
    "stratified": Surrogate(Linear(elbo_mean, stratified_draw)),
    "antithetic": Surrogate(Linear(elbo_mean, antithetic_draw)),
    "coupled": Surrogate(Linear(coupled_mean, coupled_draw)),
    "gdpo": Surrogate(Linear(gdpo_mean, gdpo_draw)),
    "spg-upper": Surrogate(Sandwiched(1.0), sided=True),
    "spg-mixed": Surrogate(Sandwiched(0.5), sided=True),
    "wd1": Surrogate(ONE_STEP, weight=exponential),
}


def named(surrogate: Any) -> Surrogate:
    """The surrogate of this name; or one of a function (model, x, generator) -> (B)."""
    if isinstance(surrogate, Surrogate):
        return surrogate
    if callable(surrogate):
        return Surrogate(surrogate)
    return SURROGATES[arguments.word("surrogate", surrogate, SURROGATES)]
