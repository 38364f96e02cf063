"""generate(), its checks, and the tokens it starts from; rows are made in blocks, on all threads."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from unmask.core import arguments, progress
from unmask.core.arguments import PLACE_BYTES, fits
from unmask.core.chance import Randomness, check_seed
from unmask.core.errors import UnmaskError
from unmask.core.run import Amount, Prompting
from unmask.core.samples import read_tokens
from unmask.core.threads import over_blocks
from unmask.denoisers import Denoiser, Guided, Sharpened, as_denoiser
from unmask.denoisers.marginals import check_sharpening
from unmask.languages import Language, LanguageLike, load
from unmask.languages.base import as_tokens
from unmask.languages.kernels.lanes import LANES
from unmask.languages.reading import PRESETS
from unmask.samplers import Sampler, Session, StopRule, fill
from unmask.samplers.contract import as_sampler, inner_of
from unmask.samplers.generation import Generation, finished, join
from unmask.samplers.joint.drawing import Joint
from unmask.samplers.joint.draws import as_joint
from unmask.samplers.schedules import Fit, ScheduleLike, deltas
from unmask.samplers.stopping import stop_rule

ROWS, LENGTH = 2000, 512  # defaults
PADDING = 0  # behind rows that are shorter than others; never read


def start(denoiser: Denoiser, given: Any, rows: int | None, length: int | None) -> tuple[int, int, Tensor, Tensor]:
    """(rows, length, tokens (rows, length) to start from, Bool (rows, length): False at padding)."""
    uneven = isinstance(given, Sequence) and given and all(hasattr(line, "__len__") for line in given)
    lines = list(given) if uneven and len({len(line) for line in given}) > 1 else None
    if lines is None:
        pattern = None if given is None else _pattern(given)
        if pattern is not None:
            length = pattern.shape[-1] if length is None else length
            rows = len(pattern) if rows is None and pattern.dim() == 2 else rows
        rows, length = ROWS if rows is None else rows, LENGTH if length is None else length
        _check_size(denoiser, rows, length)
        if pattern is None:
            start = torch.tensor(denoiser.vocabulary).expand(rows, length)
        else:
            start = _checked_given(denoiser, torch.atleast_2d(pattern), rows, length).expand(rows, length)
        return rows, length, start, torch.ones((), dtype=torch.bool).expand(rows, length)
    if (rows, length) not in ((None, None), (len(lines), None), (len(lines), max(map(len, lines)))):
        problem = f"rows or length is set, and given has {len(lines)} rows of different lengths"
        raise UnmaskError(f"{problem}; expected neither. Leave rows and length out.")
    rows, length = len(lines), max(map(len, lines))
    start, valid = torch.full((rows, length), PADDING), torch.zeros((rows, length), dtype=torch.bool)
    for row, line in enumerate(lines):
        _check_size(denoiser, rows, len(line))
        try:
            start[row, : len(line)] = _checked_given(denoiser, torch.atleast_2d(_pattern(line)), 1, len(line))[0]
        except UnmaskError as error:
            raise UnmaskError(f"row {row}: {error}") from error
        valid[row, : len(line)] = True
    return rows, length, start, valid


def _check_size(denoiser: Denoiser, rows: int, length: int) -> None:
    arguments.whole("length", length, 1, arguments.MOST_LENGTH)
    arguments.whole("rows", rows)
    fits(rows, f"rows of {length} tokens", PLACE_BYTES * length)
    if denoiser.language is not None:
        denoiser.language.check_length(length)


def _pattern(given: Any) -> Tensor:
    """(L), for all rows, or (B, L) whole numbers."""
    pattern = as_tokens(given, "given tokens")
    if pattern.dim() not in (1, 2):
        raise UnmaskError(f"given has shape {tuple(pattern.shape)}; expected (length) or (rows, length)")
    return pattern


def _checked_given(denoiser: Denoiser, pattern: Tensor, rows: int, length: int) -> Tensor:
    """The pattern (1, L) or (B, L) after its checks; an error where no sequence can start from it."""
    if denoiser.language is not None:
        return denoiser.language.check_given(pattern, rows, length)
    vocabulary = denoiser.vocabulary
    if pattern.shape[1] != length or len(pattern) not in (1, rows):
        raise UnmaskError(f"given has shape {tuple(pattern.shape)}; expected ({length},) or ({rows}, {length})")
    bad = (pattern < 0) | (pattern > vocabulary)
    if bad.any():
        row, position = (int(i) for i in bad.nonzero()[0])
        where = f"given row {row}, position {position}"
        token = int(pattern[row, position])
        raise UnmaskError(f"{where}: token is {token}; expected 0 to {vocabulary}, {vocabulary} for hidden")
    return pattern


def prompts(
    language: LanguageLike,
    rows: int,
    length: int,
    prompt_length: int,
    *,
    rows_per_prompt: int = 1,
    seed: int = 0,
    first_row: int = 0,
) -> Tensor:
    """(rows, length) for `given`: prefixes of x ~ q, then V. Row r continues sequence r // rows_per_prompt."""
    language = load(language)
    language.check_length(length)
    arguments.whole("prompt_length", prompt_length, 0, length)
    arguments.whole("rows_per_prompt", rows_per_prompt)
    arguments.whole("rows", rows)
    arguments.whole("first_row", first_row, 0, arguments.MOST - rows)
    fits(rows, f"rows of {length} tokens", PLACE_BYTES * length)
    which = torch.arange(first_row, first_row + rows) // rows_per_prompt
    first = int(which[0])
    drawn = language.sample(int(which[-1]) - first + 1, length, seed=seed, first_row=first)[which - first]
    drawn[:, prompt_length:] = language.vocabulary
    return drawn


def begun(
    source: Any,
    prompting: Prompting,
    amount: Amount,
    usual: tuple[int, int] | None = None,
    tokenizer: Any = None,
) -> dict[str, Any]:
    """Return given, rows and length of `generate` for a language or a network, whose tokenizer is that of its text."""
    each = arguments.whole("--rows-per-prompt", amount.rows_per_prompt)
    starts = {"--given": prompting.given, "--prompt": prompting.prompt, "--prompt-length": amount.prompt_length}
    arguments.at_most_one(starts)
    if prompting.given is not None:
        tokens = read_tokens(prompting.given, hidden=source.vocabulary).repeat_interleave(each, 0)
        many = len(tokens) if len(tokens) > 1 else ROWS
        length = tokens.shape[1] if amount.length is None else amount.length
        return {"given": tokens, "rows": many if amount.rows is None else amount.rows, "length": length}
    rows, length = usual or (ROWS, LENGTH)
    if not isinstance(source, Language):
        length = getattr(source, "length", length)
    elif usual is not None and amount.length is None:
        length = source.nearest_lengths(length)[-1]
    rows, length = rows if amount.rows is None else amount.rows, length if amount.length is None else amount.length
    given = None
    if amount.prompt_length is not None:
        if not isinstance(source, Language):
            raise UnmaskError("--prompt-length needs --language. Add it, or leave --prompt-length out")
        how = {"seed": amount.seed, "first_row": amount.first_row, "rows_per_prompt": each}
        given = prompts(source, rows, length, amount.prompt_length, **how)
    elif each > 1:
        raise UnmaskError("--rows-per-prompt needs prompts. Add --prompt-length, or --given with a file")
    elif prompting.prompt is not None:
        given = _encoded(prompting.prompt, length, tokenizer)
    return {"given": given, "rows": rows, "length": length}


def _encoded(prompt: str, length: int, tokenizer: Any) -> Tensor:
    """(1, L): the tokens of the prompt, then masks."""
    if tokenizer is None:
        raise UnmaskError("--prompt needs --model, the directory of a network that was trained on a text")
    tokens = torch.from_numpy(tokenizer.encode(prompt)).long()
    if len(tokens) >= length:
        expected = f"expected fewer than --length {length}. Shorten the prompt"
        raise UnmaskError(f"--prompt has {len(tokens)} tokens; {expected}")
    return torch.cat([tokens, torch.full((length - len(tokens),), tokenizer.vocabulary)]).unsqueeze(0)


STEPS = 64  # default for named schedules
MOST_ROWS = 4096  # per block, if the denoiser does not limit it


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
    if repr((temperature, top_p, top_k, guidance)) != "(1.0, 1.0, None, 0.0)":
        denoiser = reshaped(denoiser, temperature, top_p, top_k, guidance)
    rule = None if stop is None else stop_rule(stop, denoiser.vocabulary)
    rows, length, tokens, valid = start(denoiser, given, rows, length)
    if steps is None and isinstance(schedule, str):
        steps = STEPS
    delta = deltas(schedule, steps, None if denoiser.language is None else fit_of(used, denoiser.language, length))
    rows, length = int(rows), int(length)
    seed, numbers = check_seed(seed), _numbered(first_row, rows)
    joint = None if draw == "product" else as_joint(draw, used, denoiser, length)
    together = 1 if joint is None else joint.particles  # rows of one group
    if together > 1 and bool(((numbers - torch.arange(rows)) % together).any()):
        problem = f"rows {numbers[0]}, .. are drawn in groups of {together}"
        raise UnmaskError(f"{problem}; expected consecutive numbers from a multiple of it. Change first_row.")
    name = f"sampler {sampler if isinstance(sampler, str) else type(sampler).__name__}"
    configuration = {
        "sampler": sampler if isinstance(sampler, str) else used.spec,
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
        "stop": None if rule is None else repr(rule),
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
    block = denoiser.rows_at_once(length)
    block = rows if block is None else min(arguments.whole("rows_at_once of the denoiser", block), rows)
    block = max(block // together, 1) * together
    each = (slice(first, min(first + block, rows)) for first in range(0, rows, block))
    blocks = over_blocks(make, rows, block, math.lcm(LANES, together)) if denoiser.concurrent else map(make, each)
    parts = []
    with progress.track("generating", rows) as advance:
        for part in blocks:
            parts.append(part)
            advance(len(part.tokens))
    return replace(parts[0] if len(parts) == 1 else join(parts), seconds=_now() - began)


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
