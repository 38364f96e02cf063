"""Finds the number of steps for a target error, by schedule, and compares the cost with autoregression.

Errors are compared on a scale on which they fall about as 1/N, in nats per sequence:

    ser    -log(1 - SER)                the rate of errors
    ter    L log(TER(p) / TER(q))       KL(q || p), by theory.md (4)
    kl     KL(q || p)

The search for N uses curves, which are cheap: sum_k delta_k^2 e(p_k) for errors, sum_k delta_k h(p_k) - H for the
divergence. It starts at the N for x nats in the limit of many steps. That N is (int e)/x and (h(0) - h(1))/2x for the
linear schedule. It is (int sqrt(e))^2/x and (int sqrt(-h'))^2/2x for the optimal one. If SER is known exactly,
its ratio to the curve corrects N, and SER is computed again there.

A trained network adds its learning error, sum_k delta_k h_KL(p_k) nats (diagnosis/learning.py), which no number of
steps removes. The target is compared with the sum of both errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np
from torch import Tensor

from unmask.core import arguments, entries, progress
from unmask.core.errors import UnmaskError, plural
from unmask.core.estimates import LEVEL, Estimate, exactly
from unmask.core.search import Floor, least
from unmask.core.tables import Row, as_html, as_table
from unmask.diagnosis.learning import Learning
from unmask.languages import Language, LanguageLike, load
from unmask.models.trained.shape import Shape, preset
from unmask.planning.flops import break_even, model_calls
from unmask.samplers.schedules import Fit, deltas
from unmask.theory import correctness, joint_orders, optimal
from unmask.theory.chains import first_order
from unmask.theory.curves import InformationCurve
from unmask.theory.exponential import exponential_ser
from unmask.theory.known import FITTED, LONGEST, MOST_WORK, exact, work
from unmask.theory.partitions import Partitions, partitions, tiny
from unmask.theory.recursion import ser_by_orders

Metric = Literal["ser", "ter", "kl"]
OPTIMAL = {"ser": "fewest-pairs", "ter": "optimal", "kl": "optimal"}
MEANS = {"ser": "SER", "ter": "TER / TER of the language - 1", "kl": "KL(q || p) in nats"}
MOST = 2**20  # steps
SHORTEST_MS, LONGEST_MS = 1e-9, 1e12  # limits of the time of a token or of a step
PAIR = "the milliseconds of an AR token and of a step"
SLACK = 0.01  # relative tolerance of N if the curve is measured
FLAT = 0.99  # the error has reached its floor if twice the steps leave more than this fraction
TRIALS = 4  # of the exact value
CLOSE = 1e-3  # relative error of -log(1 - SER) that the exponential distribution may have
ORDERS = 400  # number of sampled orders if no distribution is known
MESH = 2048


@dataclass(frozen=True)
class Plan:
    """One schedule at the smallest N; predicted is on the scale of the target."""

    schedule: str
    steps: int
    model_calls: float  # of a batch, on average
    predicted: Estimate

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"method": self.predicted.method}

    def __str__(self) -> str:
        return f"{plural(self.steps, 'step', ',')} of schedule {self.schedule} ({self.model_calls:,.4g} model calls)"


@dataclass(frozen=True)
class Verdict:
    """The plan for the given schedule, the one for the optimal schedule, and the comparison with autoregression."""

    metric: Metric
    chosen: Plan
    optimal: Plan
    flop_break_even: float  # model calls with the same compute as autoregression
    time_break_even: float | None  # model calls that take the same time
    crossover: dict[str, float | None] | None  # of a target SER at any length; None for other metrics
    text: str

    __repr__, _repr_html_ = as_table, as_html

    def table(self) -> list[Row]:
        """The advice, then its reason."""
        predicted = self.chosen.predicted
        return [("advice", self.text), ("predicted", f"{MEANS[self.metric]} {predicted}"), ("method", predicted.method)]

    def to_dict(self) -> dict[str, Any]:
        flop, time = self.flop_break_even, self.time_break_even
        return {
            **self.chosen.to_dict(),
            "break_even_model_calls": entries.chosen(time, flop),
            "break_even": {"flop": flop, "time": time},
            **entries.given({"crossover": self.crossover}),
            "optimal": self.optimal.to_dict(),
            "verdict": self.text,
        }


@dataclass(frozen=True)
class Goal:
    """A metric of a language at a length, on the scale of nats."""

    metric: Metric
    language: Language
    length: int
    learning: Learning | None = None  # of a trained network; None: the ideal denoiser

    def nats(self, value: float) -> float:
        if self.metric == "ser":
            return -math.log1p(-min(value, 1 - 1e-15))
        return self.length * math.log1p(value) if self.metric == "ter" else value

    def shown(self, nats: float) -> float:
        """Return the error of a number of nats, on the scale of the target."""
        if self.metric == "ser":
            return -math.expm1(-nats)
        return math.expm1(nats / self.length) if self.metric == "ter" else nats

    def quick(self, delta: Tensor) -> Estimate:
        """Return the nats of sampling and of the learning error, by the curves."""
        sampling = self.sampling(delta)
        if self.learning is None:
            return sampling
        excess = self.learning.excess(delta)
        errors = math.hypot(excess.high - excess.value, sampling.high - sampling.value)
        value = sampling.value + excess.value
        method = f"{sampling.method}; and learning, measured"
        return Estimate(value, value - errors, value + errors, excess.n, excess.level, method)

    @cached_property
    def floor(self) -> float:
        """Nats that no number of steps removes."""
        if self.learning is None:
            return 0.0
        if not math.isfinite(nats := self.learning.excess().value):
            raise UnmaskError(f"the learning error of the network is {nats} nats; no number of steps removes it")
        return nats

    def sampling(self, delta: Tensor) -> Estimate:
        """Return the nats of the ideal denoiser: exact if that is as fast, else by the curve of the language."""
        ser = self.metric == "ser"
        if (form := self.language.closed_form) is not None:
            nats = -form.log_valid(self.length, delta) if ser else form.divergence(self.length, delta)
            return exactly(nats, f"exact: {form.method}")
        if self.every is not None:
            nats = self.nats(self.every.ser(delta)) if ser else self.every.divergence(delta)
            return exactly(nats, "exact: enumeration")
        if ser:
            return self.first_order(delta).map(self.nats)
        mean = self.curve.divergence(delta)
        return replace(mean, method=f"upper bound: mean over orders, {mean.method}")

    def first_order(self, delta: Tensor) -> Estimate:
        """Return the SER for few errors, far from each other. The interval ends at the upper bound 1 - e^-KL."""
        ser = optimal.error_curve(self.language, self.length).ser(delta)
        most = self.curve.ser_upper(delta).high
        return Estimate(ser.value, 0.0, max(most, ser.value), ser.n, LEVEL, f"{ser.method}, at most 1 - e^-KL")

    def exact(self, delta: Tensor) -> Estimate | None:
        """Return the nats of the SER of first-order chains, which is slow and corrects the curve; None for others.

        The method is a recursion. For long chains it is the exponential distribution of the shortest gaps that are
        precise enough, with its error as the interval; if none is, sampled orders.
        """
        chain = first_order(self.language)
        if self.metric != "ser" or self.learning is not None or self.every is not None or chain is None:
            return None
        possible = bool((chain.initial > 0).all() and (chain.transition > 0).all())
        if possible or (self.length <= LONGEST and work(chain, self.length, delta) <= MOST_WORK):
            values = exact(self.language, self.length, delta)
            assert values.ser is not None
            return exactly(self.nats(values.ser), f"exact: {values.method['ser']}")

        for gaps in (gaps for gaps in FITTED if work(chain, gaps, delta) <= MOST_WORK):
            with suppress(UnmaskError):  # the chain is not primitive
                distribution = exponential_ser(self.language, delta, gaps)
                off = distribution.drift(self.length)[0]
                nats = max(-distribution.log_valid.at(self.length), 0.0)
                if off <= CLOSE * nats:
                    method = f"exponential distribution of gaps up to {gaps}, error {off:.1e} in log(1 - SER)"
                    return Estimate(nats, nats - off, nats + off, 0, 1.0, method)
        return ser_by_orders(chain, self.length, delta, rows=ORDERS).map(self.nats)

    def start(self, nats: float, best: bool) -> float:
        """Return the N for this number of nats in the limit of many steps: the start of the search."""
        edges = np.sin(np.linspace(0, np.pi / 2, MESH + 1)) ** 2
        middle = (edges[1:] + edges[:-1]) / 2
        width = np.diff(edges)
        if self.metric == "ser":
            height = np.maximum(optimal.error_curve(self.language, self.length).e(middle), 0.0)
        else:
            height = np.maximum(-self.curve.slope(middle), 0.0) / 2

        total = float(width @ np.sqrt(height)) ** 2 if best else float(width @ height)
        nats -= self.floor
        return min(total / max(nats, total / MOST), MOST) if total > 0 else 1

    @property
    def measured(self) -> bool:
        """Return whether the curve has noise."""
        if self.learning is not None:
            return True
        if self.metric == "ser":
            return optimal.error_curve(self.language, self.length).terms is not None
        return self.curve.rows is not None

    @property
    def curve(self) -> InformationCurve:
        return optimal.information_curve(self.language, self.length)

    @cached_property
    def every(self) -> Partitions | None:
        return partitions(self.language, self.length) if tiny(self.language, self.length) else None


def plan(
    language: LanguageLike,
    length: int = 512,
    metric: Metric = "ser",
    target: float = 0.1,
    schedule: str = "linear",
    batch: int = 1,
    times: tuple[float, float] | None = None,
    shape: Shape | None = None,
    learning: Learning | None = None,
) -> Verdict:
    """Return the smallest number of steps for a target, by a schedule and by the optimal one.

    times: milliseconds of an AR token and of a step. shape: the shape of the network, for its compute (default: the
    paper's). learning: `learning.of_language` of a trained network at this length; without it the denoiser is ideal.
    """
    language = load(language)
    language.check_length(length)

    arguments.word("metric", metric, OPTIMAL)
    if metric == "ser":
        arguments.share("target", target)
    arguments.number("target", target)

    if metric == "ter" and language.end is not None:
        raise UnmaskError(f"{language.kind} varies in length, so KL does not give TER; expected metric ser or kl")
    if metric == "ser" and learning is not None:
        raise UnmaskError(
            "the SER of a trained network cannot be predicted",
            "expected metric ter or kl. Measure SER with `unmask model learning`",
        )

    arguments.whole("batch", batch, 1, arguments.MOST_ROWS)
    if times is not None:
        check_times(times)
    arguments.of_kind("shape", shape, Shape | None, "the shape of a network, for example networks.preset(..)")
    arguments.of_kind("learning", learning, Learning | None, "the result of learning.of_language for a network")

    goal = Goal(metric, language, length, learning)
    goal.start(1.0, best=False)  # the curves have their own progress bars

    with progress.track("steps", 2) as advance:
        chosen = least_plan(goal, target, schedule, batch)
        advance(1)
        best = chosen if schedule == OPTIMAL[metric] else least_plan(goal, target, OPTIMAL[metric], batch)

    # in arithmetic an MDM never wins; in time it may
    flop = break_even(shape or preset("paper", "mdm", language.vocabulary), length)
    return Verdict(
        metric=metric,
        chosen=chosen,
        optimal=best,
        flop_break_even=flop,
        time_break_even=None if times is None else times[0] * length / times[1],
        crossover=crossing(goal, target, times),
        text=_words(goal, target, chosen, best, flop, times),
    )


def check_times(times: tuple[float, float]) -> None:
    if len(arguments.of_kind("times", times, tuple, PAIR)) != 2:
        arguments.refuse("times", times, PAIR)
    for name, milliseconds in zip(("ar_token_ms", "step_ms"), times, strict=True):
        arguments.number(name, milliseconds, SHORTEST_MS, LONGEST_MS)


def crossing(goal: Goal, target: float, times: tuple[float, float] | None) -> dict[str, float | None] | None:
    """Return the crossover for a target SER at any length; ser: the SER at which both take the same time.

    It is for the ideal denoiser, by c(q) at this length; None for a target of 0, which needs one token per step.
    """
    if goal.metric != "ser" or not target:
        return None
    constant = max(optimal.error_curve(goal.language, goal.length).constant.value / goal.length, 0.0)
    return {
        "constant": constant,
        "model_calls_per_token": correctness.model_calls_per_token(constant, target),
        "ser": None if times is None else correctness.ser_at(constant, times[0] / times[1]),
    }


def least_plan(goal: Goal, target: float, schedule: str, batch: int = 1) -> Plan:
    """Return the smallest N of a schedule; an error gives the best quality if no N reaches the target."""
    aim = goal.nats(target)

    @cache
    def look(steps: int) -> tuple[Tensor, Estimate]:
        delta = deltas(schedule, steps, Fit(goal.language, goal.length))
        return delta, goal.quick(delta)

    def search(nats: float, guess: float) -> int:
        return least(lambda steps: look(steps)[1].value, nats, guess, SLACK if goal.measured else 0.0, MOST, FLAT)

    try:
        steps = search(aim, goal.start(aim, schedule == OPTIMAL[goal.metric]))
        steps, nats = _confirmed(goal, aim, steps, look, search)
    except Floor as floor:
        raise UnmaskError(_unreached(goal, target, schedule, floor)) from floor
    return Plan(schedule, steps, model_calls(look(steps)[0], goal.length, batch), nats.map(goal.shown))


def _confirmed(
    goal: Goal,
    target: float,
    steps: int,
    look: Callable[[int], tuple[Tensor, Estimate]],
    search: Callable[[float, float], int],
) -> tuple[int, Estimate]:
    """Return N and the exact value there, with N moved to the smallest that has the target exactly."""
    tried: dict[int, Estimate] = {}
    while len(tried) < TRIALS:
        delta, quick = look(steps)
        known = goal.exact(delta)
        if known is None:
            return steps, quick
        tried[steps] = known
        if known.high <= 0:
            break

        # the exact value is slow: the curve, scaled by their ratio, leads to the next N
        corrected = search(target * quick.value / known.high, steps)
        if corrected in tried:
            break
        steps = corrected

    enough = [n for n, known in tried.items() if known.high <= target]
    steps = min(enough, default=max(tried))
    return steps, tried[steps]


def _unreached(goal: Goal, target: float, schedule: str, floor: Floor) -> str:
    name = MEANS[goal.metric]
    value = goal.shown(floor.value)
    if goal.learning is not None and goal.nats(target) <= goal.floor:
        return (
            f"no number of steps reaches {target:g}: the learning error is {goal.shown(goal.floor):.4g} alone. "
            "Train the network longer"
        )

    if floor.stuck:
        stays = f"with schedule {schedule!r}, {name} stays at {value:.4g} from {floor.steps:,} steps on"
        return f"no number of steps reaches {target:g}: {stays}. Use another schedule"

    there = f"{name} is {value:.4g} there and falls as 1/N"
    advice = f"Use AR, which needs {goal.length:,} model calls"
    return f"no number of steps up to {floor.steps:,} reaches {target:g}: {there}. {advice}"


def _words(goal: Goal, target: float, chosen: Plan, best: Plan, flop: float, times: tuple[float, float] | None) -> str:
    """The advice, the steps, and the compute."""
    fewest = min(chosen.model_calls, best.model_calls)
    if times is None:
        tokens = f"{goal.length / fewest:.3g} AR tokens"
        advice = f"In random order, AR is faster, unless one MDM forward pass takes less time than {tokens}"
    else:
        ar, mdm = goal.length * times[0], fewest * times[1]
        (shorter, better), (longer, _) = sorted([(ar, "AR"), (mdm, "Masked diffusion")])
        advice = f"In random order, {better} is the better choice: {shorter:,.4g} ms against {longer:,.4g} ms"
        advice += f", {max(ar / mdm, mdm / ar):.3g} times faster"

    aims = {"ser": f"An SER of at most {target:g}", "ter": f"A TER within {100 * target:.3g}% of the language's own"}
    needs = f"{aims.get(goal.metric, f'A divergence of at most {target:g} nats')} needs {chosen}"
    if best.model_calls < chosen.model_calls:
        needs += f", or {best}"
    elif best is not chosen:
        needs += f"; schedule {best.schedule} does not need fewer"

    parts = [advice, needs]
    if chosen.predicted.method.startswith("first order") and chosen.predicted.high > target:
        parts.append(f"This is a first-order estimate in 1/N; the SER is certainly below {chosen.predicted.high:.3g}")

    error = "error" if goal.learning is None else "sampling error"
    parts.append(f"AR has no {error} and needs 1/{fewest / flop:.3g} of the compute")
    if goal.learning is None:
        with suppress(UnmaskError):  # it is no chain, or a long one
            how = (goal.language, goal.length, goal.nats(target))
            apart, fitted = joint_orders.enough(*how, False), joint_orders.enough(*how, True)
            parts.append(f"In the best fixed order N = {apart} is enough, with draw='fitted' N = {fitted}")
    return f"{'. '.join(parts)}."
