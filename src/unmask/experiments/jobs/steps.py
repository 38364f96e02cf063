"""Jobs that search for a number of steps, or compute the theory's curve over N.

    steps_for_ter   the least N at which TER, or else its bound ter_upper, is near the language's own
    steps_for_ser   the N at which SER falls to a value, and the distance of bigrams there
    prediction      the curves ser_predicted and ter_ratio_predicted over N, from theory alone

steps_for_ser takes any sampler; the others assume ancestral sampling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from unmask.core import arguments
from unmask.core.search import least
from unmask.experiments.jobs.catalogue import JOBS, Record
from unmask.experiments.jobs.search import PILOT_ROWS, SPREAD, steps_at_ser, steps_between, steps_on_grid
from unmask.experiments.jobs.sources import Continued, Curved, Prompted, Scheduled, record

if TYPE_CHECKING:
    from unmask.core.estimates import Estimate
    from unmask.languages import Language
    from unmask.metrics import Bigrams

CURVE_POINTS = 97  # points of a predicted curve, evenly spaced in log N
CURVE_SECONDS = 1.0


@JOBS.register("steps_for_ter")
@dataclass(frozen=True, kw_only=True)
class StepsForTer(Curved):
    """The least N at which TER is within `excess` of TER(q), relative to it."""

    excess: float = 0.01

    def measure(self) -> list[Record]:
        from unmask import metrics
        from unmask.core.estimates import exactly

        q, length = self.q, self.length
        if q.closed_form is not None and not self.prompt_length:
            own = metrics.ter_autoregressive(q, length).value
            value = exactly(least(lambda n: metrics.ter(q, length, self.schedule, n).value - own, self.excess * own))
        else:
            nats = (length - self.prompt_length) * math.log1p(self.excess)  # a sequence
            curve = self.curve
            value = steps_between(lambda n: curve.divergence(self.delta(n)), nats)
        return [record("steps_for_ter", value, self.model_calls(int(value.value)))]


class Counted(NamedTuple):
    """Generated rows at one N: how many are impossible, their model calls, and their bigrams."""

    impossible: int
    model_calls: float
    pairs: Bigrams | None


@JOBS.register("steps_for_ser")
@dataclass(frozen=True, kw_only=True)
class StepsForSer(Continued, Scheduled):
    """The N at which SER is `ser`; rows: sequences at each measured N. most: the largest N, for other samplers.

    For ancestral sampling it is exact with a closed form, else interpolated; for others the least measured N, or a note
    if `most` is not enough. Sampled rows at about this N also give the distance of bigrams.
    """

    shares = ("ser",)

    sampler: str = "ancestral"
    ser: float = 0.5
    rows: int = 500
    most: int = 512

    def check_rows(self) -> None:
        arguments.steps(self.most, "most")
        super().check_rows()

    def cost(self) -> float:
        return (2 * PILOT_ROWS + len(SPREAD) * self.rows) * self.row_seconds

    def measure(self) -> list[Record]:
        from unmask import metrics
        from unmask.core.estimates import exactly

        q, length, drawn = self.q, self.length, count()
        seen: dict[int, Counted] = {}

        def fresh(steps: int, rows: int) -> int:
            """Each call draws fresh rows, so that the points are independent."""
            seen[steps] = _counted(self, steps, rows, next(drawn) * max(self.rows, PILOT_ROWS))
            return seen[steps].impossible

        def same(steps: int, rows: int) -> int:
            """The first rows, which the other values of `ser` use too."""
            seen[steps] = _counted(replace(self, ser=0.5), steps, rows, 0)
            return seen[steps].impossible

        if self.sampler != "ancestral":
            needed = steps_on_grid(same, self.ser, self.rows, self.most)
            return [absent(self.ser, self.most)] if needed is None else described(needed, seen[int(needed.value)])
        if q.closed_form is not None and not self.prompt_length:
            value = exactly(least(lambda n: metrics.ser(q, length, self.schedule, n).value, self.ser))
        else:
            value = steps_at_ser(fresh, self.ser, (length - self.prompt_length) // 4, self.rows)
        nearest = seen[min(seen, key=lambda n: abs(n - value.value))] if seen else Counted(0, 0.0, None)
        return described(value, nearest._replace(model_calls=self.model_calls(round(value.value))))


@lru_cache(maxsize=64)
def _counted(job: StepsForSer, steps: int, rows: int, first: int) -> Counted:
    from unmask import metrics
    from unmask.samplers import generate

    given, _ = job.prompts(job.q, job.length, rows=rows, first_row=first)
    how: dict[str, Any] = {"sampler": job.sampler, "schedule": job.schedule, "steps": steps, "seed": job.seed}
    generation = generate(job.q, **how, length=job.length, rows=rows, first_row=first, given=given)
    impossible, pairs = ~metrics.rows(generation, job.q).valid, metrics.bigrams(generation.tokens, job.q, given)
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


@JOBS.register("prediction")
@dataclass(frozen=True, kw_only=True)
class Prediction(Prompted, Scheduled):
    """SER and TER at N from least to most: by closed forms, or by the information curve of first-order chains.

    For a chain TER is the bound of that curve. SER is the first order in the pairs that one step reveals; at N = 8 its
    error is below 0.001 for the 2-gram (theory.md 7.4). There are no records if theory has no value.
    """

    least: int = 8
    most: int = 2048

    def cost(self) -> float:
        return CURVE_SECONDS

    def measure(self) -> list[Record]:
        from unmask import metrics
        from unmask.core.estimates import exactly
        from unmask.theory.known import curve, error_curve

        q, length = self.q, self.length
        if self.prompt_length or not predictable(q, length):
            return []
        own = metrics.ter_autoregressive(q, length).value
        if q.closed_form is None:
            errors, information = error_curve(q, length), curve(q, length)
        records, span = [], self.most / self.least
        for n in sorted({round(self.least * span ** (i / (CURVE_POINTS - 1))) for i in range(CURVE_POINTS)}):
            delta, cost = self.delta(n), self.model_calls(n)
            if q.closed_form is not None:
                ser = metrics.ser(q, length, self.schedule, n)
                ratio = metrics.ter(q, length, self.schedule, n).value / own
            else:
                ser, ratio = errors.ser(delta), math.exp(information.divergence(delta).value / length)
            records.append(record("ser_predicted", ser, cost) | {"steps": n})
            records.append(record("ter_ratio_predicted", exactly(ratio), cost) | {"steps": n})
        return records


def predictable(q: Language, length: int) -> bool:
    from unmask.theory.chains import first_order
    from unmask.theory.exponential import feasible

    chain = first_order(q)
    return q.closed_form is not None or (chain is not None and feasible(chain, length))
