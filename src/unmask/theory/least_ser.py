"""The schedule of the least SER, where SER itself is exact and quick to compute (theory.md 7.4, 7.7).

`fewest-pairs` minimises the errors of pairs, sum_k delta_k^2 e(p_k), which is -log(1 - SER) to first order: where
errors are many it need not have the least SER, nor less than linear or the least divergence. Here SER is computed at
every step of a search over softmax(z), z in R^N, from the best of all of those on, so that it is no more than theirs.
SER is not convex in delta: that no other schedule has less is proven for the interval language alone, where linear is
best.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from unmask import schedules
from unmask.core.errors import UnmaskError
from unmask.kernels.machine import Floats
from unmask.languages import Language
from unmask.theory import known
from unmask.theory.chains import first_order
from unmask.theory.gaps import valid_mass
from unmask.theory.optimal import error_curve, for_divergence, for_errors, information_curve
from unmask.theory.partitions import partitions, tiny

LOOKS = 500  # at SER
MOST_WORK = 3e10  # products of all looks: some tens of seconds
NOTHING = 1e-12  # a share that is left to no round
MOST_ROUNDS = 32


def least_ser(language: Language, length: int, steps: int, fixed_size: bool = False) -> Tensor:
    """delta (N) of the least SER that a search finds: no more than that of linear, cosine, optimal and fewest-pairs."""
    if fixed_size:
        raise UnmaskError("optimal-ser is for positions that draw their rounds; of fixed sizes take fewest-pairs")
    linear = schedules.deltas("linear", steps)
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
    found = minimize(cost, begin, method="Powell", options={"maxfev": LOOKS, "xtol": 1e-7, "ftol": 1e-12})
    reached = torch.softmax(torch.from_numpy(found.x), 0)
    return reached if ser(reached) < ser(best) - NOTHING else best


def _exact(language: Language, length: int, delta: Tensor) -> Callable[[Tensor], float]:
    """delta (N) -> SER, where so many looks at it take no longer than that."""
    if tiny(language, length):
        return partitions(language, length).ser
    chain, rounds = first_order(language), len(delta)
    if chain is not None and rounds <= MOST_ROUNDS and LOOKS * known.work(chain, length, delta) <= MOST_WORK:
        return lambda shares: 1 - float(valid_mass(chain, length, shares)[0][-1])
    what = f"the SER of {language.kind} at length {length} in {rounds} rounds is not exact, or takes too long to search"
    raise UnmaskError(f"{what}; take fewest-pairs, which is the same where errors are few")
