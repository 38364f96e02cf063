"""Correctness: the number of steps needed is linear in the length (Theorems 4.3 and 4.4; theory.md 5, 6).

Upper bound: the paper requires that no two positions share a step, which takes N ~ L^2 / SER. Through the divergence,
N ~ (TC + DTC) / SER <= L log|V| / SER. Lower bound: in the interval language l positions share bits pairwise. For any
schedule, two of them meet in one step with probability at least 1 - (1 - 1/N)^(l-1), and this in each interval.

Masked diffusion or AR, by a rule without the length (theory.md 7.4, 9):

If each step has few errors, the linear schedule of N steps has 1 - SER = exp(-C(q) / N), C(q) = c L. So an SER of s
takes N = c L / lambda steps, lambda = -log(1 - s), for which a sequence needs N (1 - (1 - 1/N)^L) model calls, as the
other steps reveal nothing in it. With L / N = lambda / c, as L grows,

    model calls / L = (c / lambda) (1 - e^(-lambda / c)) = x (1 - e^(-1/x)),      x = c / lambda

which rises from 0 to 1 in x and does not contain L: only the language (c) and the target (lambda) matter. AR takes L
tokens. Let an AR token take r times as long as a model call. Masked diffusion is faster if and only if
model calls / L < r: for all x below `crossing(r)`, so for every SER above 1 - exp(-c / crossing(r)).
"""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from unmask.core.compiled import kernel
from unmask.core.errors import UnmaskError
from unmask.core.search import first
from unmask.theory.statements import Statement, checked

SMALL, LARGE = 1e-12, 1e12
IDEAL = 1 / 2  # probability that two fair bits disagree
WIDTH = 5  # of theorem 4.4's language: |V| = 16
INDEPENDENT = "each position draws its step from the schedule"


@checked
def all_distinct(places: int, delta: Tensor) -> Statement:
    """P(no two of these positions share a step) = L! e_L(delta), e_L the elementary symmetric polynomial.

    For equal steps prod_{k<L} (1 - k/N).
    """
    value = float(_falling(delta.numpy(), places))
    return Statement(value, "exact", "distinct", INDEPENDENT, "ours", "theory.md 5")


@checked
def lemma_c1(length: int, delta: Tensor) -> Statement:
    """Lemma C.1: P(two positions share a step) <= C(L,2) sum_k delta_k^2 <= C(L,2) max_k delta_k."""
    value = math.comb(length, 2) * float((delta**2).sum())
    return Statement(value, "upper", "collision", INDEPENDENT, "reconstructed", "lemma C.1")


@checked
def lemma_c2(length: int, learning: float) -> Statement:
    """Lemma C.2: with one position per step P(valid) >= exp(-L eps).

    The log of the mass on valid tokens is at least -KL in each step, and the exponential is convex.
    """
    assumption = "any language, no two positions in one step"
    return Statement(math.exp(-length * learning), "lower", "valid", assumption, "reconstructed", "lemma C.2")


@checked
def theorem_4_3(length: int, delta: Tensor, learning: float = 0.0) -> Statement:
    """Theorem 4.3: SER <= 1 - P(distinct) e^(-L eps), where P(no two positions share a step) is exact."""
    value = 1 - all_distinct(length, delta).value * lemma_c2(length, learning).value
    return Statement(value, "upper", "ser", f"any language, {_within(learning)}", "reconstructed", "theorem 4.3")


@checked
def theorem_4_3_steps(length: int, ser: float) -> Statement:
    """N = ceil(L(L-1)/SER) equal steps limit collisions to SER/2, and eps <= -log(1 - SER/2)/L the rest."""
    learning = -math.log1p(-ser / 2) / length
    value = math.ceil(length * (length - 1) / ser)
    assumption = f"linear schedule, {_within(learning)}, SER at most {ser:g}"
    return Statement(value, "upper", "steps", assumption, "reconstructed", "theorem 4.3")


@checked
def linear_steps(length: int, ser: float, between: float, learning: float = 0.0) -> Statement:
    """N = ceil((TC + DTC) / (-log(1-SER) - L eps)) equal steps are enough: linear in L, as TC + DTC <= L log|V|.

    From SER <= 1 - exp(-KL), KL <= (TC + DTC)/N + L eps (`fluency.universal`, `statements.ser`).
    """
    left = -math.log1p(-ser) - length * learning
    if left <= 0:
        floor = -math.expm1(-length * learning)
        raise UnmaskError(
            f"no number of steps is known to reach an SER of {ser:g}",
            f"expected at least {floor:.4g}, which the learning error alone allows",
        )
    value = max(math.ceil(between / left - 1e-9), 1)
    assumption = f"any language, linear schedule, {_within(learning)}, SER at most {ser:g}"
    return Statement(value, "upper", "steps", assumption, "ours", "theory.md 5")


@checked
def lemma_c5(width: int, delta: Tensor) -> Statement:
    """Lemma C.5, with a corrected proof: P(l positions in different steps) <= (1 - 1/N)^(l-1) for every schedule.

    Our copy has the words of the paper's proof, but not the formulas. As we reconstruct it, it uses
    sum_k delta_k (1-delta_k)^(l-1), which the first position leaves to the others, and Jensen for x (1-x)^(l-1). That
    function is concave only up to 2/l, and delta = (.2, .8), l = 5 has .0832 > .0625: if the paper takes this step, it
    is false; the lemma still holds. By Maclaurin's inequality l! e_l(delta) is largest for equal delta:
    prod_{k<l} (1 - k/N) <= (1-1/N)^(l-1).
    """
    steps = len(delta)
    value = (1 - 1 / steps) ** (width - 1)
    assumption = f"any schedule of {steps} steps"
    return Statement(value, "upper", "distinct", assumption, "reconstructed", "lemma C.5, by Maclaurin's inequality")


@checked
def error_chance(learning: float, coarse: bool = False) -> float:
    """p_e = 1/2 - eps: the least probability that two positions which share a bit contradict each other in one step.

    By Pinsker each of the two bits is fair up to b = sqrt(eps/2), and they disagree with probability 1/2 - 2 b b'. The
    paper's coarser step, b = ||.||_1 <= sqrt(2 eps), has 1/2 - 4 eps: 63/128 and 15/32 at its eps = 1/128.
    """
    factor = 4 if coarse else 1
    if (least := IDEAL - factor * learning) <= 0:
        raise UnmaskError(
            f"learning is {learning:g} nats per token, so the two bits may always agree",
            f"expected below {IDEAL / factor:g}",
        )
    return least


@checked
def lemma_c6(length: int, steps: int, width: int = WIDTH, wrong: float = IDEAL) -> Statement:
    """Lemma C.6: SER >= 1 - (1 - p_e (1 - (1-1/N)^(l-1)))^(L/l), p_e the probability of an error in a collision.

    A shorter last interval is not counted, which keeps the bound.
    """
    met = -math.expm1((width - 1) * math.log1p(-1 / steps)) if steps > 1 else 1.0
    value = -math.expm1((length // width) * math.log1p(-wrong * met))
    assumption = f"interval language of width {width}, any schedule of {steps} steps, p_e = {wrong:g}"
    return Statement(value, "lower", "ser", assumption, "reconstructed", "lemma C.6")


@checked
def theorem_4_4(length: int, width: int = WIDTH, wrong: float = IDEAL, ser: float = 0.5) -> Statement:
    """Theorem 4.4 with its number: up to this number of steps SER >= 1/2, for any schedule: C L with C = value / L.

    The paper has |V| = 16 (l = 5), eps_learning < 1/128, for which p_e is 63/128 or 15/32 (`error_chance`), and a
    constant that exists.
    """
    last = first(lambda steps: lemma_c6(length, steps, width, wrong).value < ser) - 1
    if last == 0:
        raise UnmaskError(
            f"length is {length}: even for one step an SER of {ser:g} is not proven", "expected a longer sequence"
        )
    assumption = f"interval language of width {width}, any schedule, p_e = {wrong:g}, SER below {ser:g}"
    return Statement(last, "lower", "steps", assumption, "reconstructed", "theorem 4.4")


@checked
def constant_4_4(width: int = WIDTH, wrong: float = IDEAL, ser: float = 0.5) -> Statement:
    """C as L grows: (l-1)/l p_e / -log(1 - SER); .577, .541 and .568 for p_e = 1/2, 15/32 and 63/128 at l = 5."""
    value = (width - 1) / width * wrong / -math.log1p(-ser)
    assumption = f"interval language of width {width}, any schedule, p_e = {wrong:g}, as L grows"
    return Statement(value, "exact", "steps / L", assumption, "reconstructed", "theorem 4.4")


def calls_per_token(x: float) -> float:
    """x (1 - e^(-1/x)): model calls per token, where x = c / lambda."""
    return -x * math.expm1(-1 / x) if x > 0 else 0.0


def model_calls_per_token(constant: float, ser: float) -> float:
    """Model calls per token for an SER; constant: c(q) = C(q) / L."""
    _check(constant)
    if not 0 < ser < 1:
        raise UnmaskError(f"ser is {ser}; expected a number between 0 and 1")
    return calls_per_token(constant / -math.log1p(-ser))


def crossing(ratio: float) -> float:
    """The x with this number of model calls per token: x (1 - e^(-1/x)) = r, for r between 0 and 1."""
    from scipy.optimize import brentq  # half a second to load

    if not 0 < ratio < 1:
        raise UnmaskError(f"ratio is {ratio}; expected AR token time / model call time, between 0 and 1")
    return float(brentq(lambda x: calls_per_token(x) - ratio, SMALL, LARGE, xtol=1e-15, rtol=1e-14))


def ser_at(constant: float, ratio: float) -> float:
    """The SER at which both are equally fast: masked diffusion is faster if the target allows more errors.

    0 if it is always faster: an AR token takes longer than a model call, or there are no errors to avoid.
    """
    _check(constant)
    return 0.0 if ratio >= 1 or constant == 0 else -math.expm1(-constant / crossing(ratio))


def _check(constant: float) -> None:
    if not 0 <= constant < math.inf:
        raise UnmaskError(f"constant is {constant}; expected c(q) = C(q) / L, 0 or a positive number")


def _within(learning: float) -> str:
    return f"learning error at most {learning:.4g} nats per token" if learning else "ideal denoiser"


@kernel
def _falling(delta, places):  # type: ignore[no-untyped-def]
    """j! e_j after each step: its value before, plus j times delta_k for the one of the j in step k."""
    ways = np.zeros(places + 1)
    ways[0] = 1.0
    for fraction in delta:
        for j in range(places, 0, -1):
            ways[j] += j * fraction * ways[j - 1]
    return ways[places]
