"""generate(): rows are made in blocks, on all threads, by one sampler and one denoiser."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from unmask.core import arguments, entries
from unmask.core.chance import Randomness, check_seed
from unmask.core.errors import UnmaskError
from unmask.core.threads import tracked
from unmask.denoisers import Denoiser, Guided, Sharpened, as_denoiser
from unmask.denoisers.marginals import check_sharpening
from unmask.languages import Language, LanguageLike
from unmask.languages.kernels.lanes import LANES
from unmask.languages.presets import PRESETS
from unmask.samplers import Sampler, Session, StopRule, fill
from unmask.samplers.contract import as_sampler, inner_of
from unmask.samplers.joint.drawing import Joint
from unmask.samplers.joint.draws import as_joint
from unmask.samplers.result import Generation, finished, join
from unmask.samplers.schedules import Fit, ScheduleLike, deltas
from unmask.samplers.starting import start
from unmask.samplers.stopping import stop_rule

STEPS = 64  # default for named schedules


@arguments.named(
    n="rows", batch_size="rows", num_samples="rows", gen_length="length", max_new_tokens="length", num_steps="steps"
)
def generate(
    source: LanguageLike | Denoiser,
    *,
    sampler: str | Sampler = "ancestral",
    schedule: ScheduleLike = "linear",
    steps: int | None = None,
    length: int | None = None,
    rows: int | None = None,
    seed: int = 0,
    first_row: int | Sequence[int] = 0,
    given: ArrayLike | Sequence[Sequence[int]] | Tensor | None = None,
    stop: int | StopRule | None = None,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int | None = None,
    guidance: float = 0.0,
    draw: str | Joint = "product",
    trace: bool = False,
) -> Generation:
    """Fill `rows` sequences of `length` positions. Row r depends only on the seed and on first_row + r.

    source: a denoiser; or a language, whose ideal denoiser is used; or the spec, file or directory of either, as
        accepted by `unmask.load`.
    sampler, schedule: a name with options, "blocks(block_length=16)"; or an instance, or a list of delta_k.
    steps: number of steps N. (default for a named schedule: 64)
    first_row: number of the first row; or of each row, if they are not consecutive.
    given: tokens to start from, V where hidden: (length), for all rows; (rows, length); or a list of rows with any
        lengths. It sets the length and, except for (length), the number of rows. (default: 2000 x 512)
    stop: ends a row before all of it is decided: a token, or a rule of `samplers.stopping`.
    temperature, top_p, top_k: change the denoiser's marginals, for every sampler (Sharpened).
    guidance: classifier-free guidance by the given tokens, applied first (Guided); doubles the model calls.
    draw: how the tokens of a step are drawn: "product", independently; or together, by a name of
        `samplers.joint.DRAWS` with options, "fitted(constraint=support, sweeps=3)".
    trace: record also re-masked tokens, for `Generation.trace`; samplers that re-mask none need no trace.
    """
    used = as_sampler(sampler)
    if isinstance(source, str | Path) and str(source) not in PRESETS.makers:
        source = import_module("unmask.models.loading").load(source)  # the room of models is above this one
    denoiser = as_denoiser(source, used.removes)
    denoiser = reshaped(denoiser, temperature, top_p, top_k, guidance)
    rule = stop_rule(stop, denoiser.vocabulary)

    # the rows to start from, and the numbers that choose their random numbers
    rows, length, tokens, valid = start(denoiser, given, rows, length)
    rows, length = int(rows), int(length)
    seed = check_seed(seed)
    numbers = _numbered(first_row, rows)

    # the steps, and how the tokens of one are drawn
    if steps is None and isinstance(schedule, str):
        steps = STEPS
    fit = None if denoiser.language is None else fit_of(used, denoiser.language, length)
    delta = deltas(schedule, steps, fit)
    joint = as_joint(draw, used, denoiser, length)
    together = 1 if joint is None else joint.particles  # rows of one group
    if together > 1 and bool(((numbers - torch.arange(rows)) % together).any()):
        raise UnmaskError(
            f"rows {numbers[0]}, .. are drawn in groups of {together}",
            "expected consecutive numbers from a multiple of it",
            "Change first_row.",
        )

    # what the result says of itself
    named = sampler if isinstance(sampler, str) else None
    name = f"sampler {named or type(sampler).__name__}"
    configuration = {
        "sampler": named or used.spec,
        "schedule": schedule if isinstance(schedule, str) else delta.tolist(),
        "steps": len(delta),
        "length": length,
        "rows": rows,
        "seed": seed,
        "first_row": numbers.tolist() if isinstance(first_row, Sequence) else first_row,
        "temperature": temperature,
        "top_p": top_p,
        "top_k": top_k,
        "guidance": guidance,
        "stop": entries.perhaps(repr, rule),
    }
    if joint is not None:
        configuration["draw"] = draw if isinstance(draw, str) else repr(draw)
    about = {"source": denoiser.source(), "configuration": configuration}

    def make(part: slice) -> Generation:
        began = _now()
        rng = Randomness(seed, numbers[part])
        session = Session(
            denoiser, tokens[part], rng, delta, name, valid=valid[part], stop=rule, trace=trace, joint=joint
        )
        fill(used, session)
        return finished(session, _now() - began, about)

    began = _now()
    most = entries.chosen(denoiser.rows_at_once(length), rows)
    block = min(arguments.whole("rows_at_once of the denoiser", most), rows)
    block = max(block // together, 1) * together

    parts = tracked("generating", make, rows, block, math.lcm(LANES, together), denoiser.concurrent)
    return replace(join(parts), seconds=_now() - began)


def reshaped(denoiser: Denoiser, temperature: float, top_p: float, top_k: int | None, guidance: float) -> Denoiser:
    """The denoiser with marginals changed by options of `generate`."""
    if arguments.number("guidance", guidance):
        denoiser = Guided(denoiser, guidance)
    check_sharpening(temperature, top_p, top_k)
    return denoiser if (temperature, top_p, top_k) == (1, 1, None) else Sharpened(denoiser, temperature, top_p, top_k)


def _numbered(first_row: int | Sequence[int], rows: int) -> Tensor:
    """(B): the number of each row."""
    if not isinstance(first_row, Sequence):
        first = arguments.whole("first_row", first_row, 0, arguments.MOST - rows)
        return torch.arange(first, first + rows)
    if len(first_row) != rows:
        raise UnmaskError(f"first_row numbers {len(first_row)} rows; expected {rows}, one for each row")
    return torch.tensor([arguments.whole("first_row", one, 0) for one in first_row])


def _now() -> float:
    """Seconds, after all work of a device has finished."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()


def fit_of(sampler: Sampler, language: Language, length: int) -> Fit:
    """The target for fitting a schedule: the distribution if the sampler draws steps from it, the sizes if it counts.

    An inner sampler fills for the outer one; a sampler with its own loop does not count.
    """
    while getattr(sampler, "inner", None) is not None:
        sampler = inner_of(sampler)
    counts = sampler.pace == "counts" and not sampler.draws_steps and not sampler.implements("run")
    return Fit(language, length, fixed_size=counts)
