"""What the demo measures, in cells: each a pure function of its fields, plain values that could be stored and resumed.

A cell answers with records, one number each: what was measured (`measure`) of what, and the Estimate's fields. Measures
bear the names of the yardsticks: `ter` is exact, `ter_upper` its bound from the information profile (theory.md 7.2);
`_ratio` means relative to TER(q), the language's own, which is what AR sampling has.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import count
from typing import Any

from torch import Tensor

from unmask import metrics
from unmask.board import Settings as BoardSettings
from unmask.board import board, quick
from unmask.board.grid import grid
from unmask.cost.flops import evaluations
from unmask.denoisers import Exact
from unmask.errors import UnmaskError
from unmask.estimates import Estimate, exactly
from unmask.generation import Generation, generate
from unmask.languages import Interval, Language
from unmask.sweeps.search import PILOT_ROWS, SPREAD, least_steps, least_steps_between, steps_at_ser
from unmask.schedules import Fit, deltas
from unmask.sweeps.sources import ground_truth
from unmask.theory.chains import first_order
from unmask.theory.curves import ErrorCurve, InformationCurve
from unmask.theory.exact import curve, error_curve
from unmask.theory.exponential import feasible

Record = dict[str, Any]
PROFILE_COST = 2.0  # a row of a profile takes as long as so many generated ones
ADAPTIVE_COST = 20_000  # of a row, in a comparison of samplers
SEEDS = 2  # of a comparison of samplers
CURVE_POINTS = 97  # of a predicted curve, evenly spaced in log N


@dataclass(frozen=True)
class Cell(ABC):
    """One measurement on one language at one length; the seed draws the language, where it is random, and the luck."""

    language: str
    length: int
    rows: int
    seed: int = 0
    pruned: bool = True
    schedule: str = "linear"

    @property
    def q(self) -> Language:
        return ground_truth(self.language, self.seed, self.pruned)

    def delta(self, steps: int) -> Tensor:
        return deltas(self.schedule, steps, Fit(self.q, self.length))

    def valid_steps(self, steps: int) -> float:
        """Evaluations a row needs on average."""
        return evaluations(self.delta(steps), self.length)

    @property
    def cost(self) -> int:
        """About how long it takes, in no unit: a row's time grows with the messages that it holds."""
        return int(self.sampled_rows() * (self.length + Exact(self.q).row_bytes(self.length) / 64)) + 1

    def sampled_rows(self) -> float:
        """How many generated rows take as long."""
        return self.rows

    def check(self) -> None:
        """Fail before anything is measured, not in the middle."""
        self.q.check_length(self.length)
        if self.q.end is not None:
            what = "its sequences vary in length, and the demo compares fixed lengths"
            raise UnmaskError(f"cannot show {self.language}: {what}; name another language")

    @abstractmethod
    def records(self) -> list[Record]:
        """What was measured, as rows of one table."""

    def record(self, measure: str, value: Estimate, steps: int | None, evaluations: float | None) -> Record:
        """steps: the rounds N, None where there are none (AR) or where they are the answer."""
        about = {"language": self.language, "length": self.length, "pruned": self.pruned, "steps": steps}
        return {"measure": measure} | about | asdict(value) | {"evaluations": evaluations}


@dataclass(frozen=True)
class Autoregression(Cell):
    """The AR baseline, one evaluation a token: it draws from q itself, so there is nothing to measure but TER(q)."""

    def sampled_rows(self) -> float:
        return 0.0

    def records(self) -> list[Record]:
        own, one, length = metrics.ter_autoregressive(self.q, self.length), exactly(1.0), float(self.length)
        found = {"ser": exactly(0.0), "ter": own, "ter_ratio": one}
        if not self.pruned:
            found |= {"generative_perplexity": own, "generative_perplexity_ratio": one}
        return [self.record(measure, value, None, length) for measure, value in found.items()]


@dataclass(frozen=True)
class Correctness(Cell):
    """SER of a sampler at N rounds, with the evaluations that a row needed."""

    steps: int = 64
    sampler: str = "ancestral"

    def generate(self, steps: int, rows: int, first_row: int = 0) -> Generation:
        how = {"sampler": self.sampler, "schedule": self.schedule, "steps": steps, "length": self.length}
        return generate(self.q, **how, rows=rows, first_row=first_row, seed=self.seed)  # type: ignore[arg-type]

    def records(self) -> list[Record]:
        made = self.generate(self.steps, self.rows)
        ser = metrics.score(made, self.q).ser
        return [self.record("ser", ser, self.steps, float(made.evaluations.double().mean()))]


@dataclass(frozen=True)
class GenerativePerplexity(Correctness):
    """2^E[-log2 q(x)/L] over x ~ p, which the paper plots as TER: where no string is impossible."""

    def records(self) -> list[Record]:
        made = self.generate(self.steps, self.rows)
        value = metrics.score(made, self.q).generative_perplexity
        assert value is not None, f"{self.language} has impossible strings"
        own = metrics.ter_autoregressive(self.q, self.length).value
        evaluations = float(made.evaluations.double().mean())
        found = {"generative_perplexity": value, "generative_perplexity_ratio": value.map(lambda v: v / own)}
        return [self.record(measure, value, self.steps, evaluations) for measure, value in found.items()]


@dataclass(frozen=True)
class Fluency(Cell):
    """TER at every N from one pass: exact for Interval, else ter_upper, and its ratio to TER(q) on the same rows."""

    steps: tuple[int, ...] = (64,)

    def sampled_rows(self) -> float:
        return 0.0 if isinstance(self.q, Interval) else PROFILE_COST * self.rows

    def records(self) -> list[Record]:
        found = []
        for n, measure, value, ratio in self.values():
            evaluations = self.valid_steps(n)
            found.append(self.record(measure, value, n, evaluations))
            found.append(self.record(f"{measure}_ratio", ratio, n, evaluations))
        return found

    def values(self) -> list[tuple[int, str, Estimate, Estimate]]:
        if isinstance(self.q, Interval):
            own = metrics.ter_autoregressive(self.q, self.length).value
            exact = [(n, metrics.ter(self.q, self.length, self.schedule, n)) for n in self.steps]
            return [(n, "ter", value, value.map(lambda v: v / own)) for n, value in exact]
        profile = metrics.profile(self.q, self.length, self.rows, self.seed)
        found = []
        for n in self.steps:
            ratio = profile.divergence(self.delta(n)).map(lambda nats: math.exp(nats / self.length))
            found.append((n, "ter_upper", profile.ter_upper(self.schedule, n), ratio))
        return found


@dataclass(frozen=True)
class Predicted(Cell):
    """SER and TER from theory alone, at so many N that they make a curve: for Interval and first-order chains.

    Interval has closed forms. A chain's TER is the bound of its information curve, and its SER the first order in the
    pairs that meet in one round, which at N = 8 is off by less than 0.001 for the 2-gram (theory.md 7.4).
    """

    steps: tuple[int, int] = (8, 2048)

    @classmethod
    def knows(cls, language: Language, length: int) -> bool:
        if isinstance(language, Interval):
            return True
        chain = first_order(language)
        return chain is not None and feasible(chain, length)

    def sampled_rows(self) -> float:
        return 0.0

    def records(self) -> list[Record]:
        low, high = self.steps
        grid = {round(low * (high / low) ** (i / (CURVE_POINTS - 1))) for i in range(CURVE_POINTS)}
        found = []
        for n in sorted(grid):
            cost = self.valid_steps(n)
            ser, ratio = self.values(self.delta(n))
            found.append(self.record("ser_predicted", ser, n, cost))
            found.append(self.record("ter_ratio_predicted", exactly(ratio), n, cost))
        return found

    def values(self, delta: Tensor) -> tuple[Estimate, float]:
        """(SER, TER or its bound by the mean over orders, relative to TER(q))."""
        if isinstance(self.q, Interval):
            own = metrics.ter_autoregressive(self.q, self.length).value
            ser = metrics.exact_ser(self.q, self.length, delta)
            return exactly(ser), metrics.exact_ter(self.q, self.length, delta) / own
        return self.errors.ser(delta), math.exp(self.information.divergence(delta).value / self.length)

    @cached_property
    def errors(self) -> ErrorCurve:
        return error_curve(self.q, self.length)

    @cached_property
    def information(self) -> InformationCurve:
        return curve(self.q, self.length)


@dataclass(frozen=True)
class StepsForFluency(Cell):
    """The least N at which TER, or where that is not known ter_upper, is within `excess` of the language's own."""

    excess: float = 0.01

    def sampled_rows(self) -> float:
        return 0.0 if isinstance(self.q, Interval) else PROFILE_COST * self.rows

    def records(self) -> list[Record]:
        value = self.least()
        evaluations = self.valid_steps(int(value.value))
        return [self.record("steps_for_fluency", value, None, evaluations)]

    def least(self) -> Estimate:
        if isinstance(self.q, Interval):
            own, q = metrics.ter_autoregressive(self.q, self.length).value, self.q
            return exactly(
                least_steps(lambda n: metrics.exact_ter(q, self.length, self.delta(n)) <= (1 + self.excess) * own)
            )
        profile = metrics.profile(self.q, self.length, self.rows, self.seed)
        most = self.length * math.log1p(self.excess)  # in nats a sequence
        return least_steps_between(lambda n: profile.divergence(self.delta(n)), most)


@dataclass(frozen=True)
class StepsForCorrectness(Correctness):
    """The N at which SER has come down to `ser`: the least in closed form for Interval, else interpolated."""

    ser: float = 0.5

    def sampled_rows(self) -> float:
        return 0.0 if isinstance(self.q, Interval) else 2.0 * PILOT_ROWS + len(SPREAD) * self.rows

    def records(self) -> list[Record]:
        value = self.least()
        evaluations = self.valid_steps(round(value.value))
        return [self.record("steps_for_correctness", value, None, evaluations)]

    def least(self) -> Estimate:
        if isinstance(self.q, Interval):
            q = self.q
            return exactly(least_steps(lambda n: metrics.exact_ser(q, self.length, self.delta(n)) <= self.ser))
        drawn = count()

        def count_wrong(steps: int, rows: int) -> int:
            """Fresh rows each time, so that the points are independent."""
            first_row = next(drawn) * max(self.rows, PILOT_ROWS)
            return metrics.score(self.generate(steps, rows, first_row), self.q).invalid_rows

        return steps_at_ser(count_wrong, self.ser, self.length // 4, self.rows)


@dataclass(frozen=True)
class Standings(Cell):
    """Some samplers side by side at a few budgets, half of the rows from each of two seeds (unmask/board)."""

    samplers: tuple[str, ...] = ("ancestral",)

    @property
    def cost(self) -> int:
        """Mostly the rounds of adaptive samplers, whatever the language."""
        return ADAPTIVE_COST * len(self.samplers) * self.rows

    def check(self) -> None:
        super().check()
        grid(self.settings)

    @property
    def settings(self) -> BoardSettings:
        rows = max(self.rows // SEEDS, 1)
        about = {"languages": (self.language,), "lengths": (self.length,), "rows": rows, "seeds": SEEDS}
        return quick(samplers=self.samplers, **about, seed=self.seed, ter_share=0)

    def records(self) -> list[Record]:
        found = []
        for record in board(self.settings).records:
            if record["measure"] in ("ser", "diversity"):
                steps = record["budget"] if record["knob"] == "steps" else None
                found.append(record | {"pruned": self.pruned, "steps": steps})
        return found
