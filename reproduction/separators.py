"""Separators and dependencies of n-gram languages, for any order of revealing (paper, appendix B.2 to B.3).

n-1 neighbouring revealed positions separate the positions on their left from those on their right. The positions of a
step fall into dep_n independent groups, one for each interval between separators that they meet; each position beyond
the first of its group can cost log|V| nats. So everything depends on the excess

    |M_k| - dep_n(M_k, M_<k) = neighbours i < j of M_k with no n-1 consecutive positions of M_<k between them,

whose mean over independent steps has a closed form (theory.md 4); the paper bounds it in three cases.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from unmask import UnmaskError
from unmask.samplers.schedules import Schedule
from unmask.theory.correctness import INDEPENDENT
from unmask.theory.statements import Statement, checked


@checked
def separators(n: int, revealed: Tensor) -> int:
    """Definition B.4: Sep_n, the most disjoint blocks of n-1 consecutive revealed positions, of Bool (L)."""
    count = run = 0
    for shown in revealed.tolist():
        run = run + 1 if shown else 0
        if run == n - 1:
            count, run = count + 1, 0
    return count


@checked
def dependencies(n: int, new: Tensor, revealed: Tensor) -> int:
    """Definition B.5: dep_n(M_k, M_<k), intervals between separators that contain a new position, both Bool (L).

    Example B.6: n = 4, revealed {2,3,4,6,7} and new {1,5,9} of ten has one separator and dep = 2.
    """
    order = torch.where(new, 2, torch.where(revealed, 1, 3)).unsqueeze(0)
    return int(new.sum()) - int(_by_step(order, n)[0, 1:2].sum())


@checked
def excess(n: int, order: Tensor) -> Tensor:
    """(B): sum_k |M_k| - dep_n(M_k, M_<k) of orders (B, L); |M| less this is dep_n(M) (Definition B.7).

    Positions of step 0 are given, and separate from the start.
    """
    return torch.from_numpy(_by_step(order, n)).sum(1)


@checked
def expected_excess(n: int, length: int, delta: Tensor) -> Tensor:
    """(N): E[|M_k| - dep_n(M_k, M_<k)] = delta_k sum_{d=0}^{L-1} F_d exactly, for independent steps.

    F_d is the probability that d sites, each new with delta_k and revealed before with p_k, have a new one before n-1
    consecutive revealed ones: the d positions to the right of a new position.
    """
    new, shown = delta, Schedule(delta).p
    other = (1 - new - shown).clamp(min=0.0)
    runs = torch.zeros((n - 1, len(delta)), dtype=torch.float64)  # still walking, after a run of r revealed ones
    runs[0] = 1.0
    met, total = torch.zeros_like(delta), torch.zeros_like(delta)
    for _ in range(length):
        total += met
        walking = runs.sum(0)
        met = met + new * walking
        runs = torch.cat([(other * walking).unsqueeze(0), shown * runs[:-1]])
    return delta * total


@checked
def limit(n: int, delta: Tensor) -> Tensor:
    """(N): F_inf = delta (1 - p^m) / ((1-p) p^m + delta (1 - p^m)), m = n-1: the limit of F_d, from below."""
    p = Schedule(delta).p
    power = p ** (n - 1)
    hit = delta * (1 - power)
    return torch.where(hit > 0, hit / ((1 - p) * power + hit), 0.0)


@checked
def excess_bound(n: int, length: int, delta: Tensor) -> Statement:
    """sum_k L delta_k min(1, (n-1) delta_k / p_k^(n-1)): no constant, no least length, no divisibility (theory.md 4).

    By F_d <= F_inf and (1 - p^m) / (1 - p) = 1 + p + .. + p^(m-1) <= m.
    """
    used, p = delta[delta > 0], Schedule(delta).p[delta > 0]
    value = float(length * (used * ((n - 1) * used / p ** (n - 1)).clamp(max=1.0)).sum())
    return Statement(value, "upper", "excess", INDEPENDENT, "ours", "theory.md 4, in place of lemmas B.10 and B.11")


@checked
def lemma_a1(vocabulary: int, tokens: int, learning: float = 0.0) -> Statement:
    """Lemma A.1: drawing k tokens independently costs KL <= (k-1) log|V| + k delta, delta the worst KL of a marginal.

    KL = sum_i KL(q_i || p_i) + I(X_i; X_<i), and the first position has no mutual information to lose.
    """
    value = (tokens - 1) * math.log(vocabulary) + tokens * learning
    return Statement(value, "upper", "divergence", "tokens drawn in one step", "reconstructed", "lemma A.1")


@checked
def explicit_steps(n: int, eps: float) -> int:
    """N = 1 + ceil((1-eps)(n-1)/eps^n): one step of eps, then equal ones of at most eps^n/(n-1)."""
    return 1 + math.ceil((1 - eps) * (n - 1) / eps**n - 1e-9)


@checked
def explicit_fraction(n: int, eps: float) -> float:
    """eps + (n-1) d (d/eps^(n-1) + I_n), d = (1-eps)/(N-1), I_n = int_eps^1 x^-(n-1) dx: at most 2.4 eps.

    It is `excess_bound` / L, with the sum over steps, a left Riemann sum, replaced by the integral.
    """
    d = (1 - eps) / max(explicit_steps(n, eps) - 1, 1)
    area = math.log(1 / eps) if n == 2 else (eps ** -(n - 2) - 1) / (n - 2)
    return eps + (n - 1) * d * (d / eps ** (n - 1) + area)


@checked
def explicit(n: int, vocabulary: int, length: int, eps: float, learning: float = 0.0) -> Statement:
    """Theorem 4.2 for every length, without unknown constants, by schedule "theorem-4.2" in `explicit_steps`.

    KL/L <= eps_learning + c log|V|, with c = `explicit_fraction`."""
    value = length * (learning + math.log(vocabulary) * explicit_fraction(n, eps))
    assumption = f"{n}-gram language, schedule theorem-4.2 at N = {explicit_steps(n, eps)}"
    return Statement(value, "upper", "divergence", assumption, "ours", "theorem 4.2, explicit")


@checked
def lemma_b8(n: int, vocabulary: int, order: Tensor, learning: float = 0.0) -> Statement:
    """Lemma B.8: KL(q || p_order) <= log|V| sum_k (|M_k| - dep_n(M_k, M_<k)) + L eps, for one order (L)."""
    value = float(excess(n, order.unsqueeze(0))[0]) * math.log(vocabulary) + int((order > 0).sum()) * learning
    return Statement(value, "upper", "divergence", _assumption(n, learning, "this order"), "reconstructed", "lemma B.8")


@checked
def lemma_b9(n: int, vocabulary: int, length: int, delta: Tensor, learning: float = 0.0) -> Statement:
    """Lemma B.9: KL(q || p) <= log|V| sum_k E[|M_k| - dep_n(M_k, M_<k)] + L eps, with the exact expectation."""
    value = float(expected_excess(n, length, delta).sum()) * math.log(vocabulary) + length * learning
    return Statement(value, "upper", "divergence", _assumption(n, learning, INDEPENDENT), "reconstructed", "lemma B.9")


@checked
def lemma_b10(n: int, length: int, delta: float, p: float) -> tuple[Statement, Statement]:
    """Lemma B.10: (P(Sep_n <= mu/2) <= exp(-mu/8), P(|M_k| >= 2 L delta_k) <= exp(-L delta_k / 3)) by Chernoff.

    mu = floor(L/(n-1)) p^(n-1) is the mean number of revealed blocks; the paper assumes that n-1 divides L.
    """
    few = math.exp(-(length // (n - 1)) * p ** (n - 1) / 8)
    many = math.exp(-length * delta / 3)
    return (
        Statement(few, "upper", "P(separators <= mu/2)", INDEPENDENT, "reconstructed", "lemma B.10"),
        Statement(many, "upper", "P(new >= 2 L delta)", INDEPENDENT, "reconstructed", "lemma B.10"),
    )


@checked
def lemma_b11(n: int, length: int, delta: float, p: float) -> Statement:
    """Lemma B.11: E[|M_k| - dep] <= (9 + 24 (n-1) L delta^2) / p^(n-1) where L delta > 1.

    Its proof treats the order of separators and new positions as exchangeable, which it is not. The statement still
    holds, and is far from tight: `excess_bound` has 1 for the 24 and 0 for the 9.
    """
    if length * delta <= 1:
        raise UnmaskError(f"L delta is {length * delta:.4g}; expected above 1 for lemma B.11. Use excess_bound.")
    value = (9 + 24 * (n - 1) * length * delta**2) / p ** (n - 1) if p > 0 else math.inf
    assumption = f"{INDEPENDENT}; L delta > 1; 24 for an unspecified constant"
    return Statement(value, "upper", "excess", assumption, "reconstructed", "lemma B.11", proven=False)


def _assumption(n: int, learning: float, how: str) -> str:
    error = f"learning error at most {learning:g} nats per token" if learning else "ideal denoiser"
    return f"{n}-gram language; {how}; {error}"


def _by_step(order: Tensor, n: int) -> NDArray[np.float64]:
    """(B, N) the excess of each step."""
    out = np.zeros((len(order), int(order.max())))
    _excess(order.numpy(), n - 1, out)
    return out


@njit  # type: ignore[untyped-decorator, unused-ignore]
def _excess(orders, memory, out):  # type: ignore[no-untyped-def]
    """Whether each position of a step meets another one to the right, before `memory` consecutive earlier ones."""
    length = orders.shape[1]
    for b in range(orders.shape[0]):
        for i in range(length):
            step, run = orders[b, i], 0
            if step == 0:
                continue
            for j in range(i + 1, length):
                if orders[b, j] == step:
                    out[b, step - 1] += 1
                    break
                run = run + 1 if orders[b, j] < step else 0
                if run == memory:
                    break
