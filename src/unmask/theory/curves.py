"""The two curves of a language: the cost of a step in divergence, and in errors (theory.md 7.2, 7.4).

    h(u) = sum_j E_R H(X_j | X_R)                     f(k) = the mean of H(X_j | X_R) over j and over |R| = k
    e(u) = sum_{i<j} E_R P(i and j contradict)        g(k) = the mean of that over pairs and over |R| = k

where R contains every other position with probability u. Two positions contradict each other if tokens drawn
independently for them from q(. | x_R) have q(x_i, x_j | x_R) = 0. A set of binomial size is a mixture of sets of fixed
sizes, so both curves are Bernstein polynomials, determined by f and g:

    h(u) = L sum_k Binom(L-1, u)(k) f(k)              int h = sum_k f(k) = H(q)
    e(u) = C(L,2) sum_k Binom(L-2, u)(k) g(k)         int e = (L/2) sum_k g(k) = C(q)

For delta_k revealed at step k and p_k before it, s_k and c_k for fixed numbers:

    E KL(q || p_order) = sum_k delta_k h(p_k) - H           or  sum_k s_k f(c_k) - H
    1 - SER ~ exp(-sum_k delta_k^2 e(p_k))                  or  exp(-sum_k C(s_k, 2) g(c_k)),  if errors are few

`theory.known` computes the curves of a language: `curve(language, length)` and `error_curve(language, length)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from unmask.core.compiled import kernel
from unmask.core.entries import chosen, taken
from unmask.core.errors import UnmaskError
from unmask.core.estimates import LEVEL, Estimate, exactly
from unmask.core.means import mean
from unmask.languages import Language
from unmask.languages.kernels.machine import Floats
from unmask.samplers.schedules import Fit, Schedule, ScheduleLike, deltas

NEGLIGIBLE = 1e-20  # of a binomial distribution, relative to its mode
NOTHING = 1e-40  # a probability that changes no mean


@dataclass(frozen=True, eq=False)
class Measured:
    """The rows x ~ q behind a curve, of a language or of continuations of prompts.

    terms (rows, L): cost of the k-th reveal of a row in nats; sizes (rows): |x|; ideal (rows): total cost of a row for
    the ideal denoiser, if it is not the sum of its terms. With given tokens, hidden (rows) is the number of other
    tokens: a row has that number of terms, then zeros. prompt (rows) numbers the prompts; intervals are over prompts.
    """

    terms: Tensor
    sizes: Tensor
    ideal: Tensor | None = None
    hidden: Tensor | None = None
    prompt: Tensor | None = None

    def __repr__(self) -> str:
        return f"<Measured of {len(self.terms)} rows of {self.terms.shape[1]} tokens>"

    @cached_property
    def f(self) -> Floats:
        """(L) mean over the rows with more than k hidden positions."""
        if self.hidden is None:
            return np.asarray(self.terms.mean(0))
        there = self.hidden.unsqueeze(1) > torch.arange(self.terms.shape[1])
        return np.asarray(self.terms.sum(0) / there.sum(0).clamp(min=1))

    @property
    def entropy(self) -> Tensor:
        """(rows) cost for the ideal denoiser, whose mean is H(q)."""
        return chosen(self.ideal, self.terms.sum(1))

    def paid(self, weights: Callable[[int], Floats]) -> Tensor:
        """(rows): cost in nats of a schedule, whose weights are a function of the number of hidden positions."""
        if self.hidden is None:
            return self.terms @ torch.from_numpy(weights(self.terms.shape[1]))
        paid = torch.zeros(len(self.terms), dtype=torch.float64)
        for count in self.hidden.unique().tolist():
            at = self.hidden == count
            paid[at] = self.terms[at, :count] @ torch.from_numpy(weights(count))
        return paid


@dataclass(frozen=True, eq=False)
class InformationCurve:
    """h and f, in nats: exact, or measured on rows, which are stored. language: the target of fitted schedules.

    A schedule is a name with its number of steps, or delta (N); with fixed_size its steps reveal fixed numbers.
    """

    f: Floats  # (L)
    method: str
    rows: Measured | None = None
    language: Language | None = None

    def __repr__(self) -> str:
        return f"<InformationCurve of {self.length} tokens, {self.method}: {self.f[0]:.4g} to {self.f[-1]:.4g} nats>"

    @property
    def length(self) -> int:
        return len(self.f)

    @property
    def terms(self) -> Floats | None:
        """(rows, L), with f as the mean if no tokens were given."""
        return None if self.rows is None else np.asarray(self.rows.terms)

    def h(self, u: ArrayLike) -> Floats:
        """h(u) at any number of u in [0, 1]."""
        return self.length * bernstein(self.f, u)

    def slope(self, u: ArrayLike) -> Floats:
        """h'(u) = L (L-1) sum_k Binom(L-2, u)(k) (f(k+1) - f(k))."""
        return self.length * (self.length - 1) * bernstein(np.diff(self.f), u)

    @cached_property
    def entropy(self) -> Estimate:
        """H(q) = int h, the area under the curve of the ideal denoiser."""
        if self.rows is None:
            return exactly(float(self.f.sum()), f"exact: {self.method}")
        return mean(self.rows.entropy, method=self.method, groups=self.rows.prompt)

    @property
    def total_correlation(self) -> float:
        """TC = sum_j H(X_j) - H = int (h(0) - h)."""
        return self.length * float(self.f[0]) - self.entropy.value

    @property
    def dual_total_correlation(self) -> float:
        """DTC = H - sum_j H(X_j | all others) = int (h - h(1))."""
        return self.entropy.value - self.length * float(self.f[-1])

    def nelbo(self, schedule: ScheduleLike, steps: int | None = None, *, fixed_size: bool = False) -> Estimate:
        """Nats per sequence, sum_k delta_k h(p_k): E[-log p_order(x)] over x ~ q and orders, at least E[-log p(x)]."""
        weights = self._weights(schedule, steps, fixed_size)
        if self.rows is None:
            return exactly(float(self.f @ weights(self.length)), f"exact: {self.method}")
        return mean(self.rows.paid(weights), method=self.method, groups=self.rows.prompt)

    def divergence(self, schedule: ScheduleLike, steps: int | None = None, *, fixed_size: bool = False) -> Estimate:
        """Nats per sequence: E KL(q || p_order) over orders, an upper bound on KL(q || p); H is from the same rows."""
        weights = self._weights(schedule, steps, fixed_size)
        if self.rows is None:
            return exactly(float(self.f @ (weights(self.length) - 1)), f"exact: {self.method}")
        return mean(self.rows.paid(weights) - self.rows.entropy, method=self.method, groups=self.rows.prompt)

    def ter_upper(self, schedule: ScheduleLike, steps: int | None = None, *, fixed_size: bool = False) -> Estimate:
        """2^(NELBO_N / L) in bits: an upper bound on TER = 2^E[-log2 p(x)/|x|]."""
        if self.rows is None:
            if self.language is not None and self.language.end is not None:
                raise UnmaskError(
                    f"{self.language.kind} varies in length, and this curve has no rows with their sizes",
                    "expected a measured one",
                    "Use theory.sampled.information_curve.",
                )
            return self.nelbo(schedule, steps, fixed_size=fixed_size).map(lambda nats: math.exp(nats / self.length))
        bits = self.rows.paid(self._weights(schedule, steps, fixed_size)) / self.rows.sizes / math.log(2)
        some = self.rows.sizes > 0  # a row whose end was given has no token to predict
        groups = taken(self.rows.prompt, some)
        return mean(bits[some], method=self.method, groups=groups).map(lambda value: 2.0**value)

    def ser_upper(self, schedule: ScheduleLike, steps: int | None = None, *, fixed_size: bool = False) -> Estimate:
        """SER <= 1 - exp(-KL(q || p)) <= 1 - exp(-E_tau KL) (theory.md 2)."""
        nats = self.divergence(schedule, steps, fixed_size=fixed_size)
        return nats.map(lambda value: -math.expm1(-max(value, 0.0)))

    def _weights(self, schedule: ScheduleLike, steps: int | None, fixed_size: bool) -> Callable[[int], Floats]:
        fit = None if self.language is None else Fit(self.language, self.length, fixed_size)
        delta = deltas(schedule, steps, fit)
        return lambda length: weights(length, delta, fixed_size)


def weights(length: int, delta: Tensor, fixed_size: bool = False) -> Floats:
    """(L) the weight of each f(k) in the cost of a schedule: all ones would be H(q)."""
    if not fixed_size:
        return length * _mixture(length, Schedule(delta).p.numpy(), delta.numpy())
    out = np.zeros(length)
    counts, begun = _fixed(delta, length)
    out[begun] = counts
    return out


@dataclass(frozen=True)
class ErrorCurve:
    """e and g. A measured curve also has its terms (rows, L-1), whose mean over rows is g."""

    g: Floats  # (L-1)
    method: str
    terms: Floats | None = None

    def __repr__(self) -> str:
        return f"<ErrorCurve of {self.length} tokens, {self.method}>"

    @property
    def length(self) -> int:
        return len(self.g) + 1

    @property
    def pairs(self) -> int:
        return math.comb(self.length, 2)

    def e(self, u: ArrayLike) -> Floats:
        """e(u) at any number of u in [0, 1]."""
        return self.pairs * bernstein(self.g, u)

    @cached_property
    def constant(self) -> Estimate:
        """C(q) = int e, the step constant: N SER -> C(q) for the linear schedule; c(q) = C(q) / L."""
        return self._total(np.full(len(self.g), self.length / 2))

    def ser(self, delta: Tensor, *, fixed_size: bool = False) -> Estimate:
        """1 - exp(-sum_k delta_k^2 e(p_k)): correct to first order, if errors are few and far from each other."""
        if fixed_size:
            weights = np.zeros(len(self.g) + 1)
            counts, begun = _fixed(delta, self.length)
            weights[begun] = counts * (counts - 1) / 2
            weights = weights[:-1]  # a last step of one position has no contradiction
        else:
            weights = self.pairs * _mixture(len(self.g), Schedule(delta).p.numpy(), delta.numpy() ** 2)
        total = self._total(weights)
        first_order = Estimate(total.value, total.low, total.high, total.n, LEVEL, f"first order: {self.method}")
        return first_order.map(lambda errors: -math.expm1(-errors))

    def _total(self, weights: Floats) -> Estimate:
        """weights @ g: exact, or with an interval from the rows behind g."""
        if self.terms is None:
            return exactly(float(self.g @ weights), f"exact: {self.method}")
        return mean(torch.from_numpy(self.terms @ weights), method=self.method)


def _fixed(delta: Tensor, length: int) -> tuple[Floats, np.ndarray]:
    """(s_k, c_k) of the steps that reveal positions, for fixed sizes."""
    counts = Schedule(delta).sizes(length).numpy()
    begun = np.cumsum(counts) - counts
    return counts[counts > 0].astype(np.float64), begun[counts > 0]


def bernstein(coefficients: Floats, u: ArrayLike) -> Floats:
    """sum_k Binom(n, u)(k) c(k) for coefficients c (n+1), at any number of u; zero without coefficients."""
    points = np.asarray(u, np.float64)
    out = np.zeros(points.size)
    if len(coefficients):
        _bernstein(np.ascontiguousarray(coefficients, np.float64), points.reshape(-1), out)
    return out.reshape(points.shape)


def by_size(patterns: Floats, places: int) -> Floats:
    """(n+1): the mean over |R| = k of a sum of patterns, which is the Bernstein form of sum W(r,m) u^r (1-u)^m.

    patterns (r, m): the value counted if r given positions are in R and m others are not. With falling factorials
    P(that) = [k]_r [n-k]_m / [n]_(r+m).

    It falls with m, fastest for large k: these are left out as soon as it is below 1e-40, so that the time is about
    n log n, and not n^2.
    """
    k = np.arange(places + 1.0)
    means, revealed = np.zeros(places + 1), np.ones(places + 1)

    for r in range(min(len(patterns), places + 1)):
        chance, end = revealed.copy(), places + 1
        for m in range(min(patterns.shape[1], places - r + 1)):
            means[:end] += patterns[r, m] * chance[:end]
            chance[:end] *= np.maximum(places - k[:end] - m, 0) / max(places - r - m, 1)

            while end and chance[end - 1] < NOTHING:
                end -= 1
        revealed *= np.maximum(k - r, 0) / max(places - r, 1)

    return means


@kernel
def _distribution(places, u, weights):  # type: ignore[no-untyped-def]
    """Set weights (n+1) to Binom(n, u), from the mode outwards, by ratios; return (first, last) of non-negligible ones.

    Normalised by its own sum, which is more accurate than logarithms of factorials.
    """
    mode = min(int((places + 1) * u), places)
    weights[mode] = total = 1.0

    last = mode
    while last < places and weights[last] > NEGLIGIBLE:
        weights[last + 1] = weights[last] * (places - last) / (last + 1) * (u / (1 - u))
        last += 1
        total += weights[last]

    first = mode
    while first > 0 and weights[first] > NEGLIGIBLE:
        weights[first - 1] = weights[first] * first / (places - first + 1) * ((1 - u) / u)
        first -= 1
        total += weights[first]

    for k in range(first, last + 1):
        weights[k] /= total
    return first, last


@kernel
def _bernstein(coefficients, points, out):  # type: ignore[no-untyped-def]
    weights = np.empty(coefficients.shape[0])
    for i in range(points.shape[0]):
        first, last = _distribution(coefficients.shape[0] - 1, points[i], weights)
        for k in range(first, last + 1):
            out[i] += weights[k] * coefficients[k]


@kernel
def _mixture(size, points, factors):  # type: ignore[no-untyped-def]
    """(size): sum_i factors(i) Binom(size - 1, points(i))."""
    weights, out = np.empty(size), np.zeros(size)
    for i in range(points.shape[0] if size > 0 else 0):
        first, last = _distribution(size - 1, points[i], weights)
        for k in range(first, last + 1):
            out[k] += factors[i] * weights[k]
    return out
