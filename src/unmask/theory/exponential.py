"""First-order chains of any length: the law that SER follows, and its constant for many rounds (theory.md 7.4).

Errors come at a rate along the sequence, and what happens far apart is independent, so that for a primitive chain
    1 - SER(L) = B kappa^L   up to corrections that die out exponentially,
and likewise E_p[-log q(x) | valid] is a straight line in L. Two lengths give the law, a third one checks it.

For many rounds errors are single pairs, written together in one gap (a, c) of D - 1 positions:
    e(u) = sum over gaps u^r (1-u)^(D-3) q(a, c) sum_{i<j in the gap} sum over P^{j-i}(s, t) = 0 of A_i(s) A_j(t)
with r = 2 ends that must be revealed, fewer where the gap reaches an end of the sequence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from torch import Tensor

from unmask.core import arguments, progress
from unmask.core.errors import UnmaskError
from unmask.kernels.machine import Floats, Ints
from unmask.languages import Language
from unmask.languages.facts import primitive
from unmask.schedules.schedule import as_delta
from unmask.theory.chains import METHOD, FirstOrder, first_order
from unmask.theory.curves import ErrorCurve, by_size
from unmask.theory.gaps import valid_mass

LONGEST = 24  # of the lengths that a law is fitted and checked on
SHORTEST = 6
MOST_TERMS = 5e9  # that e(u) adds up


@dataclass(frozen=True)
class Line:
    """intercept + slope L, through the values at two lengths; residual: the value at a third one less the line's."""

    intercept: float
    slope: float
    residual: float

    @classmethod
    def through(cls, values: Floats, first: int, second: int) -> Line:
        """values (L): at lengths 1..L, the last of which is the third."""
        slope = float(values[second - 1] - values[first - 1]) / (second - first)
        intercept = float(values[first - 1]) - slope * first
        return cls(intercept, slope, float(values[-1]) - intercept - slope * len(values))

    def at(self, length: int) -> float:
        return self.intercept + self.slope * length


@dataclass(frozen=True)
class ExponentialLaw:
    """log(1 - SER) = log B + L log kappa, and E_p[log q(x) | valid]; fitted at two lengths, checked at a third."""

    log_valid: Line
    log_likelihood: Line  # nats a sequence
    fitted: tuple[int, int]
    checked: int

    @property
    def kappa(self) -> float:
        return math.exp(self.log_valid.slope)

    @property
    def scale(self) -> float:
        """B."""
        return math.exp(self.log_valid.intercept)

    @property
    def residual(self) -> float:
        """Of log(1 - SER) at the checked length."""
        return self.log_valid.residual

    def ser(self, length: int) -> float:
        return -math.expm1(self.log_valid.at(length))

    def generative_nll(self, length: int) -> float:
        """E_p[-log q(x) | valid] in nats a sequence."""
        return -self.log_likelihood.at(length)

    def drift(self, length: int) -> tuple[float, float]:
        """The residuals as they would grow up to this length: about the errors of log(1 - SER) and of the NLL."""
        reach = max(length - self.fitted[1], 0) / (self.checked - self.fitted[1])
        return abs(self.log_valid.residual) * reach, abs(self.log_likelihood.residual) * reach


def exponential_law(language: Language, delta: Tensor, longest: int = LONGEST) -> ExponentialLaw:
    """The law at lengths 2/3 and 5/6 of the longest, checked at the longest."""
    chain, machine = first_order(language), language.machine
    as_delta(delta)
    nearest = "metrics.score measures SER, theory.known.error_curve has its first order"
    if chain is None or machine is None:
        raise UnmaskError(f"no exponential law for {language.kind}: it is for first-order chains; {nearest}")
    if not primitive(machine):
        nearest = "theory.gaps.ser_by_orders estimates SER at any length, with little variance"
        raise UnmaskError(f"no exponential law: this chain is not primitive, its ends may be felt anywhere; {nearest}")
    arguments.whole("longest", longest, SHORTEST, what=": a law is fitted and checked on lengths up to it")
    mass, log_mass = valid_mass(chain, longest, delta)
    first, second = longest * 2 // 3, longest * 5 // 6
    log_valid = Line.through(np.log(mass[1:]), first, second)
    return ExponentialLaw(log_valid, Line.through(log_mass[1:] / mass[1:], first, second), (first, second), longest)


def error_curve(chain: FirstOrder, length: int) -> ErrorCurve:
    """g and e, and with them the step constant C(q), exactly."""
    contradictions = _contradictions(chain, length)
    if not feasible(chain, length):
        nearest = "theory.sampled.error_curve measures it"
        raise UnmaskError(f"e(u) at length {length} adds up too many contradictions; {nearest}")
    kernels, marginals, end = chain.kernels(length + 1), chain.marginals(length), chain.size
    starts = np.cumsum(marginals, 0)
    patterns = np.zeros((3, length))
    with progress.track("gaps", length - 1) as advance:
        for reach in range(3, length + 2):
            pairs = np.zeros((end + 1, end + 1))
            _contradict(kernels, contradictions, reach, pairs)
            if reach < length:
                patterns[2, reach - 3] = starts[length - reach - 1] @ pairs[:end, :end].sum(1)
            if reach <= length:
                patterns[1, reach - 3] = pairs[end, :end].sum() + marginals[length - reach] @ pairs[:end, end]
            else:
                patterns[0, reach - 3] = pairs[end, end]
            advance(1)
    return ErrorCurve(by_size(patterns, length - 2)[: length - 1] / math.comb(max(length, 2), 2), METHOD)


def feasible(chain: FirstOrder, length: int) -> bool:
    """Whether `error_curve` can add up what it must; not where many pairs contradict each other at every distance."""
    apart = length - _contradictions(chain, length)[:, 0].astype(np.float64)
    return float((apart**2).sum() / 2 * (chain.size + 1) ** 2) <= MOST_TERMS


def _contradictions(chain: FirstOrder, length: int) -> Ints:
    """(K, 3): every (d, s, t) with P^d(s, t) = 0 and d < L."""
    zeros = np.argwhere(chain.kernels(length)[:length, :-1, :-1] == 0)
    return zeros[zeros[:, 0] > 0]


@njit(cache=True, nogil=True)
def _contradict(kernels, contradictions, reach, out):  # type: ignore[no-untyped-def]
    """out (S+1, S+1): P^reach(a, c) sum over i and (d, s, t) of A_i(s) A_{i+d}(t), where P^d(s, t) = 0."""
    size = kernels.shape[1] - 1
    share = np.empty((reach, size))
    for a in range(size + 1):
        for c in range(size + 1):
            whole = kernels[reach, a, c]
            if whole == 0.0:
                continue
            for i in range(1, reach):
                for s in range(size):
                    share[i, s] = kernels[i, a, s] * kernels[reach - i, s, c] / whole
            total = 0.0
            for z in range(contradictions.shape[0]):
                d, s, t = contradictions[z]
                for i in range(1, reach - d):
                    total += share[i, s] * share[i + d, t]
            out[a, c] = whole * total
