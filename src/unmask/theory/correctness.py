"""Correctness needs a number of rounds linear in the length, and that is enough (theorems 4.3 and 4.4; theory.md 5, 6).

Enough: the paper waits until no two positions share a round, which takes N ~ L^2 / SER. Through the divergence,
N ~ (TC + DTC) / SER <= L log|V| / SER. Needed: in the interval language l positions share bits pairwise, and whatever
the schedule, two of them meet in one round with probability at least 1 - (1 - 1/N)^(l-1), and so in each interval.
"""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from unmask.core.compiled import kernel
from unmask.core.errors import UnmaskError
from unmask.core.search import first
from unmask.theory.statements import Statement, asked

IDEAL = 1 / 2  # two fair bits disagree
WIDTH = 5  # of theorem 4.4's language: |V| = 16


@asked
def all_distinct(places: int, delta: Tensor) -> Statement:
    """P(no two of some positions share a round) = L! e_L(delta), e_L the elementary symmetric polynomial.

    For equal rounds prod_{k<L} (1 - k/N).
    """
    value = float(_falling(delta.numpy(), places))
    return Statement(
        value, "exact", "distinct", "each position draws its round from the schedule", "ours", "theory.md 5"
    )


@asked
def lemma_c1(length: int, delta: Tensor) -> Statement:
    """Lemma C.1: P(two positions share a round) <= C(L,2) sum_k delta_k^2 <= C(L,2) max_k delta_k."""
    value = math.comb(length, 2) * float((delta**2).sum())
    assumption = "each position draws its round from the schedule"
    return Statement(value, "upper", "collision", assumption, "reconstructed", "lemma C.1")


@asked
def lemma_c2(length: int, learning: float) -> Statement:
    """Lemma C.2: one position a round: P(valid) >= exp(-L eps).

    The log of the mass on valid tokens is at least -KL in each round, and the exponential is convex.
    """
    assumption = "any language, no two positions in one round"
    return Statement(math.exp(-length * learning), "lower", "valid", assumption, "reconstructed", "lemma C.2")


@asked
def theorem_4_3(length: int, delta: Tensor, learning: float = 0.0) -> Statement:
    """Theorem 4.3: SER <= 1 - P(distinct) e^(-L eps), where P(no two positions share a round) is exact."""
    value = 1 - all_distinct(length, delta).value * lemma_c2(length, learning).value
    return Statement(value, "upper", "ser", f"any language, {_within(learning)}", "reconstructed", "theorem 4.3")


@asked
def theorem_4_3_rounds(length: int, ser: float) -> Statement:
    """N = ceil(L(L-1)/SER) equal rounds make a collision as rare as SER/2, and eps <= -log(1 - SER/2)/L the rest."""
    learning = -math.log1p(-ser / 2) / length
    value = math.ceil(length * (length - 1) / ser)
    assumption = f"linear schedule, {_within(learning)}, SER at most {ser:g}"
    return Statement(value, "upper", "rounds", assumption, "reconstructed", "theorem 4.3")


@asked
def linear_rounds(length: int, ser: float, between: float, learning: float = 0.0) -> Statement:
    """N = ceil((TC + DTC) / (-log(1-SER) - L eps)) equal rounds are enough: linear in L, as TC + DTC <= L log|V|.

    From SER <= 1 - exp(-KL), KL <= (TC + DTC)/N + L eps (`fluency.universal`, `statements.ser`).
    """
    room = -math.log1p(-ser) - length * learning
    if room <= 0:
        floor = -math.expm1(-length * learning)
        raise UnmaskError(f"no number of rounds is known to reach {ser:g}: the learning error alone allows {floor:.4g}")
    value = max(math.ceil(between / room - 1e-9), 1)
    assumption = f"any language, linear schedule, {_within(learning)}, SER at most {ser:g}"
    return Statement(value, "upper", "rounds", assumption, "ours", "theory.md 5")


@asked
def lemma_c5(width: int, delta: Tensor) -> Statement:
    """Lemma C.5, with a proof that holds: P(l positions in different rounds) <= (1 - 1/N)^(l-1) for every schedule.

    Of the paper's proof our copy has the words and not the formulas; as we reconstruct it, it goes through sum_k
    delta_k (1-delta_k)^(l-1), which the first position allows the others, and Jensen for x (1-x)^(l-1). That function
    is concave only up to 2/l, and delta = (.2, .8), l = 5 has .0832 > .0625: if the paper takes this step, the step is
    false; the lemma is true all the same. By Maclaurin's inequality l! e_l(delta) is largest where all delta are equal:
    prod_{k<l} (1 - k/N) <= (1-1/N)^(l-1).
    """
    rounds = len(delta)
    value = (1 - 1 / rounds) ** (width - 1)
    assumption = f"any schedule of {rounds} rounds"
    return Statement(value, "upper", "distinct", assumption, "reconstructed", "lemma C.5, by Maclaurin's inequality")


@asked
def error_chance(learning: float, coarse: bool = False) -> float:
    """p_e = 1/2 - eps: the least chance that two positions which share a bit contradict each other in one round.

    By Pinsker each of the two bits is fair up to b = sqrt(eps/2), and they disagree with probability 1/2 - 2 b b'. The
    paper's coarser step, b = ||.||_1 <= sqrt(2 eps), has 1/2 - 4 eps: 63/128 and 15/32 at its eps = 1/128.
    """
    if (least := IDEAL - (4 if coarse else 1) * learning) <= 0:
        raise UnmaskError(
            f"with a learning error of {learning:g} nats a token the two may agree always; take a smaller one"
        )
    return least


@asked
def lemma_c6(length: int, rounds: int, width: int = WIDTH, wrong: float = IDEAL) -> Statement:
    """Lemma C.6: SER >= 1 - (1 - p_e (1 - (1-1/N)^(l-1)))^(L/l), p_e the chance of an error where positions collide.

    A last, shorter interval is left out of the count, which keeps the bound.
    """
    met = -math.expm1((width - 1) * math.log1p(-1 / rounds)) if rounds > 1 else 1.0
    value = -math.expm1((length // width) * math.log1p(-wrong * met))
    assumption = f"interval language of width {width}, any schedule of {rounds} rounds, p_e = {wrong:g}"
    return Statement(value, "lower", "ser", assumption, "reconstructed", "lemma C.6")


@asked
def theorem_4_4(length: int, width: int = WIDTH, wrong: float = IDEAL, ser: float = 0.5) -> Statement:
    """Theorem 4.4 with its number: up to this many rounds SER >= 1/2, whatever the schedule: C L with C = value / L.

    The paper has |V| = 16 (l = 5), eps_learning < 1/128, which makes p_e 63/128 or 15/32 (`error_chance`), and a
    constant that exists.
    """
    last = first(lambda rounds: lemma_c6(length, rounds, width, wrong).value < ser) - 1
    if last == 0:
        raise UnmaskError(
            f"at length {length} even one round is not known to have an SER of {ser:g}; take a longer one"
        )
    assumption = f"interval language of width {width}, any schedule, p_e = {wrong:g}, SER below {ser:g}"
    return Statement(last, "lower", "rounds", assumption, "reconstructed", "theorem 4.4")


@asked
def constant_4_4(width: int = WIDTH, wrong: float = IDEAL, ser: float = 0.5) -> Statement:
    """C as L grows: (l-1)/l p_e / -log(1 - SER); .577, .541 and .568 for p_e = 1/2, 15/32 and 63/128 at l = 5."""
    value = (width - 1) / width * wrong / -math.log1p(-ser)
    assumption = f"interval language of width {width}, any schedule, p_e = {wrong:g}, as L grows"
    return Statement(value, "exact", "rounds / L", assumption, "reconstructed", "theorem 4.4")


def _within(learning: float) -> str:
    return f"learning error at most {learning:.4g} a token" if learning else "ideal denoiser"


@kernel
def _falling(delta, places):  # type: ignore[no-untyped-def]
    """j! e_j after each round: what it was, and j times delta_k for which of the j falls into round k."""
    ways = np.zeros(places + 1)
    ways[0] = 1.0
    for share in delta:
        for j in range(places, 0, -1):
            ways[j] += j * share * ways[j - 1]
    return ways[places]
