"""Schedules fitted to a language, at a length and a number of steps (theory.md 8), by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.languages import Language
from unmask.languages.kernels.machine import Floats
from unmask.samplers import schedules
from unmask.samplers.schedules import SCHEDULES, Fit
from unmask.theory import known
from unmask.theory.chains import first_order
from unmask.theory.gaps import valid_mass
from unmask.theory.optimal import error_curve, for_divergence, for_errors, geometric, information_curve
from unmask.theory.partitions import partitions, tiny

LOOKS = 500  # computations of SER
MOST_WORK = 3e10  # products in all of them: some tens of seconds
NOTHING = 1e-12  # least fraction of a step
MOST_STEPS = 32


@SCHEDULES.register("optimal")
def optimal(steps: int, fit: Fit) -> Tensor:
    """The least divergence for the language, at this length and number of steps."""
    return for_divergence(information_curve(fit.language, fit.length), steps, fixed_size=fit.fixed_size)


@SCHEDULES.register("fewest-pairs")
def fewest_pairs(steps: int, fit: Fit) -> Tensor:
    """The fewest pairs that contradict each other: the least SER if errors are few, as SER to first order."""
    return for_errors(error_curve(fit.language, fit.length), steps, fixed_size=fit.fixed_size)


@SCHEDULES.register("optimal-ser")
def optimal_ser(steps: int, fit: Fit) -> Tensor:
    """The least SER in a search, for languages with fast exact SER: tiny ones, closed forms, chains.

    `fewest-pairs` minimises the errors of pairs, sum_k delta_k^2 e(p_k), which is -log(1 - SER) to first order. If
    errors are many it need not have the least SER, nor less than linear or the least divergence. Here SER is computed
    at every step of a search over softmax(z), z in R^N, that starts from the best of these, so it is never worse. SER
    is not convex in delta: a global minimum is proven only for the interval language, where linear is best.
    """
    if fit.fixed_size:
        problem = "optimal-ser has no steps of fixed size; expected positions with random steps"
        raise UnmaskError(f"{problem}. Use fewest-pairs for fixed sizes.")
    language, length, linear = fit.language, fit.length, schedules.deltas("linear", steps)
    if language.closed_form is not None and language.width is not None:
        return linear
    ser = _exact(language, length, linear)
    curve, errors = information_curve(language, length), error_curve(language, length)
    starts = [linear, schedules.deltas("cosine", steps), for_divergence(curve, steps), for_errors(errors, steps)]
    best = min(starts, key=ser)
    if steps == 1:
        return best

    def cost(z: Floats) -> float:
        return ser(torch.softmax(torch.from_numpy(z), 0))

    begin = np.log(best.clamp(min=NOTHING).numpy())
    search = minimize(cost, begin, method="Powell", options={"maxfev": LOOKS, "xtol": 1e-7, "ftol": 1e-12})
    best_found = torch.softmax(torch.from_numpy(search.x), 0)
    return best_found if ser(best_found) < ser(best) - NOTHING else best


def _exact(language: Language, length: int, delta: Tensor) -> Callable[[Tensor], float]:
    """delta (N) -> SER, if `LOOKS` computations of it are fast enough."""
    if tiny(language, length):
        return partitions(language, length).ser
    chain, steps = first_order(language), len(delta)
    if chain is not None and steps <= MOST_STEPS and LOOKS * known.work(chain, length, delta) <= MOST_WORK:
        return lambda trial: 1 - float(valid_mass(chain, length, trial)[0][-1])
    problem = f"SER of {language.kind} at length {length} in {steps} steps has no exact value, or takes too long"
    raise UnmaskError(f"{problem}. Use fewest-pairs, which is equal if errors are few.")


@SCHEDULES.register("geometric-tc")
def geometric_tc(steps: int, fit: Fit) -> Tensor:
    """delta_(k+1) = delta_k / (1 + eta), eta from TC and DTC: for a language of small TC."""
    curve = information_curve(fit.language, fit.length)
    return geometric(curve.total_correlation, curve.dual_total_correlation, steps, rising=False)[0]


@SCHEDULES.register("geometric-dtc")
def geometric_dtc(steps: int, fit: Fit) -> Tensor:
    """delta_(k+1) = (1 + eta) delta_k, eta from TC and DTC: for a language of small DTC."""
    curve = information_curve(fit.language, fit.length)
    return geometric(curve.total_correlation, curve.dual_total_correlation, steps, rising=True)[0]
