"""gap(): the loss by parallel decoding, measured on rows that a sampler wrote."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any, cast, get_args

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import check_seed
from unmask.core.errors import UnmaskError
from unmask.denoisers import Denoiser, Guided, Sharpened, as_denoiser
from unmask.denoisers.canvas import by_length
from unmask.diagnosis.gap import estimators
from unmask.diagnosis.gap.estimators import Estimator, Readings
from unmask.diagnosis.gap.path import Path, Reader, of_generation, of_trace
from unmask.diagnosis.gap.result import Claim, Gap
from unmask.languages import LanguageLike
from unmask.models.loading import load
from unmask.samplers import Generation, Sampler, generate
from unmask.samplers.contract import CANVAS, as_sampler, named_in_file
from unmask.samplers.trace import Trace
from unmask.samplers.trace import read as read_trace

Written = Generation | Trace | File | str | Sampler
OTHER = 0.2  # nats: recorded probabilities of the same model differ by less, in the median step


@dataclass(frozen=True)
class Setting:
    """How rows were drawn."""

    denoiser: Denoiser  # at the temperature of `generate`, unless it is 0
    temperature: float  # of the sampler's own draws; 0 if either is 0
    claim: Claim


def gap(
    source: LanguageLike | Denoiser,
    written: Written,
    *,
    calls: Estimator = "one",
    seed: int = 0,
    sampler: str | Sampler | None = None,
    temperature: float | None = None,
    **how: Any,
) -> Gap:
    """Measure how much rows lose because a step draws several tokens at once: against the same model, token by token.

    source: the denoiser that wrote the rows; or a language, whose ideal denoiser is used; or the spec, file or
        directory of either, as accepted by `unmask.load`.
    written: a generation; a trace or the path of its file, also of another program; or a sampler, which then writes.
    calls: "one": one more context of every step; "chain": all its tokens one by one.
    sampler, temperature: of a trace. (default: the trace's own sampler, if it has one; 1)
    how: further arguments of `generate`, for a sampler.
    """
    base = as_denoiser(load(source) if isinstance(source, str | File) else source)
    calls = cast(Estimator, arguments.word("calls", calls, get_args(Estimator)))
    rng = torch.Generator().manual_seed(check_seed(seed))
    if isinstance(written, str | Sampler):
        own = {} if temperature is None else {"temperature": temperature}
        written = generate(base, sampler=written, **({"seed": seed, "trace": True} | how | own))
    elif how:
        raise UnmaskError(f"{next(iter(how))} is an option of a generation; expected a sampler with it, not rows")
    if isinstance(written, File):
        written = read_trace(written)
    if not isinstance(written, Generation | Trace):
        arguments.refuse("written", written, "a generation, a trace, the path of a trace, or a sampler")
    check_vocabulary(base, written.vocabulary)
    if isinstance(written, Generation):
        about = written.configuration
        path = of_generation(written)
        used: Sampler | None = as_sampler(sampler or ("fixed-size" if written.planned else about["sampler"]))
        spent = int(written.model_calls_of.get("denoiser", torch.zeros(1)).sum())
    else:
        written.check_likely()
        path, about = of_trace(written), {}
        used = named_in_file(written.sampler) if sampler is None else as_sampler(sampler)
        spent = int(path.steps.sum()) * base.calls
    setting = _setting(base, about, used, temperature)
    if not len(path.entries):
        raise UnmaskError("the rows have no drawn token; expected rows that a sampler wrote")
    return _measured(path, setting, calls, spent, rng)


def check_vocabulary(denoiser: Denoiser, symbols: int) -> None:
    if symbols != denoiser.vocabulary:
        sizes = f"the rows have {symbols} symbols, {denoiser.name} has {denoiser.vocabulary}"
        raise UnmaskError(f"{sizes}; expected the same. Pass the model that wrote the rows.")


def _setting(base: Denoiser, about: Mapping[str, Any], used: Sampler | None, temperature: float | None) -> Setting:
    """The setting of a generation's configuration; temperature replaces its own."""
    if used is not None and used.reads != CANVAS:
        problem = f"sampler {used.spec} uses an AR model"
        raise UnmaskError(f"{problem}; expected one that only fills masks, such as ancestral")
    if used is not None and used.removes != base.removes:
        problem = f"sampler {used.spec} removes {used.removes} noise, whose gap is not known"
        raise UnmaskError(f"{problem}; expected a sampler of masks, such as ancestral. Use score or audit instead.")
    if draw := about.get("draw"):
        problem = f"the tokens of a step were drawn together, by {draw}"
        raise UnmaskError(f"{problem}; the gap is that of draw='product'. Use samplers.joint.divergence.")
    if guidance := about.get("guidance"):
        base = Guided(base, guidance)
    wanted = about.get("temperature") if temperature is None else temperature
    outer = 1.0 if wanted is None else arguments.number("temperature", wanted)
    sharpening = {"temperature": outer, "top_p": about.get("top_p", 1.0), "top_k": about.get("top_k")}
    if outer and sharpening != {"temperature": 1, "top_p": 1, "top_k": None}:
        base = Sharpened(base, **sharpening)
    drawing = used  # the temperature of the sampler's own draws; that of `generate` changes the marginals before
    while (inner := getattr(drawing, "inner", None)) is not None:
        drawing = as_sampler(inner)
    own = float(getattr(drawing, "temperature", 1.0))
    claim: Claim = "ratio"
    if outer == 0 or own == 0:
        claim = "greedy"
    elif used is None:
        claim = "unknown"
    elif used.chooses_before_drawing:
        claim = "path" if used.revises else "divergence"
    return Setting(base, own if outer else 0.0, claim)


def _measured(path: Path, setting: Setting, estimator: Estimator, spent: int, rng: torch.Generator) -> Gap:
    claim, count = setting.claim, len(path.given)
    reader = Reader(setting.denoiser, path, setting.temperature)
    every = estimators.subsets(path, (path.size > 1).nonzero().squeeze(1), estimator, rng)
    readings = estimators.read(reader, every)
    _check_recorded(readings, claim)

    def by_row(values: Tensor) -> Tensor:
        """(B): sums over the steps of each row, whose estimates are the weighted means of the subsets (E)."""
        steps = torch.zeros(len(path.row), dtype=torch.float64).index_add_(0, every.step, every.weight * values)
        return torch.zeros(count, dtype=torch.float64).index_add_(0, path.row, steps)

    logs = claim == "ratio" or bool(readings.nats.isinf().any())
    nats = by_row(readings.logs if logs else readings.nats)
    recorded = torch.zeros(len(path.row), dtype=torch.float64)
    recorded[every.step] = readings.recorded * path.size[every.step]
    return Gap(
        claim=claim,
        estimator=estimator,
        logs=logs,
        nats=torch.where(_impossible(setting.denoiser, path), torch.inf, nats) if logs else nats,
        chain=by_row(readings.follows) if estimator == "chain" else None,
        changed=by_row(readings.changed),
        regret=by_row(readings.regret) if claim == "greedy" else None,
        recorded=torch.zeros(count, dtype=torch.float64).index_add_(0, path.row, recorded),
        written=path.written,
        turns=path.steps,
        groups=path.groups,
        model_calls=reader.model_calls,
        spent=spent,
    )


def _check_recorded(readings: Readings, claim: Claim) -> None:
    """Raise an error if the recorded probabilities are those of another model."""
    typical = float(readings.apart.median()) if len(readings.apart) else 0.0
    if claim == "ratio" or not typical > OTHER:
        return
    if claim == "greedy":
        problem = f"in the median step {typical:.0%} of the tokens are not this model's most likely ones"
        raise UnmaskError(f"{problem}; expected the model that wrote the rows. Check the model and the temperature.")
    problem = f"the recorded probabilities and this model's differ by a factor of {math.exp(typical):.3g}"
    raise UnmaskError(f"{problem} (median); expected the model that wrote the rows. Check it and the temperature.")


def _impossible(denoiser: Denoiser, path: Path) -> Tensor:
    """Bool (B): rows that an ideal denoiser's language cannot produce."""
    inner = denoiser.inner if isinstance(denoiser, Sharpened) else denoiser
    out = torch.zeros(len(path.given), dtype=torch.bool)
    if inner.ideal and inner.language is not None:
        final = path.final
        for length, rows in by_length(path.valid.sum(1)):
            out[rows] = inner.language.log_evidence(final[rows, :length]) == -torch.inf
    return out
