"""Jobs that search for a number of steps, or compute the theory's curve over N.

    steps_for_ter   the least N at which TER, or else its bound ter_upper, is near the language's own
    steps_for_ser   the N at which SER falls to a value, and the distance of bigrams there
    prediction      the curves ser_predicted and ter_ratio_predicted over N, from theory alone

steps_for_ser takes any sampler; the others assume ancestral sampling.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import count, repeat
from typing import NamedTuple

import numpy as np

from unmask import metrics
from unmask.core import arguments
from unmask.core.estimates import LEVEL, Estimate, exactly, proportion, quantile
from unmask.core.search import least
from unmask.experiments.cell import Record, job
from unmask.experiments.jobs.samples import curve_of
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
    records_of,
)
from unmask.planning.flops import model_calls
from unmask.theory import known
from unmask.theory.chains import first_order
from unmask.theory.exponential import feasible

CURVE_POINTS = 97  # points of a predicted curve, evenly spaced in log N
SPREAD = (0.75, 1.0, 1.35)  # SER is measured at these multiples of the pilots' N
PILOT_ROWS = 64
PILOTS = 12

Count = Callable[[int, int], int]  # (steps, rows) -> impossible sequences among fresh rows


def _calls(source: Source, schedule: str, steps: int, prompt_length: int = 0) -> float:
    """Mean number of model calls per row."""
    return model_calls(delta(source, Pace(steps, schedule)), source.length - prompt_length)


@job(check=check, about=about)
def steps_for_ter(
    source: Source, amount: Amount = Amount(rows=100), schedule: str = "linear", excess: float = 0.01
) -> list[Record]:
    """The least N at which TER is within `excess` of TER(q), relative to it."""
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
    pairs: metrics.Bigrams | None


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
    q, length = source.q, source.length
    seen: dict[int, Counted] = {}

    # fresh rows in each call, so that the points are independent; on a grid the same, as for other values of `ser`
    firsts = count(step=max(amount.rows, PILOT_ROWS)) if sampler == "ancestral" else repeat(0)

    def impossible(steps: int, rows: int) -> int:
        seen[steps] = _counted(source, amount, Sampling(sampler, schedule, steps), rows, next(firsts))
        return seen[steps].impossible

    if sampler != "ancestral":
        needed = steps_on_grid(impossible, ser, amount.rows, most)
        return [absent(ser, most)] if needed is None else described(needed, seen[int(needed.value)])
    if q.closed_form is not None and not amount.prompt_length:
        value = exactly(least(lambda n: metrics.ser(q, length, schedule, n).value, ser))
        nearest = Counted(0, 0.0, None)
    else:
        value = steps_at_ser(impossible, ser, (length - amount.prompt_length) // 4, amount.rows)
        nearest = seen[min(seen, key=lambda n: abs(n - value.value))]
    calls = _calls(source, schedule, round(value.value), amount.prompt_length)
    return described(value, nearest._replace(model_calls=calls))


@lru_cache(maxsize=64)  # cells that differ in `ser` share rows
def _counted(source: Source, amount: Amount, sampling: Sampling, rows: int, first: int) -> Counted:
    own = replace(amount, rows=rows)
    given, _ = own.prompts(source.q, source.length, first)
    generation = generated(source.q, source.length, sampling, own, first_row=first, given=given)
    impossible = ~metrics.rows(generation, source.q).valid
    pairs = metrics.bigrams(generation.tokens, source.q, given)
    return Counted(int(impossible.sum()), float(generation.model_calls.double().mean()), pairs)


def absent(ser: float, most: int) -> Record:
    """The record of a target that is out of reach."""
    return {
        "measure": "steps_for_ser",
        "value": None,
        "n": 0,
        "note": f"SER is above {ser:g} at all measured steps up to {most}",
    }


def described(steps: Estimate, at: Counted) -> list[Record]:
    """The N, and how the pairs of neighbours at about this N differ from those of the language."""
    estimates = {"steps_for_ser": steps}
    if at.pairs is not None:
        estimates |= {
            "bigram_distance": at.pairs.total_variation,
            "bigram_floor": exactly(at.pairs.total_variation_floor),
            "bigram_entropy_excess": exactly(at.pairs.entropy_bits - at.pairs.entropy_bits_of_language),
        }
    return records_of(estimates, at.model_calls)


@job(check=check, about=about)
def prediction(
    source: Source, schedule: str = "linear", prompt_length: int = 0, least: int = 8, most: int = 2048
) -> list[Record]:
    """SER and TER at N from least to most: by closed forms, or by the information curve of first-order chains.

    For a chain TER is the bound of that curve. SER is the first order in the pairs that one step reveals; at N = 8 its
    error is below 0.001 for the 2-gram (theory.md 7.4). There are no records if theory has no value.
    """
    q, length = source.q, source.length
    chain = first_order(q)
    if prompt_length or (q.closed_form is None and (chain is None or not feasible(chain, length))):
        return []

    own = metrics.ter_autoregressive(q, length).value
    if q.closed_form is None:
        errors, information = known.error_curve(q, length), known.curve(q, length)

    records, span = list[Record](), most / least
    for n in sorted({round(least * span ** (i / (CURVE_POINTS - 1))) for i in range(CURVE_POINTS)}):
        pacing = delta(source, Pace(n, schedule))
        cost = _calls(source, schedule, n)
        if q.closed_form is not None:
            ser = metrics.ser(q, length, schedule, n)
            ratio = metrics.ter(q, length, schedule, n).value / own
        else:
            ser = errors.ser(pacing)
            ratio = math.exp(information.divergence(pacing).value / length)
        records += [
            record("ser_predicted", ser, cost) | {"steps": n},
            record("ter_ratio_predicted", exactly(ratio), cost) | {"steps": n},
        ]

    return records


def steps_between(excess: Callable[[int], Estimate], most: float) -> Estimate:
    """The least N at which a measured excess is at most `most`; its interval inverts that of the excess."""
    value = float(least(lambda n: excess(n).value, most))
    at = excess(int(value))

    low, high = 1.0, math.inf  # if there are too few rows for an interval
    if math.isfinite(at.low) and math.isfinite(at.high):
        low, high = float(least(lambda n: excess(n).low, most)), float(least(lambda n: excess(n).high, most))

    return Estimate(value, low, high, at.n, at.level, f"inverted {at.method}")


def steps_at_ser(count_impossible: Count, ser: float, start: int, rows: int) -> Estimate:
    """The N at which SER has a given value, from SER measured at three N around it.

    1 - SER is exp(-c/N) in leading order (theory.md 7.4), so a few pilots lead near that N. A line through the origin,
    fitted by likelihood, interpolates -log(1 - SER) against 1/N.
    """
    aim = -math.log1p(-ser)
    steps = max(start, 1)

    # pilots of few rows move N towards the aim, at most eightfold at once
    for _ in range(PILOTS):
        impossible = (count_impossible(steps, PILOT_ROWS) + 0.5) / (PILOT_ROWS + 1)
        jump = min(max(-math.log1p(-impossible) / aim, 1 / 8), 8.0)
        moved = max(round(steps * jump), 1)
        if abs(impossible - ser) < 0.2 or moved == steps:
            break
        steps = moved

    points = sorted({max(round(moved * ratio), 1) for ratio in SPREAD})
    slope = fit_slope([(n, count_impossible(n, rows), rows) for n in points])
    return slope.map(lambda c: max(c / aim, 1.0))


def steps_on_grid(count_impossible: Count, ser: float, rows: int, most: int) -> Estimate | None:
    """The least N of 1, 2, 3, 4, 6, 8, 12, .. up to `most` at which the measured SER is at most a value, else None.

    It assumes nothing about the curve but that it falls. The ends are the N at which the interval of SER reaches the
    value with its low and with its high end; pilots of few rows skip an N whose interval is above it.
    """
    low = value = high = math.inf
    octaves = 2 ** np.arange(most.bit_length())
    grid = np.union1d(octaves, 3 * octaves)
    for n in grid[grid <= most].tolist():
        if low == math.inf and proportion(count_impossible(n, PILOT_ROWS), PILOT_ROWS).low > ser:
            continue

        # the least N so far at which each end of the interval, and its value, is at most `ser`
        at = proportion(count_impossible(n, rows), rows)
        if at.low <= ser:
            low = min(low, n)
        if at.value <= ser:
            value = min(value, n)
        if at.high <= ser:
            high = n

        # an octave more at most, for the upper end of the interval
        if high < math.inf or n >= 2 * value:
            break

    if value == math.inf:
        return None
    return Estimate(value, float(low), high, rows, LEVEL, "grid")


def fit_slope(counts: Sequence[tuple[int, int, int]], level: float = LEVEL) -> Estimate:
    """c of SER = 1 - exp(-c/N) from (N, impossible, rows) of each point: maximum likelihood, normal in log c.

    Each point gets half an impossible and half a valid row more, so that the estimate always exists.
    """
    from scipy.optimize import brentq  # half a second to load

    data = [(1 / n, impossible + 0.5, rows + 1.0) for n, impossible, rows in counts]

    def score(c: float) -> float:
        return sum(x * (impossible / math.expm1(c * x) - (rows - impossible)) for x, impossible, rows in data)

    # the score falls in c: its zero is the maximum of the likelihood
    high = 1.0
    while score(high) > 0:
        high *= 2
    best = brentq(score, 1e-9, high, xtol=1e-15, rtol=1e-15)
    information = sum(rows * (best * x) ** 2 / math.expm1(best * x) for x, _, rows in data)

    factor = math.exp(quantile(level) / math.sqrt(information))
    n = sum(rows for _, _, rows in counts)
    return Estimate(best, best / factor, best * factor, n, level, "likelihood")
