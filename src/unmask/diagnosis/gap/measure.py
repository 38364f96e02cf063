"""gap(): the loss by parallel decoding, measured on rows that a sampler wrote."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path as File
from typing import Any, NamedTuple, cast, get_args

import torch
from torch import Tensor

from unmask.core import arguments, entries
from unmask.core.chance import check_seed
from unmask.core.errors import UnmaskError
from unmask.denoisers import Denoiser, as_denoiser
from unmask.denoisers.canvas import by_length
from unmask.denoisers.reshaped import Around, Guided, Nucleus, Sharpened
from unmask.diagnosis.gap.estimators import Estimator, Readings, measure
from unmask.diagnosis.gap.path import Path, Reader, of_generation, of_trace
from unmask.diagnosis.gap.reference import ROWS, reference
from unmask.diagnosis.gap.result import Claim, Gap
from unmask.languages import LanguageLike
from unmask.models.loading import load
from unmask.samplers import Generation, Sampler, generate
from unmask.samplers.contract import CANVAS, as_sampler, named_in_file
from unmask.samplers.generation import reshaped
from unmask.samplers.joint import Joint, as_joint, log_paths
from unmask.samplers.trace import Trace
from unmask.samplers.trace import read as read_trace

OTHER = 0.2  # nats: recorded probabilities of the same model differ by less, in the median step
USUAL = {"rows": 500, "length": 64}  # if gap() generates
NEUTRAL = {"temperature": 1, "top_p": 1, "top_k": None, "nucleus": None, "scale": 0}  # options that change nothing


class Setting(NamedTuple):
    denoiser: Denoiser  # at the temperature of `generate`
    temperature: float  # of the sampler's own draws; 0 if either is 0
    claim: Claim
    sampler: Sampler | None


def gap(
    source: LanguageLike | Denoiser,
    written: Generation | Trace | File | str | None = None,
    *,
    sampler: str | Sampler | None = None,
    calls: Estimator = "one",
    reference: int = ROWS,
    seed: int = 0,
    temperature: float | None = None,
    draw: str | Joint | None = None,
    **how: Any,
) -> Gap:
    """Measure how much rows lose because a step draws several tokens at once: against the same model, token by token.

    source: the denoiser that writes the rows; or a language, whose ideal denoiser is used; or the spec, file or
        directory of either, as accepted by `unmask.load`.
    written: a generation; or a trace or the path of its file, also of another program. (default: 500 new rows)
    sampler: of the new rows, or of a trace. (default: ancestral, or the one that the trace names)
    calls: "one": one more context of every step; "chain": all its tokens one by one.
    reference: rows that are also written one token at a time, for the variety, the order and the steps; 0: none.
    temperature, draw, how: as in `generate`, for new rows; temperature also of a trace. (default: 1)
    """
    base = as_denoiser(load(source) if isinstance(source, str | File) else source)
    calls = cast(Estimator, arguments.word("calls", calls, get_args(Estimator)))
    rows = arguments.whole("reference", reference, 0)
    check_seed(seed)

    own = entries.given({"sampler": sampler, "temperature": temperature, "draw": draw})
    if written is None:
        how = {"seed": seed, "trace": True} | _sized(base, how) | own
        written = generate(base, **entries.given(how))
    elif how:
        raise UnmaskError(f"{next(iter(how))} is an option of a generation; expected it without rows. Leave one out.")

    if isinstance(written, str | File):
        written = read_trace(written)
    arguments.of_kind("written", written, Generation | Trace, "a generation, a trace, or the path of a trace")
    check_vocabulary(base, written.vocabulary)

    excess = None

    # a generation has its options on record; a trace may be of another program
    if isinstance(written, Trace):
        written.check_likely()
        path = of_trace(written)
        used = named_in_file(written.sampler) if sampler is None else as_sampler(sampler)
        setting = _setting(base, own, used)
        spent = int(path.steps.sum()) * base.calls
    else:
        path = of_generation(written)
        about = written.configuration | own
        used = as_sampler(about["sampler"])
        setting = _setting(base, about, used)
        excess = _excess(setting.denoiser, used, written, path, about.get("draw", "product"))
        spent = int(written.model_calls_of.get("denoiser", torch.zeros(1)).sum())

    if not len(path.step):
        raise UnmaskError("the rows have no drawn token; expected rows that a sampler wrote")
    return _measured(path, setting, excess, calls, seed, min(rows, len(path.given)), spent)


def check_vocabulary(denoiser: Denoiser, symbols: int) -> None:
    if symbols != denoiser.vocabulary:
        raise UnmaskError(
            f"the rows have {symbols} symbols, {denoiser.name} has {denoiser.vocabulary}",
            "expected the same. Pass the model that wrote the rows.",
        )


def _sized(base: Denoiser, how: dict[str, Any]) -> dict[str, Any]:
    """Options of a generation with their usual numbers of rows and tokens."""
    if how.get("given") is not None:
        return how
    length = how.get("length") or getattr(base, "length", None)
    if length is None and base.language is not None:
        length = base.language.nearest_lengths(USUAL["length"])[-1]
    if length is None:
        raise UnmaskError(f"{base.name} has no usual length; expected a number of tokens. Pass length=64.")
    return USUAL | how | {"length": length}


def _setting(base: Denoiser, about: Mapping[str, Any], used: Sampler | None) -> Setting:
    """The setting of a generation's configuration, or of the known part of a trace's."""
    if used is not None and used.reads != CANVAS:
        raise UnmaskError(
            f"sampler {used.spec} uses an AR model", "expected one that only fills masks, such as ancestral"
        )
    if used is not None and used.removes != base.removes:
        raise UnmaskError(
            f"sampler {used.spec} removes {used.removes} noise, whose gap is not known",
            "expected a sampler of masks, such as ancestral. Use score or audit instead.",
        )

    outer = arguments.number("temperature", about.get("temperature", 1.0))
    base = reshaped(base, outer, about.get("top_p", 1.0), about.get("top_k"), about.get("guidance", 0.0))

    drawing = used  # the temperature of the sampler's own draws; that of `generate` changes the marginals before
    while (inner := getattr(drawing, "inner", None)) is not None:
        drawing = as_sampler(inner)
    own = float(getattr(drawing, "temperature", 1.0))

    claim: Claim = "ratio"
    if outer == 0 or own == 0:
        claim, own = "greedy", 0.0
    elif used is None:
        claim = "unknown"
    elif used.chooses_before_drawing:
        claim = "path" if used.revises else "divergence"
    return Setting(base, own, claim, used)


def _excess(
    denoiser: Denoiser, sampler: Sampler, generation: Generation, path: Path, draw: str | Joint
) -> Tensor | None:
    """(B): log J(x_S | x_R) - sum_i log c(x_i | x_R), the sum over the steps of a joint draw; None for the product."""
    joint = as_joint(draw, sampler, denoiser, generation.tokens.shape[1])
    if joint is None:
        return None
    if bool((path.written != (generation.order > 0).sum(1)).any()):
        raise UnmaskError("rows of a joint draw ended early; expected whole rows. Generate without a stop rule.")

    nats = -torch.where(generation.order > 0, generation.probability, 1.0).double().log().sum(1)
    for length, rows in by_length(path.valid.sum(1)):
        nats[rows] += log_paths(denoiser, generation.tokens[rows, :length], generation.order[rows, :length], joint)
    return nats


def _measured(
    path: Path, setting: Setting, excess: Tensor | None, estimator: Estimator, seed: int, rows: int, spent: int
) -> Gap:
    denoiser, temperature, claim, sampler = setting
    reader = Reader(denoiser, path, temperature)
    step, weight, readings = measure(reader, estimator, seed)
    _check_recorded(readings, claim)

    # one look at a step does not find all tokens that the model excludes
    if bool((readings.nats.isinf() | readings.logs.isinf()).any()) and claim != "greedy" and estimator == "one":
        estimator = "chain"
        step, weight, readings = measure(reader, estimator, seed)

    def by_row(values: Tensor) -> Tensor:
        """(B): sums over the subsets (E) of the steps of each row."""
        return torch.zeros(len(path.given), dtype=torch.float64).index_add_(0, path.row[step], values)

    tokens = path.size[step] / step.bincount(minlength=len(path.row))[step]  # the weight of a mean over a step's tokens
    recorded = by_row(tokens * readings.recorded)
    logs = claim == "ratio" or estimator == "chain" or excess is not None
    each = readings.logs if logs else readings.nats
    if estimator == "chain":
        each = readings.follows
    each = weight * each
    nats = by_row(each)
    if excess is not None:  # from the model's own marginals, which a fallback does not draw from
        nats = nats + excess + recorded

    greedy = claim == "greedy"
    chooser = sampler if greedy or (claim == "divergence" and temperature == 1) else None
    return Gap(
        claim=claim,
        estimator=estimator,
        logs=logs,
        joint=excess is not None,
        nats=nats,
        changed=by_row(weight * readings.changed),
        unlikely=-by_row(tokens * readings.sure).expm1(),
        written=path.written,
        turns=path.steps,
        lost=None if excess is not None else _by_step(each, nats, path.row[step], path.number[step]),
        groups=path.groups,
        reference=reference(denoiser, path, chooser, greedy, seed, rows) if rows > 1 else None,
        model_calls=reader.model_calls,
        spent=spent,
        changes=_changes(denoiser),
    )


def _changes(denoiser: Denoiser) -> list[str]:
    """Options that change the predictions of a model, such as top-k 1: then they agree no longer, even of an exact one.

    Errors that someone plants (Perturbed) are the model's own."""
    named = []
    while isinstance(denoiser, Around):
        if isinstance(denoiser, Sharpened | Nucleus | Guided):
            used = {name: value for name, value in denoiser.options().items() if value != NEUTRAL[name]}
            named += [f"{name.replace('_', '-')} {value:g}" for name, value in used.items()]
        denoiser = denoiser.inner
    return named


def _by_step(each: Tensor, nats: Tensor, row: Tensor, number: Tensor) -> Tensor:
    """(T): the mean over finite rows (B) of the parts (E) of their loss, by the number of the step, from 1."""
    finite = nats.isfinite()
    parts = finite[row]
    steps = max(number.tolist(), default=0)  # none, if no step draws several tokens
    total = torch.zeros(steps, dtype=torch.float64).index_add_(0, number[parts] - 1, each[parts])
    return total / finite.sum()


def _check_recorded(readings: Readings, claim: Claim) -> None:
    """Raise an error if the recorded probabilities are those of another model."""
    typical = float(readings.apart.median()) if len(readings.apart) else 0.0
    if claim == "ratio" or not typical > OTHER:
        return
    problem = f"the recorded probabilities and this model's differ by a factor of {math.exp(typical):.3g} (median)"
    if claim == "greedy":
        problem = f"in the median step {typical:.0%} of the tokens are not this model's most likely ones"
    raise UnmaskError(f"{problem}; expected the model that wrote the rows. Check the model and the temperature.")
