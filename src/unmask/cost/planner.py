"""How many steps a quality takes, with which schedule, and whether autoregression is the better choice.

Qualities are compared on a scale on which they fall about as 1/N, in nats a sequence:

    ser    -log(1 - SER)                the rate of errors
    ter    L log(TER(p) / TER(q))       KL(q || p), by theory.md (4)
    kl     KL(q || p)

N is found on the curves, which cost nothing: sum_k delta_k^2 e(p_k) for errors, sum_k delta_k h(p_k) - H for the
divergence. The search starts at the N that many rounds would need for x nats, (int e)/x and (h(0) - h(1))/2x if linear,
(int sqrt(e))^2/x and (int sqrt(-h'))^2/2x if optimal. Where SER is known exactly, its ratio to the curve moves N to
where it belongs, and it is computed again there.

A trained network adds what it has not learned, sum_k delta_k h_KL(p_k) nats (diagnosis/learning.py), which no number of
rounds takes away: its target is held against both together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from torch import Tensor

from unmask.core import arguments, progress
from unmask.core.errors import UnmaskError
from unmask.core.estimates import LEVEL, Estimate, exactly
from unmask.core.search import Floor, least
from unmask.core.shown import Shown
from unmask.core.tables import as_table
from unmask.cost.flops import break_even, evaluations
from unmask.diagnosis.learning import Learning
from unmask.languages import Language, LanguageLike, load
from unmask.networks.model.shape import Shape, preset
from unmask.schedules import Fit, deltas
from unmask.theory import crossover, optimal
from unmask.theory.chains import first_order
from unmask.theory.exponential import exponential_law
from unmask.theory.gaps import ser_by_orders
from unmask.theory.known import FITTED, LONGEST, MOST_WORK, exact, work
from unmask.theory.partitions import Partitions, partitions, tiny

Metric = Literal["ser", "ter", "kl"]
OPTIMAL = {"ser": "fewest-pairs", "ter": "optimal", "kl": "optimal"}
MEANS = {"ser": "SER", "ter": "TER / TER of the language - 1", "kl": "KL(q || p) in nats"}
MOST = 2**20  # rounds
SHORTEST_MS, LONGEST_MS = 1e-9, 1e12  # of a token, or of a step
PAIR = "the milliseconds of an AR token and of a step"
SLACK = 0.01  # of N, where the curve is measured and no better known than that
FLAT = 0.99  # of what there was, after twice as many rounds: it falls no further
LOOKS = 4  # at the exact value
CLOSE = 1e-3  # of the exponential law: how far off -log(1 - SER) may be, as a share of it
ORDERS = 400  # that are drawn where no law is known
MESH = 2048


@dataclass(frozen=True)
class Plan:
    """One schedule at the least N; predicted is on the scale of the target."""

    schedule: str
    steps: int
    evaluations: float  # by a batch, on average
    predicted: Estimate


@dataclass(frozen=True)
class Verdict(Shown):
    """The plan that was asked for, the one of the optimal schedule, and autoregression."""

    chosen: Plan
    optimal: Plan
    flop_break_even: float  # evaluations that cost as much arithmetic as autoregression
    time_break_even: float | None  # and that take as long
    crossover: dict[str, float | None] | None  # of SER, the law without the length; None of other metrics
    text: str

    __repr__ = as_table

    def to_dict(self) -> dict[str, Any]:
        time = self.time_break_even
        law = {} if self.crossover is None else {"crossover": self.crossover}
        return _plan(self.chosen) | {
            "break_even_evaluations": self.flop_break_even if time is None else time,
            "break_even": {"flop": self.flop_break_even, "time": time},
            **law,
            "optimal": _plan(self.optimal),
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
        """The other way, and back where the target is."""
        if self.metric == "ser":
            return -math.expm1(-nats)
        return math.expm1(nats / self.length) if self.metric == "ter" else nats

    def quick(self, delta: Tensor) -> Estimate:
        """Of nats, with what the network has not learned."""
        sampling = self.sampling(delta)
        if self.learning is None:
            return sampling
        excess = self.learning.excess(delta)
        errors = math.hypot(excess.high - excess.value, sampling.high - sampling.value)
        value, method = sampling.value + excess.value, f"{sampling.method}; and learning, measured"
        return Estimate(value, value - errors, value + errors, excess.n, excess.level, method)

    @cached_property
    def floor(self) -> float:
        """Nats that no number of rounds takes away."""
        if self.learning is None:
            return 0.0
        if not math.isfinite(found := self.learning.excess().value):
            raise UnmaskError(f"the network's error of learning is {found} nats, which no number of rounds mends")
        return found

    def sampling(self, delta: Tensor) -> Estimate:
        """Of nats, by the ideal denoiser: exact where that is as quick, else by the curve of the language."""
        if (form := self.language.closed_form) is not None:
            how = f"exact: {form.method}"
            if self.metric == "ser":
                return exactly(-form.log_valid(self.length, delta), how)
            return exactly(form.divergence(self.length, delta), how)
        if self.every is not None:
            if self.metric == "ser":
                return exactly(self.nats(self.every.ser(delta)), "exact: enumeration")
            return exactly(self.every.divergence(delta), "exact: enumeration")
        if self.metric == "ser":
            return self.first_order(delta).map(self.nats)
        found = optimal.information_curve(self.language, self.length).divergence(delta)
        method = f"upper bound: mean over orders, {found.method}"
        return Estimate(found.value, found.low, found.high, found.n, found.level, method)

    def first_order(self, delta: Tensor) -> Estimate:
        """SER where errors are few and far from each other; the interval is what it can be at all, up to 1 - e^-KL."""
        found = optimal.error_curve(self.language, self.length).ser(delta)
        most = optimal.information_curve(self.language, self.length).ser_upper(delta).high
        return Estimate(found.value, 0.0, max(most, found.value), found.n, LEVEL, f"{found.method}, at most 1 - e^-KL")

    def exact(self, delta: Tensor) -> Estimate | None:
        """Of nats, where that takes a while and the curve is close but not exact: SER of first-order chains.

        By a recursion; of long ones by the exponential law of the shortest gaps that will do, with what it may be off
        by as an interval; and where that cannot tell, by orders that are drawn.
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
                law = exponential_law(self.language, delta, gaps)
                nats, off = max(-law.log_valid.at(self.length), 0.0), law.drift(self.length)[0]
                if off <= CLOSE * nats:
                    method = f"exponential law of gaps up to {gaps}, off by {off:.1e} in log(1 - SER)"
                    return Estimate(nats, nats - off, nats + off, 0, 1.0, method)
        return ser_by_orders(chain, self.length, delta, rows=ORDERS).map(self.nats)

    def start(self, nats: float, best: bool) -> float:
        """N for so many nats if many rounds were needed: where the search begins."""
        edges = np.sin(np.linspace(0, np.pi / 2, MESH + 1)) ** 2
        middle, width = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
        if self.metric == "ser":
            height = np.maximum(optimal.error_curve(self.language, self.length).e(middle), 0.0)
        else:
            height = np.maximum(-optimal.information_curve(self.language, self.length).slope(middle), 0.0) / 2
        total = float(width @ np.sqrt(height)) ** 2 if best else float(width @ height)
        nats -= self.floor
        return min(total / max(nats, total / MOST), MOST) if total > 0 else 1

    @property
    def measured(self) -> bool:
        """Whether the curve has noise."""
        if self.learning is not None:
            return True
        if self.metric == "ser":
            return optimal.error_curve(self.language, self.length).terms is not None
        return optimal.information_curve(self.language, self.length).rows is not None

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
    """The least steps for a target, by a schedule and by the optimal one. times: ms of an AR token and of a step.

    shape: of the network, for its arithmetic; the paper's unless told otherwise. learning: `learning.of_language` of a
    trained one, at this length; without it the denoiser is ideal.
    """
    language = load(language)
    language.check_length(length)
    arguments.word("metric", metric, OPTIMAL)
    arguments.share("target", target) if metric == "ser" else arguments.number("target", target)
    if metric == "ter" and language.end is not None:
        raise UnmaskError(f"{language.kind} varies in length, so that KL says nothing of TER; ask for ser or kl")
    if metric == "ser" and learning is not None:
        what = "no SER of a trained network is known beforehand"
        raise UnmaskError(f"{what}; `unmask learning` measures it, and ter and kl are predicted")
    arguments.whole("batch", batch, 1, arguments.MOST_ROWS)
    if times is not None:
        if len(arguments.of_kind("times", times, tuple, PAIR)) != 2:
            arguments.refuse("times", times, PAIR)
        for name, milliseconds in zip(("ar_token_ms", "step_ms"), times, strict=True):
            arguments.number(name, milliseconds, SHORTEST_MS, LONGEST_MS)
    if shape is not None:
        arguments.of_kind("shape", shape, Shape, "the shape of a network: networks.preset(..) makes one")
    if learning is not None:
        arguments.of_kind("learning", learning, Learning, "what learning.of_language measures of a network")
    goal = Goal(metric, language, length, learning)
    goal.start(1.0, best=False)  # the curves have bars of their own
    with progress.track("steps", 2) as advance:
        chosen = least_plan(goal, target, schedule, batch)
        advance(1)
        best = chosen if schedule == OPTIMAL[metric] else least_plan(goal, target, OPTIMAL[metric], batch)
    flop = break_even(shape or preset("paper", "mdm", language.vocabulary), length)
    time = None if times is None else times[0] * length / times[1]
    law = crossing(goal, target, times)
    return Verdict(chosen, best, flop, time, law, _words(goal, target, chosen, best, flop, time))


def crossing(goal: Goal, target: float, times: tuple[float, float] | None) -> dict[str, float | None] | None:
    """What theory.crossover says of a target SER at any length; ser: the one at which both take as long, by the times.

    Of an ideal denoiser, by c(q) at this length; of a target of 0 nothing, as it takes one token at a time.
    """
    if goal.metric != "ser" or not target:
        return None
    constant = max(optimal.error_curve(goal.language, goal.length).constant.value / goal.length, 0.0)
    ser = None if times is None else crossover.ser_at(constant, times[0] / times[1])
    return {
        "constant": constant,
        "evaluations_per_token": crossover.evaluations_per_token(constant, target),
        "ser": ser,
    }


def least_plan(goal: Goal, target: float, schedule: str, batch: int = 1) -> Plan:
    """The smallest N of a schedule; a Floor that says what there is instead if no N will do."""
    wanted = goal.nats(target)
    seen: dict[int, tuple[Tensor, Estimate]] = {}

    def look(steps: int) -> tuple[Tensor, Estimate]:
        if steps not in seen:
            delta = deltas(schedule, steps, Fit(goal.language, goal.length))
            seen[steps] = delta, goal.quick(delta)
        return seen[steps]

    def search(nats: float, guess: float) -> int:
        return least(lambda steps: look(steps)[1].value, nats, guess, SLACK if goal.measured else 0.0, MOST, FLAT)

    try:
        steps = search(wanted, goal.start(wanted, schedule == OPTIMAL[goal.metric]))
        steps, found = _confirmed(goal, wanted, steps, look, search)
    except Floor as floor:
        raise UnmaskError(_unreached(goal, target, schedule, floor)) from floor
    return Plan(schedule, steps, evaluations(look(steps)[0], goal.length, batch), found.map(goal.shown))


def _confirmed(
    goal: Goal,
    wanted: float,
    steps: int,
    look: Callable[[int], tuple[Tensor, Estimate]],
    search: Callable[[float, float], int],
) -> tuple[int, Estimate]:
    """N and the exact value there, with N moved to where the exact value is first as wanted."""
    tried: dict[int, Estimate] = {}
    while len(tried) < LOOKS:
        delta, quick = look(steps)
        known = goal.exact(delta)
        if known is None:
            return steps, quick
        tried[steps] = known
        if known.high <= 0:
            break
        aim = search(wanted * quick.value / known.high, steps)
        if aim in tried:  # and so it is where this one is as wanted
            break
        steps = aim
    enough = [n for n, known in tried.items() if known.high <= wanted]
    steps = min(enough) if enough else max(tried)
    return steps, tried[steps]


def _unreached(goal: Goal, target: float, schedule: str, floor: Floor) -> str:
    value, what = goal.shown(floor.value), MEANS[goal.metric]
    if goal.learning is not None and goal.nats(target) <= goal.floor:
        alone = goal.shown(goal.floor)
        what = f"what the network has not learned is {alone:.4g} alone"
        return f"no number of steps reaches {target:g}: {what}; train it further"
    if floor.stuck:
        return (
            f"no number of steps reaches {target:g}: with schedule {schedule!r} the floor of {what} is {value:.4g}, "
            f"as more steps than {floor.steps:,} are too short to matter; take another schedule"
        )
    return (
        f"no number of steps up to {floor.steps:,} reaches {target:g}: there {what} is {value:.4g}, and falls on as "
        f"1/N to a floor of 0 that only one token at a time has; that is AR, in {goal.length:,} evaluations"
    )


def _words(goal: Goal, target: float, chosen: Plan, best: Plan, flop: float, time: float | None) -> str:
    """One sentence."""
    reached = {"ser": f"an SER of {target:g}", "ter": f"a TER within {target:.3g} of the language's own"}
    says = [f"{reached.get(goal.metric, f'a divergence of {target:g} nats')} takes {_steps(chosen)}"]
    if best is not chosen:
        fewer = best.evaluations < chosen.evaluations
        says[0] += f", or {_steps(best)}" if fewer else f", and schedule {best.schedule} needs no fewer"
    if chosen.predicted.method.startswith("first order") and chosen.predicted.high > target:
        says.append(f"that is to first order in 1/N, and all that is sure is an SER below {chosen.predicted.high:.3g}")
    fewest = min(chosen.evaluations, best.evaluations)
    error = "error" if goal.learning is None else "sampling error"
    says.append(f"AR makes no {error} for the arithmetic of {flop:.2f} evaluations, {fewest / flop:.3g} times less")
    if time is None:
        ratio = goal.length / fewest
        says.append(f"so take AR unless a step is faster than {ratio:.3g} AR tokens and time is all that counts")
    else:
        better = "masked diffusion is faster" if fewest < time else "AR is the better choice"
        says.append(f"it takes as long as {time:.4g} evaluations, so {better}, by {_times(fewest, time)}")
    sentence = "; ".join(says)
    return f"{sentence[0].upper()}{sentence[1:]}."


def _steps(plan: Plan) -> str:
    many = "step" if plan.steps == 1 else "steps"
    return f"{plan.steps:,} {many} of schedule {plan.schedule}, {plan.evaluations:,.4g} evaluations"


def _times(fewest: float, time: float) -> str:
    return f"a factor of {max(fewest / time, time / fewest):.3g}"


def _plan(plan: Plan) -> dict[str, Any]:
    return {
        "schedule": plan.schedule,
        "steps": plan.steps,
        "evaluations": plan.evaluations,
        "predicted": plan.predicted.to_dict(),
        "method": plan.predicted.method,
    }
