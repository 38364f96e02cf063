"""The order of N steps with the least loss for joint draws, in first-order chains (theory.md 14).

The fitted joint of a chain is the chain of the fitted joints of its neighbors. So in a gap between revealed positions
l < r, a step that reveals j_1 < .. < j_k loses the sum over its neighbors i < j of

    c(i, j) = KL(q(x_i, x_j | x_l, x_r) || q(x_i | x_l, x_r) F_i .. F_{j-1}),    F_t: moves of the fit of (x_t, x_{t+1})

on average over x_l and x_r, and leaves k + 1 gaps for the later steps. With the product the same holds for
c(i, j) = I(X_i; X_j | X_l, X_r). So the least loss of n steps is a shortest path from l to r. An edge (i, j) costs
c(i, j), which is 0 at l and r, and the least loss of n - 1 steps in the gap (i, j).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.languages import Language
from unmask.languages.kernels.machine import Floats, Ints
from unmask.theory.chains import FirstOrder, first_order
from unmask.theory.statements import Statement

SWEEPS, CLOSE = 300, 1e-12
LONGEST, MOST_WORK = 64, 1.5e8  # L; L^3 S^4: some seconds
Gaps = dict[tuple[int, int], Floats]  # (l, r) -> (r-l+1, r-l+1): c(i, j), from l


def fit(pairs: Floats, allowed: Floats) -> Floats:
    """(.., S, S): the tables nearest to the products of the margins of `pairs`, with these margins, where allowed."""
    rows, columns = pairs.sum(-1, keepdims=True), pairs.sum(-2, keepdims=True)
    joint = rows * columns * allowed
    for _ in range(SWEEPS):
        joint = joint * _over(rows, joint.sum(-1, keepdims=True))
        now = joint.sum(-2, keepdims=True)
        if np.abs(now - columns).max() < CLOSE:
            break
        joint = joint * _over(columns, now)
    return joint


def _over(mass: Floats, norm: Floats) -> Floats:
    return np.divide(mass, norm, out=np.zeros(np.broadcast_shapes(mass.shape, norm.shape)), where=norm > 0)


def _divergence(q: Floats, p: Floats) -> Floats:
    """KL over the last two axes, in nats."""
    some = q > 0
    return np.asarray((q * (np.log(np.where(some, q, 1)) - np.log(np.where(some, p, 1)))).sum((-2, -1)))


def _in_gap(chain: FirstOrder, powers: Floats, gap: int, fitted: bool) -> Floats:
    """(S+1, S+1, gap+1, gap+1): c(i, j) for each x_l, or the begin, and each x_r, or the end."""
    size = chain.size
    whole = powers[gap][:, :, None, None]

    def pair(i: int, j: int) -> Floats:
        """(S+1, S+1, S, S): q(x_i, x_j | x_l, x_r)."""
        before, after = powers[i][:, None, :size, None], powers[gap - j][:size].T[None, :, None, :]
        return _over(before * powers[j - i][:size, :size] * after, whole)

    moves = {}
    if fitted:
        allowed = (chain.transition > 0).astype(float)
        for t in range(1, gap - 1):
            joint = fit(pair(t, t + 1), allowed)
            moves[t] = _over(joint, joint.sum(-1, keepdims=True))

    costs = np.zeros((size + 1, size + 1, gap + 1, gap + 1))
    for i in range(1, gap - 1):
        first = pair(i, i + 1).sum(-1)
        joint = first[..., None] * np.eye(size)  # x_i, and x_i once more
        for j in range(i + 1, gap):
            q = pair(i, j)
            if fitted:
                joint = joint @ moves[j - 1]  # q(x_i) F_i .. F_{j-1}
            else:
                joint = q.sum(-1, keepdims=True) * q.sum(-2, keepdims=True)
            costs[:, :, i, j] = _divergence(q, joint)
    return costs


@lru_cache(maxsize=4)
def gap_losses(language: Language, length: int, fitted: bool) -> Gaps:
    """c of each gap between the begin 0, the positions 1..L and the end L+1."""
    chain = first_order(language)
    if chain is None or length > LONGEST or length**3 * chain.size**4 > MOST_WORK:
        problem = f"the best order of {length} positions of {language.kind} is not known"
        raise UnmaskError(
            f"{problem}; expected a first-order chain, and at most {MOST_WORK:g} for L^3 S^4 with S symbols"
        )

    size, powers, marginals = chain.size, chain.kernels(length + 1), chain.marginals(length)
    state = np.arange(size + 1)
    begins = [state == size, *np.pad(marginals, ((0, 0), (0, 1)))]  # of each left end: the begin, or the states

    gaps: Gaps = {}
    for gap in range(2, length + 2):
        costs = _in_gap(chain, powers, gap, fitted)
        for left in range(length + 2 - gap):
            right = left + gap
            ends = (state == size) == (right == length + 1)  # the end alone after the last position, else the states
            weights = begins[left][:, None] * powers[gap] * ends  # q(x_l, x_r)
            gaps[left, right] = np.tensordot(weights, costs, 2)
    return gaps


def loss(language: Language, order: Tensor, fitted: bool = True) -> float:
    """KL(q || p_order) in nats of an order (L) of steps from 1."""
    gaps = gap_losses(language, len(order), fitted)
    total = 0.0
    shown = [0, len(order) + 1]
    for step in order.unique().tolist():
        now = (order == step).nonzero().squeeze(1).add(1).tolist()
        for left, right in pairwise(shown):
            inside = [j - left for j in now if left < j < right]
            for i, j in pairwise(inside):
                total += float(gaps[left, right][i, j])
        shown = sorted([*shown, *now])
    return total


def best(language: Language, length: int, steps: int, fitted: bool = True) -> tuple[float, Tensor]:
    """(KL(q || p_order) in nats, the order (L)) of the fixed order of at most N steps that loses least."""
    gaps = gap_losses(language, length, fitted)
    steps = min(steps, length.bit_length())  # halving every gap takes so many, one token of each gap at a time
    paid = np.full((steps + 1, length + 2, length + 2), np.inf)  # the least loss of n steps in the gap (l, r)
    paid[:, np.arange(length + 1), np.arange(1, length + 2)] = 0.0  # nothing is hidden between neighbors

    came: dict[tuple[int, int, int], Ints] = {}  # (n, l, r) -> the position before each one on its shortest path
    for n in range(1, steps + 1):
        for (left, right), costs in gaps.items():
            reach = np.zeros(right - left + 1)
            last = np.zeros(right - left + 1, np.int64)
            for j in range(1, len(reach)):
                ways = reach[:j] + costs[:j, j] + paid[n - 1, left : left + j, left + j]
                last[j] = np.argmin(ways)
                reach[j] = ways[last[j]]
            paid[n, left, right] = reach[-1]
            came[n, left, right] = last

    # the paths backwards: each leaves gaps, which have paths of one step fewer
    order = torch.zeros(length, dtype=torch.int64)
    open_gaps = [(steps, 0, length + 1)]
    while open_gaps:
        n, left, right = open_gaps.pop()
        if right == left + 1:
            continue
        j = right - left
        while j > 0:
            i = int(came[n, left, right][j])
            if i > 0:
                order[left + i - 1] = steps - n + 1
            open_gaps.append((n - 1, left + i, left + j))
            j = i
    return float(paid[steps, 0, length + 1]), order


def enough(language: Language, length: int, nats: float, fitted: bool = True) -> int:
    """The least number of steps in which a fixed order loses at most these nats."""
    counts = range(1, length.bit_length() + 1)
    return next((n for n in counts if best(language, length, n, fitted)[0] <= nats), counts[-1])


def best_order(language: Language, length: int, delta: Tensor) -> Statement:
    """No fixed order of N steps with draw='fitted' loses less than this; dynamic programming over gaps of a chain.

    Languages that are uniform on their supports, such as intervals, lose nothing in any order (joint-uniform).
    """
    value, _ = best(language, length, len(delta))
    how = f"draw='fitted', any fixed order of {len(delta)} steps, ideal denoiser"
    return Statement(value, "lower", "divergence of one order", how, "ours", "theory.md 14")
