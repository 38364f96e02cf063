"""The headroom of a place: the least divergence that any choose-then-sample sampler can have in N evaluations a row.

`theory.best_orders.headroom` knows it of first-order chains and of intervals: no sampler that chooses places first and
draws their tokens after pays less on average over its luck, whatever it looks at. Each seed has a language of its own,
and what samplers pay is a mean over them: so is this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from unmask.core.estimates import exactly
from unmask.experiments.board.joining import Measured
from unmask.experiments.board.measures import Need, need
from unmask.kernels.machine import Floats
from unmask.languages import load
from unmask.languages.presets import varied
from unmask.theory.best_orders import headroom

ROUNDS = 6  # up to which the least is found; with more there is next to nothing left to lose

Best = Mapping[tuple[str, int], Floats]  # language and length -> nats a sequence at N = 1..


def best(found: Sequence[Measured]) -> Best:
    """Of every place where it is known; not of what a network has learned."""
    least: dict[tuple[str, int], Floats] = {}
    for name, length, seeds in dict.fromkeys((m.language, m.length, m.language_seeds) for m in found):
        each = [headroom(load(varied(name, seed=seed)), length, ROUNDS) for seed in seeds]
        known = [values for values in each if values is not None]
        if each and len(known) == len(each):
            least[name, length] = np.mean(known, axis=0)
    return least


def need_of(least: Floats, target: float) -> Need:
    """The evaluations at which the best meets a divergence, on the same scale as any sampler's."""
    return need([float(n) for n in range(1, len(least) + 1)], [exactly(float(nats)) for nats in least], target)
