"""Schedules with the least loss, fitted to the curves of a language (theory.md 8).

    divergence   sum_k delta_k h(p_k)          or, with fixed sizes,  sum_k s_k f(c_k)
    errors       sum_k delta_k^2 e_k           or                     sum_k C(s_k, 2) g_k

where e_k = e(p_k) in small steps, for which it was derived. In a large step a pair may contradict each other only given
a third position of the step, so e_k is the mean of e over the step if that is more.

Fixed sizes are solved exactly, by a dynamic programme over cuts of 0..L. The cost (b-a) f(a) of a step is Monge, as f
does not rise: c(a,d) + c(b,c) - c(a,c) - c(b,d) = (d-c) (f(a) - f(b)) >= 0. So the best last cut moves right with the
end, and halving finds all of them in O(N L log L).

Independent steps are the same over a grid of p, refined near the best. The grid is fine where steps should be close. As
N grows their density tends to sqrt(-h') for the divergence, which is then (int sqrt(-h'))^2 / 2N, and to sqrt(e) for
the errors, (int sqrt(e))^2 / N: the rule delta ~ e^(-1/2). For a linear h, or a constant e, equal steps are best.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unmask.core.compiled import kernel
from unmask.languages import Language
from unmask.languages.kernels.machine import Floats, Ints
from unmask.samplers import schedules
from unmask.samplers.schedules import SCHEDULES, Fit
from unmask.theory import known
from unmask.theory.curves import ErrorCurve, InformationCurve, bernstein

Curve = Callable[[Floats], Floats]
Halves = tuple[Floats, Floats]
MESH = 4096  # points for the integral of a density
MOST_ON_GRID = 128  # steps for which the grid is searched; above this the density is a better start
MOST_REFINED = 512  # steps above which refining gains nothing
TRIED = 9  # values tried near each p, in a refinement
PASSES = 12
ROUNDING = 1e-13
MOST_WORK = 4e9  # of the exact search for the fewest errors: some seconds


@SCHEDULES.register("optimal")
def optimal(steps: int, fit: Fit) -> Tensor:
    """The least divergence for the language, at this length and number of steps."""
    return for_divergence(information_curve(fit.language, fit.length), steps, fixed_size=fit.fixed_size)


@SCHEDULES.register("fewest-pairs")
def fewest_pairs(steps: int, fit: Fit) -> Tensor:
    """The fewest pairs that contradict each other: the least SER if errors are few, as SER to first order."""
    return for_errors(error_curve(fit.language, fit.length), steps, fixed_size=fit.fixed_size)


def for_divergence(
    curve: InformationCurve, steps: int, *, fixed_size: bool = False, halves: Halves | None = None
) -> Tensor:
    """delta (N) of the least E KL(q || p_order). halves: f measured on each half of the rows, if it was measured."""

    def solve(f: Floats) -> Tensor:
        from scipy.optimize import isotonic_regression  # half a second to load

        return _least_divergence(
            InformationCurve(isotonic_regression(f, increasing=False).x, curve.method), steps, fixed_size
        )

    def price(delta: Tensor, f: Floats) -> float:
        return InformationCurve(f, curve.method).nelbo(delta, fixed_size=fixed_size).value

    return _cautious(curve.f, halves or _halves(curve.terms), solve, price)


def for_errors(curve: ErrorCurve, steps: int, *, fixed_size: bool = False) -> Tensor:
    """delta (N) of the fewest errors, if errors are few."""

    def solve(g: Floats) -> Tensor:
        return _fewest_errors(ErrorCurve(np.maximum(g, 0.0), curve.method), steps, fixed_size)

    def price(delta: Tensor, g: Floats) -> float:
        return -math.log1p(-min(ErrorCurve(g, curve.method).ser(delta, fixed_size=fixed_size).value, 1 - 1e-16))

    return _cautious(curve.g, _halves(curve.terms), solve, price)


def _cautious(
    values: Floats, halves: Halves | None, solve: Callable[[Floats], Tensor], price: Callable[[Tensor, Floats], float]
) -> Tensor:
    """The solution; for a measured curve, with the amount of smoothing that is best on the other half of the rows.

    A schedule fitted to noise ends its steps wherever the curve happens to drop. The smoothest curve is constant, and
    its schedule linear.
    """
    if halves is None:
        return solve(values)
    one, other = halves
    degrees = [0, *(2**i for i in range(len(values).bit_length()) if 2**i < len(values))]
    costs = [price(solve(smooth(one, n)), other) + price(solve(smooth(other, n)), one) for n in degrees]
    return solve(smooth(values, degrees[int(np.argmin(costs))]))


def smooth(values: Floats, degree: int) -> Floats:
    """The values of a Bernstein polynomial of a lower degree: smoother, and as monotone."""
    few = bernstein(values, np.linspace(0, 1, degree + 1))
    return bernstein(few, np.linspace(0, 1, len(values)))


def _halves(rows: Floats | None) -> Halves | None:
    return None if rows is None else (rows[::2].mean(0), rows[1::2].mean(0))


def _least_divergence(curve: InformationCurve, steps: int, fixed_size: bool) -> Tensor:
    if fixed_size:
        places, f = np.arange(curve.length + 1.0), np.append(curve.f, 0.0)
        return _whole(_cuts(places, f, min(steps, curve.length)), lambda s, c: float(s @ f[c]), steps)

    def density(u: Floats) -> Floats:
        return np.sqrt(np.maximum(-curve.slope(u), 0.0))

    starts = [by_density(density, steps)]
    if steps <= MOST_ON_GRID:
        grid = _fine(density, max(512, 8 * steps))
        starts.append(grid[_cuts(grid, curve.h(grid), steps)])
    return _best(curve.h, np.zeros_like, 1, starts, steps)


def _fewest_errors(curve: ErrorCurve, steps: int, fixed_size: bool) -> Tensor:
    """g may rise, so no cost is Monge: every cut is tried if that is fast."""
    most, sums = min(steps, curve.length), np.append(0.0, np.cumsum(curve.g))
    if fixed_size and most * curve.length**2 <= MOST_WORK:
        places, now, by_then = np.arange(curve.length + 1.0), np.append(curve.g, [0.0, 0.0]), np.append(sums, sums[-1])

        def errors(s: Ints, c: Ints) -> float:
            return float(s @ np.maximum((s - 1) * now[c], by_then[np.maximum(c + s - 1, c)] - by_then[c]))

        return _whole(_squares(places, now, by_then, most, 1), errors, steps)

    def area(u: Floats) -> Floats:
        return curve.length / 2 * bernstein(sums, u)

    def density(u: Floats) -> Floats:
        return np.sqrt(curve.e(u))

    starts = [by_density(density, steps)]
    if steps <= MOST_ON_GRID:
        grid = _fine(density, max(256, 4 * steps))
        starts.append(grid[_squares(grid, curve.e(grid), area(grid), steps, 0)])
    return _best(curve.e, area, 2, starts, steps)


def by_density(density: Curve, steps: int) -> Floats:
    """(N+1) edges 0..1 with equal integrals of a density between them: int_0^{p_k} = (k-1)/N int_0^1."""
    mesh = np.sin(np.linspace(0, np.pi / 2, MESH + 1)) ** 2  # close to 0 and 1, where curves of long sequences bend
    mass = density((mesh[1:] + mesh[:-1]) / 2) * np.diff(mesh)
    if not mass.sum() > 0:
        mass = np.diff(mesh)
    reached = np.append(0.0, np.cumsum(mass)) / mass.sum()
    edges = np.interp(np.linspace(0, 1, steps + 1), reached, mesh)
    edges[0], edges[-1] = 0.0, 1.0
    return edges


@lru_cache(maxsize=16)
def information_curve(language: Language, length: int) -> InformationCurve:
    return known.curve(language, length)


@lru_cache(maxsize=16)
def error_curve(language: Language, length: int) -> ErrorCurve:
    return known.error_curve(language, length)


def _best(height: Curve, area: Curve, power: int, starts: list[Floats], steps: int) -> Tensor:
    """The cheapest of the usual schedules and these starts, refined: never worse; linear if all are equal."""

    def cost(p: Floats) -> float:
        width = np.diff(p)
        return float(width ** (power - 1) @ np.maximum(width * height(p[:-1]), np.diff(area(p))))

    usual = [np.append(0.0, np.cumsum(schedules.deltas(name, steps).numpy())) for name in ("linear", "cosine")]
    edges = _first([*usual, *starts], cost)
    reach = 0.5  # fraction of the way to its neighbours that an inner edge may move
    for _ in range(PASSES if 1 < steps <= MOST_REFINED else 0):
        places = np.repeat(edges[:, None], TRIED, 1)
        places[1:-1] += np.linspace(-reach, reach, TRIED) * (edges[2:] - edges[:-2])[:, None] / 2
        places = places.clip(0.0, 1.0)
        chosen = _walk(places, height(places), area(places), power)
        edges = _first([edges, places[np.arange(len(edges)), chosen]], cost)
        if ((chosen[1:-1] > 0) & (chosen[1:-1] < TRIED - 1)).all():
            reach *= 0.4
    return torch.from_numpy(np.diff(edges))


def _whole(cuts: Ints, cost: Callable[[Ints, Ints], float], steps: int) -> Tensor:
    """delta (N) for whole numbers of positions, as in `Schedule.sizes`; linear's if they are as good."""
    counts = np.append(np.diff(cuts), np.zeros(steps - len(cuts) + 1, np.int64))
    linear = schedules.Schedule(schedules.deltas("linear", steps)).sizes(int(cuts[-1])).numpy()
    chosen = _first([linear, counts], lambda s: cost(s, np.cumsum(s) - s))
    return torch.from_numpy(chosen / cuts[-1])


def _first(options: list[Any], cost: Callable[[Any], float]) -> Any:
    """The first of the cheapest, up to rounding."""
    costs = np.array(list(map(cost, options)))
    return options[int(np.argmax(costs <= costs.min() + ROUNDING * np.abs(costs).max()))]


def _fine(density: Curve, points: int) -> Floats:
    """A grid that is fine where a density is high, and even elsewhere."""
    scale = float(density(np.linspace(0, 1, 65)).mean()) or 1.0
    return by_density(lambda u: density(u) + 0.1 * scale, points)


@kernel
def _cuts(at: Floats, height: Floats, steps: int) -> Ints:
    """(steps+1) indices 0..n with the least sum (at[j] - at[i]) height[i], height not rising; steps may be empty."""
    n = len(at) - 1
    cost = (at - at[0]) * height[0]
    last = np.zeros((steps, n + 1), np.int64)
    for k in range(1, steps):
        fresh, best = np.zeros(n + 1), last[k]
        stride = 1
        while 2 * stride <= n:
            stride *= 2

        while stride > 0:  # the ends between two known ones, from few to all
            for j in range(stride, n + 1, 2 * stride):
                low = best[j - stride]
                high = min(j, best[j + stride]) if j + stride <= n else j
                fresh[j] = np.inf
                for i in range(low, high + 1):
                    here = cost[i] + (at[j] - at[i]) * height[i]
                    if here < fresh[j]:
                        fresh[j], best[j] = here, i
            stride //= 2

        cost = fresh
    return _traced(last)


@kernel
def _squares(at: Floats, height: Floats, area: Floats, steps: int, less: int) -> Ints:
    """(steps+1) indices 0..n with the least sum of w max((w - less) height[i], area[j-less] - area[i]), w from i to j.

    Every last cut is tried.
    """
    n = len(at) - 1
    cost = np.full(n + 1, np.inf)
    cost[0] = 0.0
    last = np.zeros((steps, n + 1), np.int64)

    for k in range(steps):
        for j in range(n, 0, -1):  # costs before j still have one step less
            least = np.inf
            for i in range(j + 1):
                width = at[j] - at[i]
                here = cost[i] + width * max((width - less) * height[i], area[j - less] - area[i])

                if here < least:
                    least, last[k, j] = here, i
            cost[j] = least

    return _traced(last)


@kernel
def _traced(last: Ints) -> Ints:
    steps, n = last.shape[0], last.shape[1] - 1
    cuts = np.zeros(steps + 1, np.int64)
    cuts[steps] = n
    for k in range(steps - 1, 0, -1):
        cuts[k] = last[k, cuts[k + 1]]
    return cuts


@kernel
def _walk(places: Floats, height: Floats, area: Floats, power: int) -> Ints:
    """(N+1): the index, for each edge, in the cheapest ascending walk, w^(power-1) max(w height, area)."""
    edges, tried = places.shape
    cost, came = np.zeros(tried), np.zeros((edges, tried), np.int64)

    for k in range(1, edges):
        fresh = np.full(tried, np.inf)
        for j in range(tried):
            for i in range(tried):
                width = places[k, j] - places[k - 1, i]
                if width >= 0.0:
                    paid = max(width * height[k - 1, i], area[k, j] - area[k - 1, i])
                    here = cost[i] + width ** (power - 1) * paid
                    if here < fresh[j]:
                        fresh[j], came[k, j] = here, i
        cost = fresh

    chosen = np.zeros(edges, np.int64)
    chosen[edges - 1] = np.argmin(cost)
    for k in range(edges - 1, 0, -1):
        chosen[k - 1] = came[k, chosen[k]]
    return chosen
