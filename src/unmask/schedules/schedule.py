"""How much is revealed at each round: delta_1..delta_N, nonnegative, summing to 1; alpha is derived (theory.md 1).

delta_k is the probability that a position is revealed at round k, counted in sampling order; before round k a position
is revealed with probability p_k = sum_{j<k} delta_j. A schedule by name is a function of the number of rounds; those
that are fitted are functions of what is written, too: of the language and the length (theory/schedules.py).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.compiled import kernel
from unmask.core.errors import UnmaskError, shown
from unmask.core.registry import Registry, parse
from unmask.core.search import first
from unmask.kernels.machine import Floats

if TYPE_CHECKING:
    from unmask.languages import Language

SCHEDULES: Registry[Tensor] = Registry("schedule", given=("steps", "fit"))  # name(steps), or name(steps, fit)
SUM_TOLERANCE = 1e-9
FINEST = 2**60

KNOWN: WeakKeyDictionary[Language, dict[Hashable, Tensor]] = WeakKeyDictionary()  # what was fitted to a language
ScheduleLike = str | Sequence[float] | Tensor  # a name with options, or delta


@dataclass(frozen=True)
class Fit:
    """What a schedule is fitted to: so many tokens of a language, and whether rounds reveal a fixed number of them."""

    language: Language
    length: int
    fixed_size: bool = False


def is_fitted(name: str) -> bool:
    """Whether a schedule by name asks what it is fitted to."""
    return "fit" in inspect.signature(SCHEDULES.find(name)).parameters


def check(schedule: str, steps: int, fit: Fit | None = None) -> None:
    """Refuses what `deltas` would refuse, without fitting anything, which may take a while."""
    name, _ = parse("schedule", schedule)
    if fit is not None and is_fitted(name):
        SCHEDULES.bind(schedule, 2)
    else:
        deltas(schedule, steps, fit)


def deltas(schedule: ScheduleLike, steps: int | None = None, fit: Fit | None = None) -> Tensor:
    """(N) float64 of a named schedule at `steps` rounds, or of an explicit list, whose length is N."""
    if steps is not None:
        steps = arguments.steps(steps)
    if isinstance(schedule, str):
        if steps is None:
            raise UnmaskError(f"schedule {schedule!r} needs a number of steps")
        name, _ = parse("schedule", schedule)
        if not is_fitted(name):
            return _normalised(SCHEDULES.make(schedule, steps))
        if fit is None:
            instead = "of a network give diagnosis.loss_curve.loss_curve(network, samples).schedule(steps)"
            raise UnmaskError(f"schedule {name!r} is fitted to a language, and here none is known; {instead}")
        return _fitted(schedule, steps, fit)
    try:
        delta = torch.as_tensor(schedule, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        what = f"schedule is {shown(schedule)}; expected a name of `unmask list schedules`, or the shares of the rounds"
        raise UnmaskError(what) from error
    if delta.is_nested or delta.layout != torch.strided or delta.is_meta:
        raise UnmaskError(f"schedule is {shown(schedule)}, which is no dense tensor; give a list of numbers")
    if delta.dim() != 1 or len(delta) == 0:
        raise UnmaskError(f"an explicit schedule is a list of numbers; this one has shape {tuple(delta.shape)}")
    if steps is not None and steps != len(delta):
        raise UnmaskError(f"the schedule lists {len(delta)} rounds, but steps is {steps}; leave steps out")
    bad = ~torch.isfinite(delta) | (delta < 0)
    if bad.any():
        at = int(bad.int().argmax())
        raise UnmaskError(f"delta_{at + 1} of the schedule is {float(delta[at])}; expected 0 or a positive number")
    if abs(float(delta.sum()) - 1) > SUM_TOLERANCE:
        raise UnmaskError(f"the schedule sums to {float(delta.sum()):.12g}, not 1; divide it by its sum")
    return _normalised(delta)


def _fitted(schedule: str, steps: int, fit: Fit) -> Tensor:
    """As a schedule by name says, asked once a language: blocks of rows, seeds and samplers share what it takes."""
    made = SCHEDULES.find(parse("schedule", schedule)[0])
    known, asked = KNOWN.setdefault(fit.language, {}), (made, schedule, steps, fit.length, fit.fixed_size)
    if asked not in known:
        known[asked] = _normalised(SCHEDULES.make(schedule, steps, fit))
    return known[asked].clone()


def as_delta(delta: object) -> Tensor:
    """The shares of rounds (N) as `deltas` makes them; an error where it is something else."""
    if not isinstance(delta, Tensor) or delta.dim() != 1 or not len(delta) or not delta.is_floating_point():
        arguments.refuse("delta", delta, "shares of rounds, a tensor (N): schedules.deltas(name, steps) makes one")
    return delta


@dataclass(frozen=True, eq=False)
class Schedule:
    """A schedule in the notation of theory.md 1: delta (N), and what is derived from it."""

    delta: Tensor

    def __repr__(self) -> str:
        least, most = float(self.delta.min()), float(self.delta.max())
        return f"<Schedule of {len(self.delta)} rounds, {least:.4g} to {most:.4g} each>"

    @cached_property
    def alpha(self) -> Tensor:
        """(N+1) what is revealed before the first round, and after each: alpha_t at t = 1, (N-1)/N, .., 0."""
        return torch.cat([self.delta.new_zeros(1), self.delta.cumsum(0)])

    @cached_property
    def p(self) -> Tensor:
        """(N) p_k = sum_{j<k} delta_j: P(a position is revealed before round k)."""
        return self.alpha[:-1].clamp(max=1.0)

    @cached_property
    def rho(self) -> Tensor:
        """(N) delta_k / (1 - p_k): P(what is still hidden is revealed now); exactly 1 in the last round of all."""
        left = self.delta.flip(0).cumsum(0).flip(0)
        return torch.where(left > 0, self.delta / left, 0.0)

    def sizes(self, hidden: int) -> Tensor:
        """(N) s_k where the numbers are fixed."""
        return sizes(self.delta, hidden)


def sizes(delta: Tensor, hidden: int) -> Tensor:
    """(N) whole numbers near hidden * delta_k that sum to `hidden`: largest remainders, the earlier round first.

    For the linear schedule these are LLaDA's transfer counts: hidden // N each, one more in the first hidden % N.
    """
    shares = delta * hidden
    whole = torch.floor(shares + 1e-9)
    missing = hidden - int(whole.sum())
    if missing > 0:
        remainders = torch.round((shares - whole) * 1e9)
        least = remainders.topk(missing).values[-1]
        more = (remainders > least).nonzero().squeeze(1)  # the rounds are many and those few: nothing is sorted
        equal = (remainders == least).nonzero().squeeze(1)
        whole[torch.cat([more, equal[: missing - len(more)]])] += 1
    return whole.long()


def _normalised(delta: Tensor) -> Tensor:
    return delta / delta.sum()


def _from_alpha(alpha: Callable[[Tensor], Tensor], steps: int) -> Tensor:
    """delta_k = alpha((N-k)/N) - alpha((N-k+1)/N), from alpha(1) = 0 up to alpha(0) = 1."""
    grid = alpha(torch.arange(steps, -1, -1, dtype=torch.float64) / steps)
    return (grid[1:] - grid[:-1]).clamp(min=0.0)


@SCHEDULES.register("linear")
def linear(steps: int) -> Tensor:
    """alpha = 1 - t: the same share at every round (MDLM's log-linear)."""
    return torch.full((steps,), 1 / steps, dtype=torch.float64)


@SCHEDULES.register("cosine")
def cosine(steps: int) -> Tensor:
    """alpha = cos(pi t / 2): most in the first rounds."""
    return _from_alpha(lambda t: torch.cos(math.pi / 2 * t), steps)


@SCHEDULES.register("cosine-squared")
def cosine_squared(steps: int) -> Tensor:
    """alpha = cos(pi t / 2)^2: most in the middle rounds."""
    return _from_alpha(lambda t: torch.cos(math.pi / 2 * t) ** 2, steps)


@SCHEDULES.register("polynomial")
def polynomial(steps: int, power: float = 2.0) -> Tensor:
    """alpha = 1 - t^power: above 1 most in the first rounds, below 1 most in the last."""
    arguments.number("power", power, above=True)
    return _from_alpha(lambda t: 1 - t**power, steps)


@SCHEDULES.register("geometric")
def geometric(steps: int, ratio: float = 1.05) -> Tensor:
    """delta_(k+1) = ratio delta_k."""
    arguments.number("ratio", ratio, above=True)
    return torch.softmax(torch.arange(steps, dtype=torch.float64) * math.log(ratio), 0)


@SCHEDULES.register("theorem-4.2")
def theorem_4_2(steps: int, order: int = 2) -> Tensor:
    """One round of eps, then equal ones: the explicit version of Theorem 4.2 for n-grams.

    The smallest eps with N >= 1 + ceil((1-eps)(n-1)/eps^n); its divergence a token is at most 2.4 eps log V.
    """
    _check_order(order)
    if steps == 1:
        return torch.ones(1, dtype=torch.float64)
    eps = _least_share(lambda eps: 1 + math.ceil((1 - eps) * (order - 1) / eps**order - 1e-9) <= steps)
    delta = torch.full((steps,), (1 - eps) / (steps - 1), dtype=torch.float64)
    delta[0] = eps
    return delta


@SCHEDULES.register("theorem-4.2-proportional")
def theorem_4_2_proportional(steps: int, order: int = 2) -> Tensor:
    """One round of eps, then delta_k = eps/(n-1) p_k^(n-1): the same divergence in far fewer rounds.

    The smallest eps whose rounds, clipped at what is left, number at most N.
    """
    _check_order(order)
    rounds = np.zeros(steps + 1)
    eps = _least_share(lambda eps: _proportional(eps, order, rounds) <= steps)
    used = _proportional(eps, order, rounds)
    rounds[used:] = 0.0
    return torch.from_numpy(rounds[:steps])


@kernel
def _proportional(eps: float, order: int, rounds: Floats) -> int:
    """How many rounds the proportional schedule has, written to rounds; all of them where they do not fit."""
    used, revealed = 1, eps
    rounds[0] = eps
    while revealed < 1 - 1e-12 and used < len(rounds):
        rounds[used] = min(eps / (order - 1) * revealed ** (order - 1), 1 - revealed)
        revealed += rounds[used]
        used += 1
    return used


def _least_share(holds: Callable[[float], bool]) -> float:
    """The smallest eps in (0, 1] for which a condition holds that stays true above it, on a grid of 2^-60."""
    return first(lambda place: holds(place / FINEST), guess=FINEST, most=FINEST) / FINEST


def _check_order(order: int) -> None:
    arguments.whole("order", order, 2, 64, ", that of an n-gram")
