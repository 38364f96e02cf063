"""The log-probability that a model gives the tokens of two traces, and the temperature that drew them.

Along a trace, sum of log p(x_i | the tokens before its step), p the model at temperature 1. The cost of a difference is
that sum over A minus that over B, from the first step that differs on; before it the sums are equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from unmask.core import progress
from unmask.core.errors import UnmaskError
from unmask.denoisers import Denoiser, Marginals
from unmask.diagnosis.difference.causes import Cause, Evidence
from unmask.diagnosis.difference.rows import Split
from unmask.diagnosis.gap.path import NEVER, of_trace
from unmask.diagnosis.gap.reader import Reader
from unmask.generation.trace import Trace
from unmask.samplers.contract import named_in_file

FITTED = 200  # tokens of a trace for the fit of its temperature
RESIDUAL = 1e-3  # nats; the largest median error of a temperature that fits
COLDEST, HOTTEST = 0.05, 20.0


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


def cost_of(seen: Evidence, denoiser: Denoiser) -> Cost:
    """The cost of the difference under this model."""
    check(seen.a, denoiser)
    ours, theirs = (_log_probabilities(Reader(denoiser, of_trace(trace)), seen.splits) for trace in (seen.a, seen.b))
    losses = ours - theirs
    mean = float(losses.mean()) if bool(losses.isfinite().all()) else math.nan
    return Cost(mean, int((losses > 0).sum()), len(losses))


def _log_probabilities(reader: Reader, splits: Sequence[Split]) -> Tensor:
    """(S): the sum of log p along each row that splits, from its split on."""
    path, rows = reader.path, torch.tensor([split.row for split in splits])
    begin = torch.full((len(path.given),), NEVER)
    begin[rows] = torch.tensor([split.step for split in splits])
    total = torch.zeros(len(begin), dtype=torch.float64)
    with progress.track("replaying", len(path.row)) as advance:
        for entry, marginals in _marginals(reader, (path.number >= begin[path.row]).nonzero().squeeze(1)):
            total.index_add_(0, path.row[path.step[entry]], marginals.of(path.token[entry]).double().log())
            advance(len(path.step[entry].unique()))
    return total[rows]


def _marginals(reader: Reader, steps: Tensor) -> Iterator[tuple[Tensor, Marginals]]:
    """The entries of some steps at a time, and the marginals that drew them."""
    none = torch.zeros(0, dtype=torch.int64)

    def answer(part: slice) -> tuple[Tensor, Marginals]:
        wanted = reader.entries(steps[part])
        return wanted[1], reader.at(steps[part], (none, none), wanted)[0]

    return (result for _, result in reader.each(answer, steps, 1))


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
    path = of_trace(trace)
    few = torch.arange(min(int((path.size.cumsum(0) < FITTED).sum()) + 1, len(path.row)))
    parts = list(_marginals(Reader(denoiser, path), few))
    if not parts:
        return None
    recorded = torch.cat([path.probability[entry] for entry, _ in parts]).log()

    def error(log_temperature: float) -> float:
        at = [one.sharpened(math.exp(log_temperature)).of(path.token[e]).double().log() for e, one in parts]
        return float((torch.cat(at) - recorded).abs().median())

    best = minimize_scalar(error, bounds=(math.log(COLDEST), math.log(HOTTEST)), options={"xatol": 1e-5})
    return math.exp(best.x) if best.fun < RESIDUAL else None


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
