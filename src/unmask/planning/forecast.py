"""The loss of parallel decoding of an open model, predicted for every number of steps before anything is decoded.

With ell_f(k) = M times the mean loss of a hidden token of an answer of M tokens, k of them revealed at random,

    G_N = sum_k s_k ell_f(c_k) / M - sum_{i < M} ell_f(i) / M        nats per answer,

where step k reveals s_k tokens after c_k, in random order. For an ideal denoiser and answers of its
language this is E KL(q || p_order). For a trained one it is the additional loss on these answers, of N steps against
one token per step. It can be negative, as such a denoiser does not agree with itself on an order; so it is not clipped.
The loss curve is measured once, and gives all N and schedules.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar

import torch
from torch import Tensor

from unmask.core import arguments, entries
from unmask.core.errors import UnmaskError, plural
from unmask.core.estimates import LEAST, Estimate
from unmask.core.tables import as_table
from unmask.diagnosis.loss_curve import LossCurve, loss_curve
from unmask.models.open.model import OpenModel
from unmask.models.open.prompted import Query, rows_of, speaker
from unmask.samplers import generate
from unmask.samplers.schedules import deltas

BEST = "optimal"  # the schedule of the least predicted loss
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Forecast:
    """Predicted losses in nats per answer, from a loss curve of M tokens."""

    curve: LossCurve
    schedule: str
    target: float | None
    times: tuple[float, float] | None  # milliseconds of an AR token and of a step
    model_calls: int  # that the prediction took
    own: bool  # whether the answers are the model's

    __repr__ = as_table

    def gap(self, steps: int, schedule: str | None = None) -> Estimate:
        """Nats per answer that N steps lose against one token per step."""
        most = self.curve.length
        name = schedule or self.schedule
        if steps >= most:
            delta = torch.full((most,), 1 / most, dtype=torch.float64)
        elif name == BEST:
            delta = self.curve.schedule(steps, fixed_size=True)
        else:
            delta = deltas(name, steps)
        return self.curve.divergence(delta, fixed_size=True)

    @cached_property
    def gaps(self) -> dict[int, dict[str, Estimate]]:
        """By N, a power of two below M: the loss of the schedule and of the best one."""
        numbers = [2**i for i in range((self.curve.length - 1).bit_length())]
        return {steps: self._by_schedule(partial(self.gap, steps)) for steps in numbers}

    def _by_schedule(self, work: Callable[[str], Result]) -> dict[str, Result]:
        """`work` of the schedule and of the best one, by their names."""
        return {name: work(name) for name in dict.fromkeys((self.schedule, BEST))}

    @cached_property
    def steps(self) -> dict[str, int]:
        """By schedule: the smallest N whose predicted loss is at most the target, with its whole interval."""
        return self._least(lambda loss: loss.high)

    @cached_property
    def fewest(self) -> dict[str, int]:
        """By schedule: the smallest N whose predicted loss is at most the target, without allowance for noise."""
        return self._least(lambda loss: loss.value)

    def _least(self, end: Callable[[Estimate], float]) -> dict[str, int]:
        """N by bisection: the loss falls with N, apart from noise, and N = M loses nothing."""
        target = self.target
        if target is None:
            return {}
        numbers = range(1, self.curve.length)
        return self._by_schedule(
            lambda name: 1 + bisect_left(numbers, True, key=lambda n: end(self.gap(n, name)) <= target)
        )

    @property
    def time_break_even(self) -> float | None:
        """Steps that take as long as an AR model with a KV cache."""
        return None if self.times is None else self.curve.length * self.times[0] / self.times[1]

    @property
    def text(self) -> str:
        if self.target is None:
            return "Pass --target with the nats per answer that may be lost, for the number of steps."
        best = min(self.steps, key=lambda name: self.steps[name])
        steps = self.steps[best]
        aim = f"A loss of at most {self.target:g} nats per answer of {self.curve.length} tokens"
        says = f"{aim} needs {plural(steps, 'step')} of schedule {best}."
        if (fewest := self.fewest[best]) < steps:
            loss = self.gap(fewest, best)
            reach = f"an interval up to {loss.high:.3g}. More answers narrow it"
            if loss.open:
                reach = f"no interval: {LEAST} answers are needed"
            says += f" A plan of {plural(fewest, 'step')} may suffice: it loses {loss.value:.3g} nats, with {reach}."
        if (most := self.time_break_even) is None:
            return says
        if steps < most:
            return f"{says} Masked decoding is {most / steps:.3g} times faster than AR."
        return f"{says} AR is {steps / most:.3g} times faster."

    def lines(self) -> list[tuple[str, str]]:
        """Lines for a reader."""
        lines = [("advice", self.text)]
        for steps, by_schedule in self.gaps.items():
            each = "; ".join(f"{name} {estimate}" for name, estimate in by_schedule.items())
            lines.append((plural(steps, "step"), f"{each} nats"))
        source = "the model's own answers" if self.own else "the texts"
        rows = f"{len(self.curve.losses)} of {source}, {self.curve.length} tokens each"
        return [*lines, ("from", f"{rows}; {self.model_calls:,} model calls")]

    def to_dict(self) -> dict[str, Any]:
        return {
            "verdict": self.text,
            "target": self.target,
            "plans": {
                name: {"steps": steps, "fewest": self.fewest[name], "predicted": self.gap(steps, name).to_dict()}
                for name, steps in self.steps.items()
            },
            "gaps": {str(steps): entries.mapped(Estimate.to_dict, losses) for steps, losses in self.gaps.items()},
            "length": self.curve.length,
            "rows": len(self.curve.losses),
            "own_answers": self.own,
            "model_calls": self.model_calls,
            "break_even_steps": self.time_break_even,
            "f": self.curve.curve.f.tolist(),
        }


def forecast(
    model: OpenModel,
    prompts: Sequence[Query] | None = None,
    texts: Sequence[str] | None = None,
    *,
    length: int = 64,
    looks: int = 16,
    schedule: str = "linear",
    target: float | None = None,
    times: tuple[float, float] | None = None,
    seed: int = 0,
) -> Forecast:
    """Predict the loss of N steps on answers of `length` tokens.

    prompts: their beginnings. (default: none) texts: an answer to each prompt, cut at `length` tokens; shorter ones are
    left out. (default: the model's own answers, one token per step in random order) looks: model calls per answer.
    """
    if model.card.causal:
        raise UnmaskError(f"{model.name} is an AR model, which needs one step per token; expected a masked model")
    arguments.length(length)
    if target is not None:
        arguments.number("target", target, what=" of nats")
    if schedule != BEST:
        deltas(schedule, 1)

    spent = 0
    if texts is None:
        if prompts is None:
            raise UnmaskError("there are no prompts and no texts; expected one of them")
        given = _starts(model, prompts, length)
        written = generate(model, given=given, sampler="first-hitting", steps=length, seed=seed)
        answers = [written.tokens[row, : len(one)] for row, one in enumerate(given)]
        spent = int(written.model_calls.sum())
    else:
        given, answers = _answers(model, prompts, texts, length)

    # a denoiser that contradicts itself may have a rising loss, so its means are kept
    curve = loss_curve(model, answers, looks, seed, given=given, monotone=False)
    return Forecast(curve, schedule, target, times, curve.model_calls + spent, texts is None)


def _starts(model: OpenModel, prompts: Sequence[Query], length: int) -> list[Tensor]:
    """Prompts followed by `length` hidden tokens."""
    for number, one in enumerate(prompts):
        if one.template is not None:
            raise UnmaskError(f"prompt {number} is a text with gaps; expected the beginning of a text")
    return rows_of(model, prompts, length)


def _answers(
    model: OpenModel, prompts: Sequence[Query] | None, texts: Sequence[str], length: int
) -> tuple[list[Tensor], list[Tensor]]:
    """(given tokens, whole rows) of the texts with at least `length` tokens."""
    prompts = entries.chosen(prompts, [Query(prompt="")] * len(texts))
    if len(prompts) != len(texts):
        raise UnmaskError(f"there are {len(prompts)} prompts and {len(texts)} texts; expected one text for each prompt")

    tokens = [torch.from_numpy(speaker(model).encode(text)).long()[:length] for text in texts]
    long = [number for number, one in enumerate(tokens) if len(one) == length]
    if len(long) < 2:
        raise UnmaskError(
            f"{len(long)} of {len(texts)} texts have {length} tokens",
            "expected at least 2. Reduce --length, or add longer texts",
        )

    given = _starts(model, [prompts[number] for number in long], length)
    return given, [torch.cat([one[: len(one) - length], tokens[n]]) for one, n in zip(given, long, strict=True)]
