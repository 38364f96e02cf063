"""Jobs that search for a number of steps, or compute the theory's curve over N.

    steps_for_ter   the least N at which TER, or else its bound ter_upper, is near the language's own
    steps_for_ser   the N at which SER falls to a value, and the distance of bigrams there
    prediction      the curves ser_predicted and ter_ratio_predicted over N, from theory alone

steps_for_ser takes any sampler; the others assume ancestral sampling.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from unmask.core import arguments
from unmask.core.search import least
from unmask.experiments.cell import Record, job
from unmask.experiments.jobs.samples import curve_of
from unmask.experiments.jobs.search import PILOT_ROWS, steps_at_ser, steps_between, steps_on_grid
from unmask.experiments.jobs.sources import (
    Amount,
    Pace,
    Sampling,
    Source,
    about,
    check,
    delta,
    generated,
    record,
)

if TYPE_CHECKING:
    from unmask.core.estimates import Estimate
    from unmask.languages import Language
    from unmask.metrics import Bigrams

CURVE_POINTS = 97  # points of a predicted curve, evenly spaced in log N


def _calls(source: Source, schedule: str, steps: int, prompt_length: int = 0) -> float:
    """Mean number of model calls per row."""
    from unmask.diagnosis.flops import model_calls

    return model_calls(delta(source, Pace(steps, schedule)), source.length - prompt_length)


@job(check=check, about=about)
def steps_for_ter(
    source: Source, amount: Amount = Amount(rows=100), schedule: str = "linear", excess: float = 0.01
) -> list[Record]:
    """The least N at which TER is within `excess` of TER(q), relative to it."""
    from unmask import metrics
    from unmask.core.estimates import exactly

    q, length = source.q, source.length
    if q.closed_form is not None and not amount.prompt_length:
        own = metrics.ter_autoregressive(q, length).value
        value = exactly(least(lambda n: metrics.ter(q, length, schedule, n).value - own, excess * own))
    else:
        nats = (length - amount.prompt_length) * math.log1p(excess)  # a sequence
        curve = curve_of(source, amount)
        value = steps_between(lambda n: curve.divergence(delta(source, Pace(n, schedule))), nats)
    return [record("steps_for_ter", value, _calls(source, schedule, int(value.value), amount.prompt_length))]


class Counted(NamedTuple):
    """Generated rows at one N: how many are impossible, their model calls, and their bigrams."""

    impossible: int
    model_calls: float
    pairs: Bigrams | None


def _check_ser(source: Source, pace: Pace, amount: Amount, sampler: str, most: int) -> None:
    arguments.steps(most, "most")
    check(source, pace, amount, sampler)


@job(check=_check_ser, about=about)
def steps_for_ser(
    source: Source,
    amount: Amount = Amount(rows=500),
    schedule: str = "linear",
    sampler: str = "ancestral",
    ser: float = 0.5,
    most: int = 512,
) -> list[Record]:
    """The N at which SER is `ser`; rows: sequences at each measured N. most: the largest N, for other samplers.

    For ancestral sampling it is exact with a closed form, else interpolated; for others the least measured N, or a note
    if `most` is not enough. Sampled rows at about this N also give the distance of bigrams.
    """
    from unmask import metrics
    from unmask.core.estimates import exactly

    q, length, drawn = source.q, source.length, count()
    seen: dict[int, Counted] = {}

    def fresh(steps: int, rows: int) -> int:
        """Each call draws fresh rows, so that the points are independent."""
        first = next(drawn) * max(amount.rows, PILOT_ROWS)
        seen[steps] = _counted(source, amount, Sampling(sampler, schedule, steps), rows, first)
        return seen[steps].impossible

    def same(steps: int, rows: int) -> int:
        """The first rows, which the other values of `ser` use too."""
        seen[steps] = _counted(source, amount, Sampling(sampler, schedule, steps), rows, 0)
        return seen[steps].impossible

    if sampler != "ancestral":
        needed = steps_on_grid(same, ser, amount.rows, most)
        return [absent(ser, most)] if needed is None else described(needed, seen[int(needed.value)])
    if q.closed_form is not None and not amount.prompt_length:
        value = exactly(least(lambda n: metrics.ser(q, length, schedule, n).value, ser))
    else:
        value = steps_at_ser(fresh, ser, (length - amount.prompt_length) // 4, amount.rows)
    nearest = seen[min(seen, key=lambda n: abs(n - value.value))] if seen else Counted(0, 0.0, None)
    calls = _calls(source, schedule, round(value.value), amount.prompt_length)
    return described(value, nearest._replace(model_calls=calls))


@lru_cache(maxsize=64)  # cells that differ in `ser` share rows
def _counted(source: Source, amount: Amount, sampling: Sampling, rows: int, first: int) -> Counted:
    from dataclasses import replace

    from unmask import metrics

    own = replace(amount, rows=rows)
    given, _ = own.prompts(source.q, source.length, first)
    generation = generated(source.q, source.length, sampling, own, first_row=first, given=given)
    impossible = ~metrics.rows(generation, source.q).valid
    pairs = metrics.bigrams(generation.tokens, source.q, given)
    return Counted(int(impossible.sum()), float(generation.model_calls.double().mean()), pairs)


def absent(ser: float, most: int) -> Record:
    """The record of a target that is out of reach."""
    note = f"SER is above {ser:g} at all measured steps up to {most}"
    return {"measure": "steps_for_ser", "value": None, "n": 0, "note": note}


def described(steps: Estimate, at: Counted) -> list[Record]:
    """The N, and how the pairs of neighbours at about this N differ from those of the language."""
    from unmask.core.estimates import exactly

    estimates = {"steps_for_ser": steps}
    if at.pairs is not None:
        floor, excess = at.pairs.total_variation_floor, at.pairs.entropy_bits - at.pairs.entropy_bits_of_language
        estimates |= {"bigram_distance": at.pairs.total_variation, "bigram_floor": exactly(floor)}
        estimates |= {"bigram_entropy_excess": exactly(excess)}
    return [record(name, estimate, at.model_calls) for name, estimate in estimates.items()]


@job(check=check, about=about)
def prediction(
    source: Source, schedule: str = "linear", prompt_length: int = 0, least: int = 8, most: int = 2048
) -> list[Record]:
    """SER and TER at N from least to most: by closed forms, or by the information curve of first-order chains.

    For a chain TER is the bound of that curve. SER is the first order in the pairs that one step reveals; at N = 8 its
    error is below 0.001 for the 2-gram (theory.md 7.4). There are no records if theory has no value.
    """
    from unmask import metrics
    from unmask.core.estimates import exactly
    from unmask.theory.known import curve, error_curve

    q, length = source.q, source.length
    if prompt_length or not predictable(q, length):
        return []
    own = metrics.ter_autoregressive(q, length).value
    if q.closed_form is None:
        errors, information = error_curve(q, length), curve(q, length)
    records, span = list[Record](), most / least
    for n in sorted({round(least * span ** (i / (CURVE_POINTS - 1))) for i in range(CURVE_POINTS)}):
        pacing, cost = delta(source, Pace(n, schedule)), _calls(source, schedule, n)
        if q.closed_form is not None:
            ser = metrics.ser(q, length, schedule, n)
            ratio = metrics.ter(q, length, schedule, n).value / own
        else:
            ser, ratio = errors.ser(pacing), math.exp(information.divergence(pacing).value / length)
        records.append(record("ser_predicted", ser, cost) | {"steps": n})
        records.append(record("ter_ratio_predicted", exactly(ratio), cost) | {"steps": n})
    return records


def predictable(q: Language, length: int) -> bool:
    from unmask.theory.chains import first_order
    from unmask.theory.exponential import feasible

    chain = first_order(q)
    return q.closed_form is not None or (chain is not None and feasible(chain, length))
