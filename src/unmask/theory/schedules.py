"""Schedules fitted to a language, at a length and a number of steps (theory.md 8), by name."""

from __future__ import annotations

from torch import Tensor

from unmask.schedules import SCHEDULES, Fit
from unmask.theory.least_ser import least_ser
from unmask.theory.optimal import error_curve, for_divergence, for_errors, geometric, information_curve


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
    """The least SER in a search, for languages with fast exact SER: tiny ones, closed forms, chains."""
    return least_ser(fit.language, fit.length, steps, fit.fixed_size)


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
