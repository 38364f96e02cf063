"""Schedules: delta_1..delta_N, nonnegative with sum 1; alpha is derived (theory.md 1).

delta_k is the probability that step k reveals a position, in sampling order. Before step k, a position is revealed with
probability p_k = sum_{j<k} delta_j. A named schedule is a function of the number of steps; a fitted schedule also
depends on the language and the length (theory/optimal.py).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError, shown
from unmask.core.registry import Registry
from unmask.core.search import first
from unmask.core.specs import parse

if TYPE_CHECKING:
    from unmask.languages import Language

SCHEDULES: Registry[Tensor] = Registry("schedule", given=("steps", "fit"))  # name(steps), or name(steps, fit)
SUM_TOLERANCE = 1e-9
FINEST = 2**60

KNOWN: WeakKeyDictionary[Language, dict[Hashable, Tensor]] = WeakKeyDictionary()  # the schedules that were fitted
ScheduleLike = str | Sequence[float] | Tensor  # a name with options, or delta


@dataclass(frozen=True)
class Fit:
    """The target of a fitted schedule: a language, a length, and whether each step reveals a fixed number of tokens."""

    language: Language
    length: int
    fixed_size: bool = False


def is_fitted(name: str) -> bool:
    """Whether a named schedule needs a `Fit`."""
    return "fit" in inspect.signature(SCHEDULES.find(name)).parameters


def deltas(schedule: ScheduleLike, steps: int | None = None, fit: Fit | None = None) -> Tensor:
    """(N) float64: a named schedule of `steps` steps, or an explicit list of length N."""
    if steps is not None:
        steps = arguments.whole("steps", steps, 1, arguments.MOST_STEPS)
    if isinstance(schedule, str):
        if steps is None:
            raise UnmaskError(f"schedule {schedule!r} needs a number of steps. Pass steps.")
        name, _ = parse("schedule", schedule)
        if not is_fitted(name):
            delta = SCHEDULES.make(schedule, steps)
            return delta / delta.sum()
        if fit is None:
            raise UnmaskError(
                f"schedule {name!r} is fitted to a language, but no language is known here",
                "For a network pass diagnosis.loss_curve.loss_curve(network, samples).schedule(steps).",
            )
        return _fitted(schedule, steps, fit)

    try:
        delta = torch.as_tensor(schedule, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UnmaskError(
            f"schedule is {shown(schedule)}", "expected a name of `unmask show schedule`, or a list of fractions"
        ) from error

    if delta.is_nested or delta.layout != torch.strided or delta.is_meta:
        raise UnmaskError(f"schedule is {shown(schedule)}; expected a dense tensor, or a list of numbers")
    if delta.dim() != 1 or len(delta) == 0:
        raise UnmaskError(f"schedule has shape {tuple(delta.shape)}; expected a list of numbers")
    if steps is not None and steps != len(delta):
        raise UnmaskError(f"the schedule lists {len(delta)} steps, but steps is {steps}. Leave steps out.")

    bad = ~torch.isfinite(delta) | (delta < 0)
    if bad.any():
        at = int(bad.int().argmax())
        raise UnmaskError(f"delta_{at + 1} of the schedule is {float(delta[at])}; expected 0 or a positive number")
    if abs(float(delta.sum()) - 1) > SUM_TOLERANCE:
        raise UnmaskError(f"the schedule sums to {float(delta.sum()):.12g}; expected 1. Divide it by its sum.")
    return delta / delta.sum()


def _fitted(schedule: str, steps: int, fit: Fit) -> Tensor:
    """A fitted schedule, cached for each language, because fitting is expensive."""
    maker = SCHEDULES.find(parse("schedule", schedule)[0])
    known = KNOWN.setdefault(fit.language, {})
    key = maker, schedule, steps, fit.length, fit.fixed_size
    if key not in known:
        delta = SCHEDULES.make(schedule, steps, fit)
        known[key] = delta / delta.sum()
    return known[key].clone()


def as_delta(delta: object) -> Tensor:
    """Check that delta is a tensor (N), as `deltas` returns it."""
    if not isinstance(delta, Tensor) or delta.dim() != 1 or not len(delta) or not delta.is_floating_point():
        arguments.refuse("delta", delta, "a tensor of fractions (N), as schedules.deltas(name, steps) returns it")
    return delta


@dataclass(frozen=True, eq=False)
class Schedule:
    """A schedule in the notation of theory.md 1: delta (N), and the quantities that follow from it."""

    delta: Tensor

    def __repr__(self) -> str:
        least, most = float(self.delta.min()), float(self.delta.max())
        return f"<Schedule of {len(self.delta)} steps, {least:.4g} to {most:.4g} each>"

    @cached_property
    def alpha(self) -> Tensor:
        """(N+1) the fraction revealed before the first step, and after each: alpha_t at t = 1, (N-1)/N, .., 0."""
        return torch.cat([self.delta.new_zeros(1), self.delta.cumsum(0)])

    @cached_property
    def p(self) -> Tensor:
        """(N) p_k = sum_{j<k} delta_j: P(a position is revealed before step k)."""
        return self.alpha[:-1].clamp(max=1.0)

    @cached_property
    def rho(self) -> Tensor:
        """(N) delta_k / (1 - p_k): P(step k reveals a position that is still hidden); exactly 1 in the last step."""
        left = self.delta.flip(0).cumsum(0).flip(0)
        return torch.where(left > 0, self.delta / left, 0.0)

    def sizes(self, hidden: int) -> Tensor:
        return sizes(self.delta, hidden)


def sizes(delta: Tensor, hidden: int) -> Tensor:
    """(N) integers near hidden * delta_k that sum to `hidden`: largest remainders, the earlier step first.

    For the linear schedule these are LLaDA's transfer counts: hidden // N each, one more in the first hidden % N.
    """
    exact = delta * hidden
    whole = torch.floor(exact + 1e-9)
    missing = hidden - int(whole.sum())

    if missing > 0:
        remainders = torch.round((exact - whole) * 1e9)
        least = remainders.topk(missing).values[-1]
        more = (remainders > least).nonzero().squeeze(1)  # no sort of all steps, since few of them are needed
        equal = (remainders == least).nonzero().squeeze(1)
        whole[torch.cat([more, equal[: missing - len(more)]])] += 1

    return whole.long()


def coarsen(delta: Tensor, steps: int) -> Tensor:
    """The same schedule in fewer steps, each of which merges neighbouring ones."""
    edges = Schedule(delta).alpha
    at = torch.linspace(0, len(delta), steps + 1, dtype=torch.float64)
    low = at.floor().long().clamp(max=len(delta) - 1)
    grid = edges[low] + (at - low) * (edges[low + 1] - edges[low])
    return grid[1:] - grid[:-1]


class BlockSchedules(NamedTuple):
    """N steps are divided among the blocks of a row; rows with blocks of equal sizes are of one kind."""

    kind: Tensor  # (B)
    sizes: Tensor  # (kinds, blocks): positions of each block
    deltas: list[list[Tensor]]  # for each kind the schedule of each block

    @classmethod
    def of(cls, blocks: Tensor, delta: Tensor, free: bool) -> BlockSchedules:
        """For blocks (B, L), numbered from 0 in each row; -1 is in no block. free: N is not used."""
        number = max(int(blocks.max()) + 1, 1)
        counts = torch.zeros((len(blocks), number + 1), dtype=torch.int64)
        counts.scatter_add_(1, blocks + 1, torch.ones_like(blocks))
        counts = counts[:, 1:]

        kind, kinds = torch.zeros(len(counts), dtype=torch.int64), counts[:1]
        if not bool((counts == counts[0]).all()):  # rows with unequal given tokens
            kinds, kind = counts.unique(dim=0, return_inverse=True)

        deltas = []
        for size in kinds:
            own = int((size > 0).sum())  # number of blocks
            if own <= 1:
                deltas.append([delta])
                continue
            if len(delta) < own and not free:
                raise UnmaskError(
                    f"steps is {len(delta)} for {own} blocks of {int(size[0])} positions",
                    f"expected at least {own} steps",
                )

            parts = sizes(torch.full((own,), 1 / own, dtype=torch.float64), len(delta)).clamp(min=1)
            deltas.append([coarsen(delta, part) for part in parts.tolist()])

        return cls(kind, kinds, deltas)


def _from_alpha(alpha: Callable[[Tensor], Tensor], steps: int) -> Tensor:
    """delta_k = alpha((N-k)/N) - alpha((N-k+1)/N), from alpha(1) = 0 up to alpha(0) = 1."""
    grid = alpha(torch.arange(steps, -1, -1, dtype=torch.float64) / steps)
    return (grid[1:] - grid[:-1]).clamp(min=0.0)


@SCHEDULES.register("linear")
def linear(steps: int) -> Tensor:
    """alpha = 1 - t: the same fraction at every step (MDLM's log-linear)."""
    return torch.full((steps,), 1 / steps, dtype=torch.float64)


@SCHEDULES.register("cosine")
def cosine(steps: int) -> Tensor:
    """alpha = cos(pi t / 2): most in the first steps."""
    return _from_alpha(lambda t: torch.cos(math.pi / 2 * t), steps)


@SCHEDULES.register("cosine-squared")
def cosine_squared(steps: int) -> Tensor:
    """alpha = cos(pi t / 2)^2: most in the middle steps."""
    return _from_alpha(lambda t: torch.cos(math.pi / 2 * t) ** 2, steps)


@SCHEDULES.register("polynomial")
def polynomial(steps: int, power: float = 2.0) -> Tensor:
    """alpha = 1 - t^power: above 1 most in the first steps, below 1 most in the last."""
    arguments.number("power", power, above=True)
    return _from_alpha(lambda t: 1 - t**power, steps)


@SCHEDULES.register("sqrt")
def sqrt(steps: int) -> Tensor:
    """alpha = sqrt(1 - t): small steps near the end."""
    return _from_alpha(lambda t: (1 - t).sqrt(), steps)


@SCHEDULES.register("beta")
def beta(steps: int, a: float = 1.0, b: float = 1.0) -> Tensor:
    """alpha = the (1 - t)-quantile of Beta(a, b): a above 1 and b below 1 make small steps near the end."""
    from scipy.stats import beta as distribution

    arguments.number("a", a, above=True)
    arguments.number("b", b, above=True)
    return _from_alpha(lambda t: torch.from_numpy(distribution.ppf((1 - t).numpy(), a, b)), steps)


@SCHEDULES.register("geometric")
def geometric(steps: int, ratio: float = 1.05, last: float | None = None) -> Tensor:
    """delta_(k+1) = ratio delta_k; with `last`, 1 - alpha falls geometrically from 1 to `last` before the last step."""
    if last is None:
        arguments.number("ratio", ratio, above=True)
        return torch.softmax(torch.arange(steps, dtype=torch.float64) * math.log(ratio), 0)
    if not 0 < arguments.number("last", last) < 1:
        arguments.refuse("last", last, "a fraction between 0 and 1, the one left for the last step")
    left = last ** (torch.arange(steps, dtype=torch.float64) / max(steps - 1, 1))
    return left - torch.cat([left[1:], left.new_zeros(1)])


@SCHEDULES.register("theorem-4.2")
def theorem_4_2(steps: int, order: int = 2) -> Tensor:
    """One step of eps, then equal ones: the explicit version of Theorem 4.2 for n-grams.

    The smallest eps with N >= 1 + ceil((1-eps)(n-1)/eps^n); its divergence per token is at most 2.4 eps log V.
    """
    arguments.whole("order", order, 2, 64, ", the order of an n-gram")
    if steps == 1:
        return torch.ones(1, dtype=torch.float64)

    def enough(index: int) -> bool:
        eps = index / FINEST
        return 1 + math.ceil((1 - eps) * (order - 1) / eps**order - 1e-9) <= steps

    eps = first(enough, guess=FINEST, most=FINEST) / FINEST  # on a grid of 2^-60
    delta = torch.full((steps,), (1 - eps) / (steps - 1), dtype=torch.float64)
    delta[0] = eps
    return delta
