"""The log-probability that a model gives the tokens of two traces, and the temperature that drew them.

Along a trace, sum of log p(x_i | the tokens before its step), p the model at temperature 1. The cost of a difference is
that sum over A minus that over B, from the first step that differs on; before it the sums are equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from unmask.core import progress
from unmask.core.errors import UnmaskError
from unmask.denoisers import Denoiser, Marginals, as_marginals
from unmask.diagnosis.difference.causes import Cause, Evidence
from unmask.diagnosis.difference.rows import Split
from unmask.generation.trace import Row, Step, Trace
from unmask.samplers.contract import named_in_file

FITTED = 200  # tokens of a trace for the fit of its temperature
RESIDUAL = 1e-3  # nats; the largest median error of a temperature that fits
COLDEST, HOTTEST = 0.05, 20.0
AT_ONCE = 64  # contexts of a model call


@dataclass(frozen=True)
class Cost:
    """The loss of log-probability from the first different step on."""

    nats_per_row: float  # mean over the rows that split, A minus B: above 0 if the model prefers A
    preferred: int  # rows whose path in A has the higher log-probability
    rows: int

    @property
    def text(self) -> str:
        if not math.isfinite(self.nats_per_row):
            return "not finite: the model gives some of these tokens probability 0"
        other = "less" if self.nats_per_row >= 0 else "more"
        text = f"the model gives the tokens of B {abs(self.nats_per_row):.4g} nats per row {other} than those of A"
        return f"{text} (from the first difference on; A is preferred in {self.preferred} of {self.rows} rows)"


class Drawn(NamedTuple):
    """The tokens of one step, and their context."""

    row: int
    given: Tensor  # (L): the context, V where hidden
    positions: list[int]
    tokens: list[int]
    recorded: list[float]


def cost_of(seen: Evidence, denoiser: Denoiser) -> Cost:
    """The cost of the difference under this model."""
    check(seen.a, denoiser)
    losses = []
    with progress.track("replaying", len(seen.splits)) as advance:
        for split in seen.splits:
            ours, theirs = (_log_probability(denoiser, trace, split) for trace in (seen.a, seen.b))
            losses.append(ours - theirs)
            advance(1)
    mean = sum(losses) / len(losses) if all(map(math.isfinite, losses)) else math.nan
    return Cost(mean, sum(loss > 0 for loss in losses), len(losses))


def _log_probability(denoiser: Denoiser, trace: Trace, split: Split) -> float:
    """The sum of log p along a row, from its split on."""
    row = trace.rows[split.row]
    drawn = [_drawn(split.row, row, step, trace.vocabulary) for step in row.steps() if step.number >= split.step]
    return sum(float(p.log().sum()) for p in probabilities(denoiser, drawn))


def refitted(seen: Evidence, denoiser: Denoiser) -> Cause | None:
    """The temperatures of both traces by this model, if each fits and they differ."""
    check(seen.a, denoiser)
    ours, theirs = (temperature_of(trace, denoiser) for trace in (seen.a, seen.b))
    if ours is None or theirs is None or abs(math.log(ours / theirs)) < 10 * RESIDUAL:
        return None
    text = f"the model gives the recorded probabilities of A at temperature {ours:.4g}, those of B at {theirs:.4g}"
    return Cause("temperature", text, {"a": ours, "b": theirs})


def temperature_of(trace: Trace, denoiser: Denoiser) -> float | None:
    """The temperature at which the model gives the recorded probabilities; None if there is none."""
    few: list[Drawn] = []
    steps = ((number, row, step) for number, row in enumerate(trace.rows) for step in row.steps())
    for number, row, step in steps:
        few.append(_drawn(number, row, step, trace.vocabulary))
        if sum(len(one.positions) for one in few) >= FITTED:
            break
    marginals = list(_marginals(denoiser, few))
    recorded = torch.tensor([p for one in few for p in one.recorded], dtype=torch.float64).log()

    def error(log_temperature: float) -> float:
        at = [one.sharpened(math.exp(log_temperature)).of(tokens).double().log() for one, tokens in marginals]
        return float((torch.cat(at) - recorded).abs().median())

    if not marginals:
        return None
    best = minimize_scalar(error, bounds=(math.log(COLDEST), math.log(HOTTEST)), options={"xatol": 1e-5})
    return math.exp(best.x) if best.fun < RESIDUAL else None


def probabilities(denoiser: Denoiser, drawn: Sequence[Drawn]) -> Iterator[Tensor]:
    """The probabilities of the tokens of each model call."""
    for marginals, tokens in _marginals(denoiser, drawn):
        yield marginals.of(tokens).double()


def _marginals(denoiser: Denoiser, drawn: Sequence[Drawn]) -> Iterator[tuple[Marginals, Tensor]]:
    """The marginals at the revealed positions, and the tokens there, for some contexts of one length at a time."""
    drawn = [one for one in drawn if one.positions]
    at = 0
    while at < len(drawn):
        size = len(drawn[at].given)
        group: list[Drawn] = []
        while at < len(drawn) and len(drawn[at].given) == size and len(group) < AT_ONCE:
            group.append(drawn[at])
            at += 1
        canvas = torch.stack([one.given for one in group])
        rows = torch.tensor([number for number, one in enumerate(group) for _ in one.positions])
        positions = torch.tensor([at for one in group for at in one.positions])
        tokens = torch.tensor([token for one in group for token in one.tokens])
        yield as_marginals(denoiser.engine(canvas, canvas.clone()).at(rows, positions, None)), tokens


def _drawn(number: int, row: Row, step: Step, vocabulary: int) -> Drawn:
    canvas = torch.full((row.length,), vocabulary)
    for at, token in step.context.items():
        canvas[at] = token
    last = sorted(at for at in step.revealed if at in step.after)
    return Drawn(number, canvas, last, [step.after[at][0] for at in last], [step.after[at][1] for at in last])


def check(trace: Trace, denoiser: Denoiser) -> None:
    """Raise an error unless the model has the vocabulary of the trace."""
    if trace.vocabulary != denoiser.vocabulary:
        problem = f"the traces have {trace.vocabulary} symbols, {denoiser.name} has {denoiser.vocabulary}"
        raise UnmaskError(f"{problem}; expected the model of the traces")
    if (used := named_in_file(trace.sampler)) is not None and used.removes != denoiser.removes:
        problem = f"the trace is by {used.spec}, which removes {used.removes} noise"
        raise UnmaskError(f"{problem}; expected a sampler of masks with {denoiser.name}. Leave the model out.")
    if not denoiser.time_free:
        raise UnmaskError(f"{denoiser.name} depends on the time of a step, which a trace does not have. Leave it out")
