"""Fluency: the number of steps needed does not grow with the length (Theorem 4.2 and stronger bounds; theory.md 4).

Everything bounds KL(q || p) in nats per sequence; `statements.ter_ratio` makes it a bound on TER. The paper uses
separators, and needs an n-gram and O((n-1)/eps^n) steps. The universal bound needs neither:

    E KL(q || p_order) = sum_k int_{p_k}^{p_{k+1}} (h(p_k) - h(u)) du  <=  max_k delta_k (h(0) - h(1)),
    h(0) - h(1) = TC + DTC = sum_i I(X_i; X_-i)  <=  L log|V|,

so 1/eps equal steps are enough for any language at any length.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unmask.core.estimates import Estimate, exactly
from unmask.languages import Language
from unmask.samplers.schedules import Schedule
from unmask.theory import known
from unmask.theory.statements import Statement, checked


@checked
def lemma_a1(vocabulary: int, tokens: int, learning: float = 0.0) -> Statement:
    """Lemma A.1: drawing k tokens independently costs KL <= (k-1) log|V| + k delta, delta the worst KL of a marginal.

    KL = sum_i KL(q_i || p_i) + I(X_i; X_<i), and the first position has no mutual information to lose.
    """
    value = (tokens - 1) * math.log(vocabulary) + tokens * learning
    return Statement(value, "upper", "divergence", "tokens drawn in one step", "reconstructed", "lemma A.1")


@checked
def theorem_4_2(n: int, vocabulary: int, length: int, eps: float, learning: float = 0.0) -> Statement:
    """Theorem 4.2: log TER(p) <= log TER(q) + eps_learning + 4 eps log|V|, in O((n-1)/eps^n) steps of some schedule.

    As on the poster, for L > O((n-1)/eps^(n+1/2)). The schedule is in an illegible part of our copy; `explicit` is the
    same without unknown constants, for the schedule reconstructed from lemma B.12.
    """
    value = length * (learning + 4 * eps * math.log(vocabulary))
    assumption = f"{n}-gram language, some schedule of O((n-1)/eps^n) steps, L > O((n-1)/eps^(n+1/2))"
    return Statement(value, "upper", "divergence", assumption, "paper", "theorem 4.2")


@checked
def explicit_steps(n: int, eps: float) -> int:
    """N = 1 + ceil((1-eps)(n-1)/eps^n): one step of eps, then equal ones of at most eps^n/(n-1)."""
    return 1 + math.ceil((1 - eps) * (n - 1) / eps**n - 1e-9)


@checked
def explicit_fraction(n: int, eps: float) -> float:
    """eps + (n-1) d (d/eps^(n-1) + I_n), d = (1-eps)/(N-1), I_n = int_eps^1 x^-(n-1) dx: at most 2.4 eps.

    It is `separators.excess_bound` / L, with the sum over steps, a left Riemann sum, replaced by the integral.
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
def proportional_steps(n: int, eps: float) -> int:
    """Steps of eps, then of delta_k = eps/(n-1) p_k^(n-1): about eps^-(n-1) (n-1)/(n-2), or (1/eps) log(1/eps)."""
    p, steps = eps, 1
    while p < 1 - 1e-12:
        p += eps / (n - 1) * p ** (n - 1)
        steps += 1
    return steps


@checked
def proportional(n: int, vocabulary: int, length: int, eps: float, learning: float = 0.0) -> Statement:
    """Schedule "theorem-4.2-proportional": each later step costs at most eps of its entropy: 2 eps log|V| per token.

    (n-1) delta_k / p_k^(n-1) = eps, so `separators.excess_bound` is at most L (eps + eps (1 - eps)).
    """
    value = length * (learning + math.log(vocabulary) * eps * (2 - eps))
    assumption = f"{n}-gram language, schedule theorem-4.2-proportional at N = {proportional_steps(n, eps)}"
    return Statement(value, "upper", "divergence", assumption, "ours", "theorem 4.2, proportional")


def interaction(language: Language, length: int) -> Estimate:
    """TC + DTC = sum_i I(X_i; X_-i) = h(0) - h(1) in nats if the curve is exact, else the upper bound sum_i H(X_i)."""
    if (curve := known.exact_curve(language, length)) is not None:
        return exactly(length * float(curve.f[0] - curve.f[-1]), f"exact: {curve.method}")
    blank = language.posterior(language.blank(1, length))[0]
    return exactly(-float(torch.xlogy(blank, blank).sum()), "upper bound: sum of H(X_i)")


@checked
def universal(
    vocabulary: int,
    length: int,
    delta: Tensor,
    between: float | None = None,
    learning: float = 0.0,
    fixed: bool = False,
) -> Statement:
    """KL(q || p) <= max_k delta_k (TC + DTC) + L eps, for any language, length and schedule; `between` is TC + DTC.

    (default: L log|V|) With fixed sizes s_k the same sum, over counts, gives (max s_k - 1) / L (TC + DTC).
    """
    largest = (int(Schedule(delta).sizes(length).max()) - 1) / length if fixed else float(delta.max())
    total = length * math.log(vocabulary) if between is None else between
    how = "steps of fixed size" if fixed else "each position draws its step from the schedule"
    assumption = f"any language, {how}"
    return Statement(largest * total + length * learning, "upper", "divergence", assumption, "ours", "theory.md 4")
