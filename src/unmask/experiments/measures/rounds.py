"""Metrics that look for a number of rounds, or draw what theory says of all of them.

    steps_for_ter   the least N at which TER, or where that is not known ter_upper, is near the language's own
    steps_for_ser   the N at which SER has come down to a value: exactly by a closed form, else interpolated
    prediction      ser_predicted and ter_ratio_predicted at so many N that they make a curve, from theory alone

The numbers are of no sampler but the one that steps_for_ser is told; the others speak of ancestral sampling.
"""

from __future__ import annotations

import math
from itertools import count
from typing import TYPE_CHECKING, Any

from unmask.core.search import least
from unmask.experiments.measures.catalogue import Arguments, Record, metric
from unmask.experiments.measures.search import PILOT_ROWS, SPREAD, steps_at_ser, steps_between
from unmask.experiments.measures.sources import (
    about,
    check,
    curve_cost,
    ground_truth,
    kept_curve,
    prompts_of,
    record,
    row_seconds,
)

if TYPE_CHECKING:
    from torch import Tensor

    from unmask.languages import Language

CURVE_POINTS = 97  # of a predicted curve, evenly spaced in log N
CURVE_SECONDS = 1.0


def _search_cost(cell: Arguments) -> float:
    return float((2 * PILOT_ROWS + len(SPREAD) * cell["rows"]) * row_seconds(cell))


@metric("steps_for_ter", check=check, about=about, cost=curve_cost)
def steps_for_ter(
    *,
    language: str,
    digest: str = "",
    length: int = 512,
    schedule: str = "linear",
    excess: float = 0.01,
    prompt_length: int = 0,
    rows_per_prompt: int = 1,
    rows: int = 100,
    language_seed: int = 0,
    seed: int = 0,
    pruned: bool = True,
) -> list[Record]:
    """The least N at which TER is within `excess` of TER(q), relative to it."""
    from unmask import metrics
    from unmask.core.estimates import exactly

    q = ground_truth(language, language_seed, pruned, digest)
    if q.closed_form is not None and not prompt_length:
        own = metrics.ter_autoregressive(q, length).value
        value = exactly(least(lambda n: metrics.ter(q, length, schedule, n).value - own, excess * own))
    else:
        curve = kept_curve(language, length, rows, language_seed, seed, pruned, digest, prompt_length, rows_per_prompt)
        nats = (length - prompt_length) * math.log1p(excess)  # a sequence
        value = steps_between(lambda n: curve.divergence(_delta(schedule, n, q, length)), nats)
    return [record("steps_for_ter", value, _evaluations(schedule, int(value.value), q, length, prompt_length))]


@metric("steps_for_ser", check=check, about=about, cost=_search_cost)
def steps_for_ser(
    *,
    language: str,
    digest: str = "",
    length: int = 512,
    sampler: str = "ancestral",
    schedule: str = "linear",
    ser: float = 0.5,
    prompt_length: int = 0,
    rows_per_prompt: int = 1,
    rows: int = 500,
    language_seed: int = 0,
    seed: int = 0,
    pruned: bool = True,
) -> list[Record]:
    """The N at which SER is `ser`; rows: of each of the points that it is measured at."""
    from unmask import metrics
    from unmask.core.estimates import exactly
    from unmask.generation import generate

    q = ground_truth(language, language_seed, pruned, digest)
    drawn = count()

    def count_wrong(steps: int, rows_now: int) -> int:
        """Fresh rows each time, so that the points are independent."""
        how: dict[str, Any] = {"sampler": sampler, "schedule": schedule, "steps": steps, "length": length}
        where: dict[str, Any] = {"rows": rows_now, "first_row": next(drawn) * max(rows, PILOT_ROWS), "seed": seed}
        given, _ = prompts_of(q, length, prompt_length, rows_per_prompt, **where)
        return int((~metrics.rows(generate(q, **how, **where, given=given), q).valid).sum())

    if q.closed_form is not None and sampler == "ancestral" and not prompt_length:
        value = exactly(least(lambda n: metrics.ser(q, length, schedule, n).value, ser))
    else:
        value = steps_at_ser(count_wrong, ser, (length - prompt_length) // 4, rows)
    return [record("steps_for_ser", value, _evaluations(schedule, round(value.value), q, length, prompt_length))]


@metric("prediction", check=check, about=about, cost=lambda cell: CURVE_SECONDS)
def prediction(
    *,
    language: str,
    digest: str = "",
    length: int = 512,
    schedule: str = "linear",
    least: int = 8,
    most: int = 2048,
    prompt_length: int = 0,
    language_seed: int = 0,
    pruned: bool = True,
) -> list[Record]:
    """SER and TER at N from least to most: by closed forms, of first-order chains by their information curve.

    A chain's TER is the bound of that curve, and its SER the first order in the pairs that meet in one round, which at
    N = 8 is off by less than 0.001 for the 2-gram (theory.md 7.4). Nothing where theory has nothing.
    """
    from unmask import metrics
    from unmask.core.estimates import exactly
    from unmask.theory.known import curve, error_curve

    q = ground_truth(language, language_seed, pruned, digest)
    if prompt_length or not predictable(q, length):
        return []
    own = metrics.ter_autoregressive(q, length).value
    if q.closed_form is None:
        errors, information = error_curve(q, length), curve(q, length)
    found = []
    for n in sorted({round(least * (most / least) ** (i / (CURVE_POINTS - 1))) for i in range(CURVE_POINTS)}):
        delta, cost = _delta(schedule, n, q, length), _evaluations(schedule, n, q, length)
        if q.closed_form is not None:
            ser, ratio = metrics.ser(q, length, schedule, n), metrics.ter(q, length, schedule, n).value / own
        else:
            ser, ratio = errors.ser(delta), math.exp(information.divergence(delta).value / length)
        found.append(record("ser_predicted", ser, cost) | {"steps": n})
        found.append(record("ter_ratio_predicted", exactly(ratio), cost) | {"steps": n})
    return found


def predictable(q: Language, length: int) -> bool:
    from unmask.theory.chains import first_order
    from unmask.theory.exponential import feasible

    chain = first_order(q)
    return q.closed_form is not None or (chain is not None and feasible(chain, length))


def _delta(schedule: str, steps: int, q: Language, length: int) -> Tensor:
    from unmask.schedules import Fit, deltas

    return deltas(schedule, steps, Fit(q, length))


def _evaluations(schedule: str, steps: int, q: Language, length: int, given: int = 0) -> float:
    """That a row needs on average, so many of its tokens being given."""
    from unmask.cost.flops import evaluations

    return evaluations(_delta(schedule, steps, q, length), length - given)
