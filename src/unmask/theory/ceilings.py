"""Accuracies of samplers on parallel tasks with the ideal denoiser, so without learning errors.

One name is one token, and all right answers are equally likely. `sizes` are the numbers of positions of the steps, in
any order fixed beforehand; without them, all positions are drawn in one step. "Shuffle" has two distributions: uniform
over all n! orders, of which the given one is incorrect (orders="all"), or over the n! - 1 others (orders="other").
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, factorial, perm

import numpy as np
from scipy.stats import binom
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.languages.answers import ORDERS
from unmask.theory.correctness import INDEPENDENT
from unmask.theory.statements import Statement, checked

LATIN = {2: 2, 3: 12, 4: 576, 5: 161280, 6: 812851200}  # squares of each order
TIES = ("random", "lowest")


def _steps(size: int, sizes: Sequence[int] | None) -> list[int]:
    arguments.whole("size", size, 2, 170)  # 171! exceeds a float
    steps = [arguments.whole("sizes", step) for step in sizes or [size]]
    if sum(steps) != size:
        raise UnmaskError(f"sizes have the sum {sum(steps)}; expected {size}, the number of positions")
    return steps


def distinct(left: int, steps: Sequence[int]) -> float:
    """prod_k r (r-1) .. (r-b+1) / r^b with r = left - sum_{j<k} b_j: no step draws a name twice."""
    value = 1.0
    for step in steps:
        value *= perm(left, step) / left**step
        left -= step
    return value


def leaving(left: int, step: int) -> tuple[float, float]:
    """(stay, leave) of orders="other" while each revealed name has its own position: the step repeats that, or not.

    Each of r = left positions keeps its name with a = ((r-1)! - 1) / (r! - 1) and takes any other with
    c = (r-1)! / (r! - 1). Of b = step positions, f keep theirs and the rest takes distinct others:

        leave = sum_{f<b} C(b, f) D(b-f, r-f) a^f c^(b-f),  D(m, s) = sum_i (-1)^i C(m, i) (s-i)! / (s-m)!
    """
    if left < 2:
        return 1.0, 0.0  # the only order left is the given one
    whole, rest = factorial(left) - 1, factorial(left - 1)
    own, other = (rest - 1) / whole, rest / whole

    def displaced(m: int, s: int) -> int:
        return sum((-1) ** i * comb(m, i) * perm(s - i, m - i) for i in range(m + 1))

    orders = (comb(step, f) * displaced(step - f, left - f) * own**f * other ** (step - f) for f in range(step))
    return own**step, sum(orders)


def shuffle(size: int, sizes: Sequence[int] | None = None, orders: str = "all") -> float:
    """P(the names are in an order that differs from the given one) at temperature 1."""
    steps = _steps(size, sizes)
    if arguments.word("orders", orders, ORDERS) == "all":
        return distinct(size, steps) * (1 - 1 / factorial(size))
    right, home, left = 0.0, 1.0, size
    for k, step in enumerate(steps):
        stay, leave = leaving(left, step)
        left -= step
        right += home * leave * distinct(left, steps[k + 1 :])
        home *= stay
    return right


def greedy_shuffle(size: int, orders: str = "all", ties: str = "random") -> float:
    """The same at temperature 0 in one step, where all names (orders="all") or all others are equally likely.

    Random ties: (n! - 1) / n^n, or derangements D_n / (n-1)^n. Ties for the lowest token repeat names.
    """
    _steps(size, None)
    other = arguments.word("orders", orders, ORDERS) == "other"
    if arguments.word("ties", ties, TIES) == "lowest":
        return float(other and size == 2)
    if not other:
        return shuffle(size)
    return sum((-1) ** i * factorial(size) // factorial(i) for i in range(size + 1)) / (size - 1) ** size


def replace_random(size: int, sizes: Sequence[int] | None = None) -> float:
    """P(the new name is at one position and all others are kept) at temperature 1.

    S(r) = (b/r) (1 - 1/r)^(b-1) + (1 - 1/r)^b S(r-b): not monotone in b, because a last step of one position repairs.
    """
    value, left = 0.0, 0
    for step in reversed(_steps(size, sizes)):
        left += step
        absent = 1 - 1 / left
        value = step / left * absent ** (step - 1) + absent**step * value
    return value


def greedy_replace_random(size: int, sizes: Sequence[int] | None = None) -> float:
    """The same at temperature 0 with random ties: old names, unless one position or two are left.

    A last step of one position is right, one of two with probability 1/2, and longer ones repeat the list.
    """
    last = _steps(size, sizes)[-1]
    return {1: 1.0, 2: 0.5}.get(last, 0.0)


def insert_random(size: int) -> float:
    """n! 2^n / (n+1)^(n+1) at temperature 1 in one step; 0 at temperature 0 (n >= 2)."""
    _steps(size, None)
    return factorial(size) * 2**size / (size + 1) ** (size + 1)


def remove_random(size: int) -> float:
    """(n-1)! 2^(n-1) / n^(n-1) at temperature 1 in one step; 1 at temperature 0."""
    _steps(size, None)
    return factorial(size - 1) * 2 ** (size - 1) / size ** (size - 1)


def latin(order: int) -> float:
    """(squares of this order) / n^(n^2) in one step: each cell is uniform by symmetry, also with random ties."""
    return LATIN[arguments.whole("order", order, 2, max(LATIN))] / order**order**2


@checked
def arrangement(size: int, orders: str, delta: Tensor) -> Statement:
    """The SER of the language `arrangement`, where a position is in step k with probability delta_k.

    The positions of step k are binomial among those left; the pairs (left, all names at their own positions) are a
    Markov chain, which ends in an incorrect order as soon as a step draws a name twice.
    """
    home, away = np.zeros(size + 1), np.zeros(size + 1)  # by the number of hidden positions
    (home if orders == "other" else away)[size] = 1.0
    rest = 1.0
    for probability in delta.tolist():
        chance, rest = min(probability / rest, 1.0) if rest > 0 else 1.0, rest - probability
        before, gone = home.copy(), away.copy()
        home[:], away[:] = 0, 0
        for left in range(size + 1):
            for step, mass in enumerate(binom.pmf(range(left + 1), left, chance).tolist()):
                stay, leave = leaving(left, step) if step else (1.0, 0.0)
                home[left - step] += mass * stay * before[left]
                away[left - step] += mass * (leave * before[left] + distinct(left, [step]) * gone[left])
    value = 1 - float(away[0])
    return Statement(value, "exact", "ser", f"arrangements; {INDEPENDENT}; ideal denoiser", "ours", "theory.ceilings")
