"""What trainers take for log p(x) of the sampler: published surrogates, each with its formula and its paper.

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

    spg-upper    sum_i log(E_m E_M [L / m, i in M, p(x_i | x without M)^b]) / b,    b = 1.5        spg-mixed   (1/2, 1/2)

The mean over K sets is inside the logarithm, so few sets are biased; positions in none of them are left out, and the
sum is scaled up to L. wd1 (arXiv 2507.08838) weights one-step by e^A / E e^A - e^-A / E e^-A in place of A. Trajectory
(TraceRL, arXiv 2509.06949; d2) needs the steps of x: the sum of log p of the tokens that each step kept. `exact` is
log p(x). These two are gradients of the law (law.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unmask.core import arguments
from unmask.diagnosis.likelihood import every

Model = Callable[[Tensor], Tensor]  # contexts (R, L), `model.vocabulary` where hidden -> log-probabilities (R, L, V)
Sets = tuple[Tensor, Tensor]  # hidden, Bool (B, M, L), and weights (B, M)
RANGE = 0.2, 0.8  # of t in DiffuCoder
POWER = 1.5  # b of SPG
POINTS = 2  # nodes of GDPO


def logs(model: Any, x: Tensor, hidden: Tensor) -> Tensor:
    """(B, M, L): log p(x_i | x without M) for i in M, 0 elsewhere, of x (B, L) and sets, Bool (B, M, L)."""
    whole = x.unsqueeze(1).expand(hidden.shape)
    contexts = torch.where(hidden, model.vocabulary, whole).flatten(0, 1)
    found = model(contexts).gather(2, whole.flatten(0, 1).unsqueeze(2)).view(hidden.shape)
    return torch.where(hidden, found, 0.0)


def random_sets(sizes: Tensor, length: int, generator: torch.Generator) -> Tensor:
    """Bool (B, M, L): uniform sets of these sizes (B, M)."""
    ranks = torch.rand((*sizes.shape, length), generator=generator).argsort(-1).argsort(-1)
    return ranks < sizes.unsqueeze(-1)


def chances(length: int) -> tuple[Tensor, Tensor]:
    """(sizes (2^L - 1), 1 / C(L, m)) of every set."""
    sets = every(length)
    return sets.hidden.sum(1), sets.weights * length


def one_step_mean(length: int) -> Tensor:
    return (chances(length)[0] == length).double()


def one_step_draw(rows: int, length: int, evaluations: int, generator: torch.Generator) -> Sets:
    return torch.ones((rows, 1, length), dtype=torch.bool), torch.ones((rows, 1), dtype=torch.float64)


def elbo_mean(length: int) -> Tensor:
    sizes, chance = chances(length)
    return chance / sizes


def elbo_draw(rows: int, length: int, evaluations: int, generator: torch.Generator) -> Sets:
    u = torch.rand((rows, evaluations), generator=generator, dtype=torch.float64)
    return _sized(u, length, generator)


def stratified_draw(rows: int, length: int, evaluations: int, generator: torch.Generator) -> Sets:
    u = torch.rand((rows, evaluations), generator=generator, dtype=torch.float64)
    return _sized((torch.arange(evaluations) + u) / evaluations, length, generator)


def _sized(quantiles: Tensor, length: int, generator: torch.Generator) -> Sets:
    sizes = 1 + (quantiles * length).long().clamp(max=length - 1)
    return random_sets(sizes, length, generator), length / sizes.double() / sizes.shape[1]


def antithetic_draw(rows: int, length: int, evaluations: int, generator: torch.Generator) -> Sets:
    pairs = max(evaluations // 2, 1)
    sizes = torch.randint(0, length + 1, (rows, pairs), generator=generator)
    hidden = random_sets(sizes, length, generator)
    counts = torch.cat([sizes, length - sizes], 1).double()
    return torch.cat([hidden, ~hidden], 1), (length + 1) / counts.clamp(min=1) / 2 / pairs


def coupled_mean(length: int) -> Tensor:
    """Half of the full set, and c_m = E t^(m-1) (1 - t)^(L-m) of both halves of a pair."""
    nodes, weights = gauss(length, *RANGE)
    sizes = chances(length)[0].double().unsqueeze(1)
    powers = nodes ** (sizes - 1) * (1 - nodes) ** (length - sizes)
    return powers @ weights / (RANGE[1] - RANGE[0]) + one_step_mean(length) / 2


def coupled_draw(rows: int, length: int, evaluations: int, generator: torch.Generator) -> Sets:
    pairs = max(evaluations // 3, 1)
    t = RANGE[0] + (RANGE[1] - RANGE[0]) * torch.rand((rows, pairs), generator=generator, dtype=torch.float64)
    hidden = torch.rand((rows, pairs, length), generator=generator, dtype=torch.float64) < t.unsqueeze(2)
    all_hidden = torch.ones((rows, 1, length), dtype=torch.bool)
    weights = torch.cat([1 / t / 2 / pairs, 1 / (1 - t) / 2 / pairs, torch.full((rows, 1), 0.5)], 1)
    return torch.cat([hidden, ~hidden, all_hidden], 1), weights


def gauss(points: int, low: float = 0.0, high: float = 1.0) -> tuple[Tensor, Tensor]:
    """Nodes and weights of the Gauss-Legendre rule on an interval."""
    nodes, weights = (torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(points))
    return low + (high - low) * (nodes + 1) / 2, weights * (high - low) / 2


def gdpo_mean(length: int) -> Tensor:
    sizes, chance = chances(length)
    nodes, weights = gauss(POINTS)
    counts = (nodes * length).long().clamp(min=1)
    return ((sizes.unsqueeze(1) == counts) * weights / nodes).sum(1) * chance


def gdpo_draw(rows: int, length: int, evaluations: int, generator: torch.Generator) -> Sets:
    each = max(evaluations // POINTS, 1)
    nodes, weights = gauss(POINTS)
    counts = (nodes * length).long().clamp(min=1).repeat_interleave(each).expand(rows, -1)
    return random_sets(counts, length, generator), (weights / nodes / each).repeat_interleave(each).expand(rows, -1)


@dataclass(frozen=True)
class Linear:
    """A weighted sum over sets: its expected weights (2^L - 1) at a length, and random sets."""

    mean: Callable[[int], Tensor]
    draw: Callable[[int, int, int, torch.Generator], Sets]

    def __call__(self, model: Any, x: Tensor, generator: torch.Generator | None, evaluations: int = 1) -> Tensor:
        """(B): s(x) of x (B, L); without a generator its expectation."""
        rows, length = x.shape
        if generator is None:
            hidden, weights = every(length).hidden.expand(rows, -1, -1), self.mean(length)
        else:
            hidden, weights = self.draw(rows, length, evaluations, generator)
        return (logs(model, x, hidden).sum(2) * weights).sum(1)


ONE_STEP, ELBO = Linear(one_step_mean, one_step_draw), Linear(elbo_mean, elbo_draw)


@dataclass(frozen=True)
class Sandwiched:
    """SPG: elbo where the advantage is positive, else `share` of the upper bound and the rest of elbo."""

    share: float

    def __call__(
        self, model: Any, x: Tensor, generator: torch.Generator | None, evaluations: int = 1, *, advantage: Tensor
    ) -> Tensor:
        rows, length = x.shape
        if generator is None:
            hidden, chance = every(length).hidden.expand(rows, -1, -1), elbo_mean(length).expand(rows, -1)
        else:
            hidden, chance = elbo_draw(rows, length, evaluations, generator)
        found = logs(model, x, hidden)
        lower = (found.sum(2) * chance).sum(1)
        powers = torch.where(hidden, (POWER * found).exp(), 0.0) * chance.unsqueeze(2)
        seen = hidden.any(1)
        each = torch.where(seen, torch.where(seen, powers.sum(1), 1.0).log() / POWER, 0.0)
        upper = each.sum(1) * length / seen.sum(1)
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
    """s(x), the weight of its gradient, and whether the law gives it."""

    score: Callable[..., Tensor] | None  # (model, x (B, L), generator, evaluations) -> (B)
    weight: Callable[[Tensor, Tensor], Tensor] = plain  # of (p, A)
    sided: bool = False  # whether `score` takes the advantage
    kept: bool = False  # without a score: the gradient of trajectories


SURROGATES: dict[str, Surrogate] = {
    "exact": Surrogate(None),
    "trajectory": Surrogate(None, kept=True),
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
