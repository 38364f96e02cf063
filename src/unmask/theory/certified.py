"""n-grams of any order: lower and upper bounds on h(u), from windows that can be enumerated (theory.md 7.7).

A window W = [j-w, j+w] around a position, cut at the ends of the sequence, and B, the m = n-1 positions beyond each of
its edges:
    H(X_j | X_{R in W}, X_B) <= H(X_j | X_R) <= H(X_j | X_{R in W}),
on the left because m consecutive revealed tokens separate their two sides, and because more knowledge never increases
entropy. Positions far from both ends have equal windows at different positions; their mean distribution gives the mean
of the lower bounds, and at least the mean of the upper ones (entropy is concave).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from unmask.core import progress
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate
from unmask.kernels.machine import Floats
from unmask.languages import NGram
from unmask.schedules import Schedule
from unmask.theory.curves import InformationCurve, by_size

QUICK, MOST = 2e8, 2e10  # cells of window distributions to sum: by default, and on request


@dataclass(frozen=True)
class Certified:
    """lower.h(u) <= h(u) <= upper.h(u) for every u, and H(q) exactly."""

    lower: InformationCurve
    upper: InformationCurve
    entropy: float
    reach: int

    def divergence(self, delta: Tensor, *, fixed_size: bool = False) -> Estimate:
        """Bounds on E KL(q || p_order), in nats; the value is the middle."""
        low = max(self.lower.nelbo(delta, fixed_size=fixed_size).value - self.entropy, 0.0)
        high = self.upper.nelbo(delta, fixed_size=fixed_size).value - self.entropy
        if not fixed_size:
            high = min(high, self._telescoped(delta))
        return Estimate((low + high) / 2, low, high, 0, 1.0, f"certified by windows of {2 * self.reach + 1}")

    def _telescoped(self, delta: Tensor) -> float:
        """sum_k delta_k (h(p_k) - h(p_{k+1})): no less, as h falls; it depends on the ends of h more than on H."""
        points = np.append(Schedule(delta).p.numpy(), 1.0)
        weights = np.diff(delta.numpy(), prepend=0.0, append=0.0)
        return float(weights @ np.where(weights > 0, self.upper.h(points), self.lower.h(points)))


def certified(language: NGram, length: int, reach: int | None = None) -> Certified:
    """Bounds from windows of `reach` positions to each side (default: the widest that is fast); wider is tighter."""
    if reach is None:
        reach = 0
        while reach < length and _work(language, length, reach + 1) <= QUICK:
            reach += 1
    if _work(language, length, reach) > MOST:
        problem = f"windows of {reach} positions to each side are too many to sum"
        raise UnmaskError(f"{problem}. Lower reach, or measure the curve with theory.sampled.information_curve.")
    contexts = _contexts(language, length)
    far = reach + language.order - 1
    middle = range(far, length - far)  # positions from 0 whose window and its surroundings are complete
    ends = [j for j in range(length) if j not in middle]
    low, high = np.zeros((2, 2 * reach + 1, 2 * reach + 1))
    with progress.track("windows", len(ends) + 1) as advance:
        for j in ends:
            _add(language, contexts[max(j - far, 0)], j, length, reach, 1, low, high)
            advance(1)
        if middle:
            start = contexts[: len(middle)].mean(0)
            _add(language, start, far, length, reach, len(middle), low, high)
    lower, upper = (InformationCurve(by_size(bound, length - 1) / length, "certified") for bound in (low, high))
    return Certified(lower, upper, language.entropy(length).value, reach)


def _work(language: NGram, length: int, reach: int) -> float:
    """Cells to sum: 4^w patterns of V^(2(w+m)+1), for a position in the middle and those near both ends."""
    far = reach + language.order - 1
    return float(4.0**reach * language.vocabulary ** min(2.0 * far + 1, length) * min(2 * far + 1, length))


def _contexts(language: NGram, length: int) -> Floats:
    """(L, V, .., V): the distribution of the m tokens that start at each position."""
    memory, v = language.order - 1, language.vocabulary
    distributions = [language.initial]
    for _ in range(length - 1):
        distributions.append((distributions[-1][:, None] * language.transition).reshape(v, -1).sum(0))
    return np.array(distributions).reshape(length, *(v,) * memory)


def _add(
    language: NGram, start: Floats, j: int, length: int, reach: int, count: int, low: Floats, high: Floats
) -> None:
    """Add position j `count` times to low and high (revealed, hidden), by the patterns of the others in its window."""
    memory = language.order - 1
    first, last = max(j - reach - memory, 0), min(j + reach + memory, length - 1)
    distribution = _window(language, start, last - first + 1)
    window = [i for i in range(max(j - reach, 0), min(j + reach, length - 1) + 1) if i != j]
    beyond = [i for i in range(first, last + 1) if i != j and i not in window]
    for pattern in range(2 ** len(window)):
        shown = [i for bit, i in enumerate(window) if pattern >> bit & 1]
        at = len(shown), len(window) - len(shown)
        low[at] += count * _conditional(distribution, j - first, [i - first for i in (*shown, *beyond)])
        high[at] += count * _conditional(distribution, j - first, [i - first for i in shown])


def _window(language: NGram, start: Floats, size: int) -> Floats:
    """(V, .., V) the distribution of `size` tokens from that of the first m."""
    memory, v = start.ndim, language.vocabulary
    distribution = start.sum(tuple(range(size, memory))) if size < memory else start
    for _ in range(size - memory):
        distribution = (distribution.reshape(-1, v**memory)[:, :, None] * language.transition).reshape(
            *distribution.shape, v
        )
    return distribution


def _conditional(distribution: Floats, j: int, given: list[int]) -> float:
    """H(X_j | X_given) = H(X_j, X_given) - H(X_given)."""
    joint = distribution.sum(tuple(i for i in range(distribution.ndim) if i != j and i not in given))
    without = joint.sum(sum(i < j for i in given))
    return float(_plogp(without) - _plogp(joint))


def _plogp(distribution: Floats) -> float:
    return float((distribution * np.log(np.where(distribution > 0, distribution, 1.0))).sum())
