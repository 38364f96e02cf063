"""Jobs that search for a number of steps, or compute the theory's curve over N.

    steps_for_ter   the least N at which TER, or else its bound ter_upper, is near the language's own
    steps_for_ser   the N at which SER falls to a value: exact with a closed form, else interpolated
    prediction      the curves ser_predicted and ter_ratio_predicted over N, from theory alone

steps_for_ser takes any sampler; the others assume ancestral sampling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from unmask.core.search import least
from unmask.experiments.jobs.catalogue import JOBS, Record
from unmask.experiments.jobs.search import PILOT_ROWS, SPREAD, steps_at_ser, steps_between
from unmask.experiments.jobs.sources import Continued, Curved, Prompted, Scheduled, record

if TYPE_CHECKING:
    from unmask.languages import Language

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


@JOBS.register("steps_for_ser")
@dataclass(frozen=True, kw_only=True)
class StepsForSer(Continued, Scheduled):
    """The N at which SER is `ser`; rows: sequences at each measured N."""

    sampler: str = "ancestral"
    ser: float = 0.5
    rows: int = 500

    def cost(self) -> float:
        return (2 * PILOT_ROWS + len(SPREAD) * self.rows) * self.row_seconds

    def measure(self) -> list[Record]:
        from unmask import metrics
        from unmask.core.estimates import exactly
        from unmask.generation import generate

        q, length, schedule = self.q, self.length, self.schedule
        drawn = count()

        def count_impossible(steps: int, rows: int) -> int:
            """Each call draws fresh rows, so that the points are independent."""
            first = next(drawn) * max(self.rows, PILOT_ROWS)
            given, _ = self.prompts(q, length, rows=rows, first_row=first)
            how: dict[str, Any] = {"sampler": self.sampler, "schedule": schedule, "steps": steps, "seed": self.seed}
            generation = generate(q, **how, length=length, rows=rows, first_row=first, given=given)
            return int((~metrics.rows(generation, q).valid).sum())

        if q.closed_form is not None and self.sampler == "ancestral" and not self.prompt_length:
            value = exactly(least(lambda n: metrics.ser(q, length, schedule, n).value, self.ser))
        else:
            value = steps_at_ser(count_impossible, self.ser, (length - self.prompt_length) // 4, self.rows)
        return [record("steps_for_ser", value, self.model_calls(round(value.value)))]


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
