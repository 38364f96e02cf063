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

from unmask.core.entries import chosen
from unmask.core.estimates import Estimate, exactly
from unmask.languages import Language
from unmask.samplers.schedules import Schedule
from unmask.theory import known
from unmask.theory.statements import Statement, checked


@checked
def theorem_4_2(n: int, vocabulary: int, length: int, eps: float, learning: float = 0.0) -> Statement:
    """Theorem 4.2: log TER(p) <= log TER(q) + eps_learning + 4 eps log|V|, in O((n-1)/eps^n) steps of some schedule.

    As on the poster, for L > O((n-1)/eps^(n+1/2)). The schedule is in an illegible part of our copy; schedule
    "theorem-4.2" is reconstructed from lemma B.12.
    """
    value = length * (learning + 4 * eps * math.log(vocabulary))
    assumption = f"{n}-gram language, some schedule of O((n-1)/eps^n) steps, L > O((n-1)/eps^(n+1/2))"
    return Statement(value, "upper", "divergence", assumption, "paper", "theorem 4.2")


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
    total = chosen(between, length * math.log(vocabulary))
    largest, how = float(delta.max()), "each position draws its step from the schedule"
    if fixed:
        largest, how = (int(Schedule(delta).sizes(length).max()) - 1) / length, "steps of fixed size"

    assumption = f"any language, {how}"
    return Statement(largest * total + length * learning, "upper", "divergence", assumption, "ours", "theory.md 4")
