"""First-order chains of any length: SER is exponential in the length; its constant for many steps (theory.md 7.4).

Errors occur at a rate along the sequence, and distant ones are independent, so that for a primitive chain
    1 - SER(L) = B kappa^L   up to corrections that decay exponentially,
and likewise E_p[-log q(x) | valid] is a straight line in L. Two lengths determine the line, a third one tests it. Its
error at larger lengths is bounded by the decay of the second differences: no slower than correlations in the chain, by
the second eigenvalue, and no slower than observed.

For many steps errors are single pairs, written together in one gap (a, c) of D - 1 positions:
    e(u) = sum over gaps u^r (1-u)^(D-3) q(a, c) sum_{i<j in the gap} sum over P^{j-i}(s, t) = 0 of A_i(s) A_j(t)
with r = 2 ends that must be revealed, fewer if the gap reaches an end of the sequence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from unmask.core import arguments, entries, progress
from unmask.core.compiled import kernel
from unmask.core.errors import UnmaskError
from unmask.languages import Language
from unmask.languages.kernels.machine import Floats, Ints
from unmask.languages.properties import primitive, second_eigenvalue
from unmask.samplers.schedules import as_delta
from unmask.theory.chains import METHOD, FirstOrder, first_order
from unmask.theory.curves import ErrorCurve, by_size
from unmask.theory.recursion import valid_mass

LONGEST = 24  # of the lengths for fit and test
SHORTEST = 9
ROUNDING = 1e-13  # of a logarithm
MOST_TERMS = 5e9  # in the sum e(u)


@dataclass(frozen=True)
class Line:
    """intercept + slope L, through the values at two lengths; residual: the value at a third one less the line's.

    Beyond the third length the values continue with their slope there, which differs by `turn` from the line's, and
    which changes by at most D rho, D rho^2, ..: by less than `rest` = D rho / (1 - rho) in all. D is the least number
    such that every second difference so far is below D rho^-k, k lengths before the last.
    """

    intercept: float
    slope: float
    residual: float
    turn: float
    rest: float

    @classmethod
    def through(cls, values: Floats, first: int, second: int, rho: float) -> Line:
        """values (L): at lengths 1..L, the last of which is the third. rho: a lower bound on the decay of corrections.

        If second differences decay more slowly, from one half of the lengths after `first` to the other, their own
        rate is used; if they do not decay, the rest is infinite.
        """
        slope = float(values[second - 1] - values[first - 1]) / (second - first)
        intercept = float(values[first - 1]) - slope * first
        bends = np.abs(np.diff(values, 2))
        bends = np.where(bends > ROUNDING * (1 + np.abs(values).max()), bends, 0.0)

        half = (len(values) - first) // 2
        early, late = bends[-2 * half : -half].max(), bends[-half:].max()
        if late > 0:
            rho = max(rho, float((late / early) ** (1 / half)) if early > 0 else math.inf)

        rest = math.inf
        if rho < 1:
            envelope = float((bends * rho ** np.arange(len(bends))[::-1]).max())
            rest = envelope * rho / (1 - rho)
        turn = abs(float(values[-1] - values[-2]) - slope)
        return cls(intercept, slope, float(values[-1]) - intercept - slope * len(values), turn, rest)

    def at(self, length: int) -> float:
        return self.intercept + self.slope * length

    def off(self, length: int, second: int, third: int) -> float:
        """Bound on the error at a length."""
        if length <= third:
            return abs(self.residual) * max(length - second, 0) / (third - second)
        return abs(self.residual) + (length - third) * (self.turn + self.rest)


@dataclass(frozen=True)
class ExponentialSER:
    """log(1 - SER) = log B + L log kappa, and E_p[log q(x) | valid]; fitted at two lengths, tested at a third."""

    log_valid: Line
    log_likelihood: Line  # nats per sequence
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
        """The error of log(1 - SER) at the third length."""
        return self.log_valid.residual

    def ser(self, length: int) -> float:
        return -math.expm1(self.log_valid.at(length))

    def generative_nll(self, length: int) -> float:
        """E_p[-log q(x) | valid] in nats per sequence."""
        return -self.log_likelihood.at(length)

    def drift(self, length: int) -> tuple[float, float]:
        """Bounds on the errors of log(1 - SER) and of the NLL at this length."""
        places = length, self.fitted[1], self.checked
        return self.log_valid.off(*places), self.log_likelihood.off(*places)


def exponential_ser(language: Language, delta: Tensor, longest: int = LONGEST) -> ExponentialSER:
    """Fit at lengths 2/3 and 5/6 of the longest, test at the longest."""
    chain, machine = first_order(language), language.machine
    as_delta(delta)

    if chain is None or machine is None:
        raise UnmaskError(
            f"SER of {language.kind} is not known to be exponential in the length",
            "expected a first-order chain",
            "Measure it with metrics.score.",
        )
    if not primitive(machine):
        raise UnmaskError(
            "SER of this chain is not exponential in the length",
            "expected a primitive chain",
            "Estimate it with theory.recursion.ser_by_orders.",
        )
    arguments.whole("longest", longest, SHORTEST, what=": the longest length for fit and test")

    mass, log_mass = valid_mass(chain, longest, delta)
    first, second = longest * 2 // 3, longest * 5 // 6

    rho = second_eigenvalue(machine)
    both = (np.log(mass[1:]), log_mass[1:] / mass[1:])
    log_valid, log_likelihood = (Line.through(values, first, second, entries.chosen(rho, 1.0)) for values in both)
    return ExponentialSER(log_valid, log_likelihood, (first, second), longest)


def error_curve(chain: FirstOrder, length: int) -> ErrorCurve:
    """g and e, and with them the step constant C(q), exactly."""
    contradictions = _contradictions(chain, length)
    if not feasible(chain, length):
        raise UnmaskError(
            f"e(u) at length {length} has too many pairs of impossible tokens to sum",
            f"expected at most {MOST_TERMS:.0e} terms",
            "Use theory.sampled.error_curve.",
        )

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
    """Whether `error_curve` is fast enough; not if many pairs contradict each other at every distance."""
    apart = length - _contradictions(chain, length)[:, 0].astype(np.float64)
    return float((apart**2).sum() / 2 * (chain.size + 1) ** 2) <= MOST_TERMS


def _contradictions(chain: FirstOrder, length: int) -> Ints:
    """(K, 3): every (d, s, t) with P^d(s, t) = 0 and d < L."""
    zeros = np.argwhere(chain.kernels(length)[:length, :-1, :-1] == 0)
    return zeros[zeros[:, 0] > 0]


@kernel
def _contradict(kernels, contradictions, reach, out):  # type: ignore[no-untyped-def]
    """out (S+1, S+1): P^reach(a, c) sum over i and (d, s, t) of A_i(s) A_{i+d}(t), where P^d(s, t) = 0."""
    size = kernels.shape[1] - 1
    at = np.empty((reach, size))
    for a in range(size + 1):
        for c in range(size + 1):
            whole = kernels[reach, a, c]
            if whole == 0.0:
                continue

            for i in range(1, reach):
                for s in range(size):
                    at[i, s] = kernels[i, a, s] * kernels[reach - i, s, c] / whole

            total = 0.0
            for z in range(contradictions.shape[0]):
                d, s, t = contradictions[z]
                for i in range(1, reach - d):
                    total += at[i, s] * at[i + d, t]
            out[a, c] = whole * total
