"""gap(): the loss by parallel decoding, measured on rows that a sampler wrote."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path as File
from typing import Any

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import check_seed
from unmask.core.errors import UnmaskError
from unmask.denoisers import Denoiser, Guided, Sharpened
from unmask.denoisers.canvas import by_length
from unmask.diagnosis.gap import estimators
from unmask.diagnosis.gap.choice import Estimator, check_calls, chosen, evenly
from unmask.diagnosis.gap.drawn import corrections
from unmask.diagnosis.gap.estimators import Flips, Readings, Subsets
from unmask.diagnosis.gap.path import Path, of_generation, of_trace
from unmask.diagnosis.gap.reader import Reader
from unmask.diagnosis.gap.result import Claim, Distances, Flip, Gap, Steps
from unmask.generation import Generation, generate
from unmask.generation.trace import Trace
from unmask.generation.trace import read as read_trace
from unmask.ideal import as_denoiser
from unmask.languages import LanguageLike
from unmask.loading import load
from unmask.samplers import Sampler
from unmask.samplers.blocks import Blocks
from unmask.samplers.contract import CANVAS, as_sampler, named_in_file
from unmask.samplers.low_confidence import LowConfidence

Written = Generation | Trace | File | str | Sampler
ORDER_PART = 2  # one in this many model calls measures the order gap, by default
OTHER = 0.2  # nats: recorded probabilities of the same model differ by less, in the median step


@dataclass(frozen=True)
class Setting:
    """How rows were drawn."""

    denoiser: Denoiser  # at the temperature of `generate`, unless it is 0
    sampler: Sampler | None
    greedy: bool
    temperature: float  # of the sampler's own draws
    whole: bool = True  # whether all drawn tokens are known, also those after the end of a row

    @property
    def claim(self) -> Claim:
        sampler = self.sampler
        if self.greedy:
            return "greedy"
        if sampler is None:
            return "unknown"
        if sampler.chooses_before_drawing:
            return "path" if sampler.revises else "divergence"
        return "corrected" if self.whole and correctable(sampler) else "ratio"


def gap(
    source: LanguageLike | Denoiser,
    written: Written,
    *,
    calls: Estimator | int | None = None,
    seed: int = 0,
    sampler: str | Sampler | None = None,
    temperature: float | None = None,
    **how: Any,
) -> Gap:
    """Measure how much rows lose because a step draws several tokens at once: against the same model, token by token.

    source: the denoiser that wrote the rows; or a language, whose ideal denoiser is used; or the spec, file or
        directory of either, as accepted by `unmask.load`.
    written: a generation; a trace or the path of its file, also of another program; or a sampler, which then writes.
    calls: "one" or "pair": that many more contexts of every step; "chain": all tokens one by one; or a number of model
        calls per sequence, spent on the largest steps. (default: no more model calls than the generation)
    sampler, temperature: of a trace. (default: the trace's own sampler, if it has one; 1)
    how: further arguments of `generate`, for a sampler.
    """
    base = as_denoiser(load(source) if isinstance(source, str | File) else source)
    calls = check_calls(calls)
    rng = torch.Generator().manual_seed(check_seed(seed))
    if isinstance(written, str | Sampler):
        generates = {"seed": seed, "trace": True} | how
        if temperature is not None:
            generates["temperature"] = temperature
        written = generate(base, sampler=written, **generates)
    elif how:
        raise UnmaskError(f"{next(iter(how))} is an option of a generation; expected a sampler with it, not rows")
    if isinstance(written, File):
        written = read_trace(written)
    expected = "a generation, a trace, the path of a trace, or a sampler"
    if not isinstance(written, Generation | Trace):
        arguments.refuse("written", written, expected)
    check_vocabulary(base, written.vocabulary)
    if isinstance(written, Generation):
        about = written.configuration
        name = sampler or ("fixed-size" if written.planned else about["sampler"])  # any order fixed in advance
        whole = all(reason == "filled" for reason in written.reasons)
        path = of_generation(written)
        setting = replace(_setting(base, about, as_sampler(name), temperature), whole=whole)
        spent = int(written.model_calls_of.get("denoiser", torch.zeros(1)).sum())
    else:
        written.check_likely()
        path = of_trace(written)
        used = named_in_file(written.sampler) if sampler is None else as_sampler(sampler)
        setting = _setting(base, {}, used, temperature)
        spent = int(path.steps.sum()) * base.calls
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
    if guidance := about.get("guidance"):
        base = Guided(base, guidance)
    wanted = about.get("temperature") if temperature is None else temperature
    outer = 1.0 if wanted is None else arguments.number("temperature", wanted)
    sharpening = {"temperature": outer, "top_p": about.get("top_p", 1.0), "top_k": about.get("top_k")}
    if outer and sharpening != {"temperature": 1, "top_p": 1, "top_k": None}:
        base = Sharpened(base, **sharpening)
    own = 1.0 if used is None else own_temperature(used)
    return Setting(base, used, outer == 0 or own == 0, own if outer else 0.0)


def own_temperature(sampler: Sampler) -> float:
    """The temperature of the sampler's own draws; that of `generate` changes the marginals before."""
    while (inner := getattr(sampler, "inner", None)) is not None:
        sampler = as_sampler(inner)
    return float(getattr(sampler, "temperature", 1.0))


def correctable(sampler: Sampler) -> bool:
    """Whether the exact distribution of a step is known: low-confidence, also in blocks (drawn.py)."""
    if isinstance(sampler, Blocks) and sampler.first is None and sampler.nucleus == 1:
        sampler = as_sampler(sampler.inner)
    return type(sampler) is LowConfidence and not sampler.noise and not sampler.last and sampler.dtype == "float32"


def _measured(path: Path, setting: Setting, calls: Estimator | int | None, spent: int, rng: torch.Generator) -> Gap:
    reader = Reader(setting.denoiser, path, 0.0 if setting.greedy else setting.temperature)
    claim = setting.claim
    estimator: Estimator = calls if isinstance(calls, str) else "one"
    units: Estimator | int = spent // setting.denoiser.calls
    if calls is not None:
        units = calls if isinstance(calls, str) else calls * len(path.given) // setting.denoiser.calls
    rows, most, order_rows, compared = _budget(path, units, 3 if claim == "corrected" else 2, reader.consistent)
    local = torch.full((len(path.given),), -1)
    local[rows] = torch.arange(len(rows))
    size = path.size.double()
    weight = size if claim == "corrected" else size * (size - 1)
    steps, probability = chosen(weight.masked_fill(local[path.row] < 0, 0), path.row, most, rng)
    every = estimators.subsets(path, steps[path.size[steps] > 1], estimator, rng)
    readings, pairs, flips = estimators.read(reader, every)
    _check_recorded(readings, claim)

    place = torch.full((len(path.row),), -1)
    place[steps] = torch.arange(len(steps))

    def by_step(values: Tensor) -> Tensor:
        """(C): estimates of the chosen steps, from the means of the subsets (E)."""
        return torch.zeros(len(steps), dtype=torch.float64).index_add_(0, place[every.step], every.weight * values)

    def by_row(values: Tensor) -> Tensor:
        """(B'): sums over the steps of each row, unbiased, from those of the chosen steps (C)."""
        total = torch.zeros(len(rows), dtype=torch.float64)
        return total.index_add_(0, local[path.row[steps]], values / probability)

    logs = claim in ("corrected", "ratio") or bool(readings.nats.isinf().any())
    nats = by_step(readings.logs if logs else readings.nats)
    if claim == "corrected":
        nats += corrections(reader, steps, _blocks(setting, path))
    impossible = _impossible(setting.denoiser, path)[rows]
    order = _order_gap(reader, order_rows, compared, logs or setting.greedy, rng)
    own_row = local[path.row[every.step]]
    return Gap(
        claim=claim,
        estimator=estimator,
        logs=logs,
        nats=torch.where(impossible & logs, torch.inf, by_row(nats)),
        chain=by_row(by_step(readings.follows)) if estimator == "chain" else None,
        changed=by_row(by_step(readings.changed)),
        regret=by_row(by_step(readings.regret)) if setting.greedy else None,
        recorded=by_row(
            torch.zeros(len(steps), dtype=torch.float64).index_copy_(
                0, place[every.step], readings.recorded * path.size[every.step]
            )
        ),
        written=path.written[rows],
        turns=path.steps[rows],
        groups=None if path.groups is None else path.groups[rows],
        steps=Steps(
            local[path.row[steps]],
            path.number[steps],
            path.size[steps],
            (by_step(readings.changed) if setting.greedy else nats) / probability,
        ),
        every=_every(path, local),
        distances=Distances(
            own_row[pairs.subset],
            pairs.distance,
            pairs.nats,
            (path.size[every.step] * (path.size[every.step] - 1) / probability[place[every.step]])[pairs.subset],
        ),
        flips=tuple(_flips(path, every, flips)),
        order=order,
        order_groups=None if path.groups is None else path.groups[order_rows],
        model_calls=reader.model_calls,
        spent=spent,
    )


def _budget(path: Path, units: Estimator | int, each: int, consistent: bool) -> tuple[Tensor, int, Tensor, int]:
    """Rows to measure, and the largest number of steps of each; both again for the order gap.

    units: contexts in all. each: contexts of a step. consistent: whether the order gap is zero."""
    count = len(path.given)
    if isinstance(units, str):
        every = torch.arange(count)
        return every, int(path.steps.max()), every, 1
    compared = units // (ORDER_PART * estimators.CALLS)
    order_rows = torch.arange(count) if consistent else evenly(count, compared)
    compared = 0 if consistent else compared // max(len(order_rows), 1)
    left = units - estimators.CALLS * compared * len(order_rows)
    rows = evenly(count, max(left // each, 1))
    return rows, max(left // (each * len(rows)), 1), order_rows, compared


def _order_gap(reader: Reader, rows: Tensor, most: int, logs: bool, rng: torch.Generator) -> Tensor:
    """(B''): nats that right to left loses more than left to right on these rows. most: steps of a row."""
    path, total = reader.path, torch.zeros(len(rows), dtype=torch.float64)
    if reader.consistent:
        return total
    local = torch.full((len(path.given),), -1)
    local[rows] = torch.arange(len(rows))
    weight = (path.size * (path.size - 1)).masked_fill(local[path.row] < 0, 0)
    steps, probability = chosen(weight, path.row, most, rng)
    differences = estimators.differences(reader, steps, logs, rng)
    return total.index_add_(0, local[path.row[steps]], differences / probability)


def _check_recorded(readings: Readings, claim: Claim) -> None:
    """Raise an error if the recorded probabilities are those of another model."""
    if claim == "ratio" or not len(readings.apart):
        return
    typical = float(readings.apart.median())
    if typical > OTHER:
        if claim == "greedy":
            problem = f"in the median step {typical:.0%} of the tokens are not this model's most likely ones"
            raise UnmaskError(
                f"{problem}; expected the model that wrote the rows. Check the model and the temperature."
            )
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


def _blocks(setting: Setting, path: Path) -> Tensor:
    """(B, L): the block of each position, in which low-confidence chooses."""
    hidden = (path.given == path.vocabulary) & path.valid
    if isinstance(setting.sampler, Blocks):
        return setting.sampler.numbered(hidden, setting.denoiser.grid)
    return torch.where(hidden, 0, -1)


def _every(path: Path, local: Tensor) -> Steps:
    """All steps of the measured rows."""
    there = (local[path.row] >= 0).nonzero().squeeze(1)
    return Steps(local[path.row[there]], path.number[there], path.size[there], torch.zeros(len(there)))


def _flips(path: Path, every: Subsets, flips: Flips) -> Iterator[Flip]:
    for subset, entry, other in zip(*(part.tolist() for part in (flips.subset, flips.entry, flips.token)), strict=True):
        step = every.step[subset]
        yield Flip(
            int(path.row[step]), int(path.number[step]), int(path.position[entry]), int(path.token[entry]), other
        )
