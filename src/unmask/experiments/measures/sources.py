"""What cells are about: languages, networks and curves, read once for all cells of a process, and what they cost.

A language file or a network is part of a cell by its contents (`digest`), which are compared again when it is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.files import finite
from unmask.core.reading import check_file
from unmask.experiments.jobs.cells import digest as of_contents
from unmask.experiments.measures.catalogue import Arguments, Record

if TYPE_CHECKING:
    from torch import Tensor

    from unmask.core.estimates import Estimate
    from unmask.denoisers import Denoiser
    from unmask.languages import Language
    from unmask.theory.curves import InformationCurve

UNIT_SECONDS = 4e-7  # of one core: a token, or 64 bytes of the messages that a row holds
CURVE_COST = 2.0  # a row of a curve takes as long as so many generated ones
PROMPT_SEEDS = 2**61  # added to a seed: what continues a prompt must not share the luck that drew it
USUAL_STEPS = 64  # where a metric looks for the number of steps itself
MODEL_SECONDS = 0.02  # a row of a network, of which nothing is known before it is read


def ground_truth(name: str, seed: int, pruned: bool = True, digest: str = "") -> Language:
    """A preset, or the language of a file, with the contents that a cell says if it says any."""
    unchanged(digest, name)
    return _language(name, seed, pruned, digest or of_contents(name))


@lru_cache(maxsize=16)
def _language(name: str, seed: int, pruned: bool, digest: str) -> Language:
    from unmask.languages import load
    from unmask.languages.presets import varied

    return load(varied(name, seed=seed, pruned=pruned))


@lru_cache(maxsize=1)
def _network(model: str, digest: str) -> tuple[Language, Denoiser]:
    from unmask.networks import read_network
    from unmask.networks.model.checkpoints import read_language

    return read_language(model)[0], read_network(model)


def source(
    language: str, model: str, language_seed: int, pruned: bool, digest: str
) -> tuple[Language, Language | Denoiser]:
    """(what rows are held against, what fills them)."""
    if model:
        unchanged(digest, language, model)
        return _network(model, digest)
    q = ground_truth(language, language_seed, pruned, digest)
    return q, q


def prompts_of(
    q: Language, length: int, prompt_length: int, rows_per_prompt: int = 1, *, rows: int, seed: int, first_row: int = 0
) -> tuple[Tensor | None, Tensor | None]:
    """(given (rows, L), the number of each row's prompt (rows)); nothing where prompts have no length."""
    if not prompt_length:
        return None, None
    import torch

    from unmask.generation import prompts

    drawn = {"rows_per_prompt": rows_per_prompt, "seed": seed + PROMPT_SEEDS, "first_row": first_row}
    return prompts(q, rows, length, prompt_length, **drawn), torch.arange(
        first_row, first_row + rows
    ) // rows_per_prompt


@lru_cache(maxsize=2)
def kept_curve(
    language: str,
    length: int,
    rows: int,
    language_seed: int,
    seed: int,
    pruned: bool,
    digest: str,
    prompt_length: int = 0,
    rows_per_prompt: int = 1,
) -> InformationCurve:
    from unmask.theory.sampled import information_curve

    q = ground_truth(language, language_seed, pruned, digest)
    given, prompt = prompts_of(q, length, prompt_length, rows_per_prompt, rows=rows, seed=seed)
    return information_curve(q, length, rows=rows, seed=seed, given=given, prompt=prompt)


@lru_cache(maxsize=64)  # once a process: a network is larger than a block takes to fill
def unchanged(digest: str, *names: str) -> None:
    if digest and digest != "".join(of_contents(name) for name in names if name):
        raise UnmaskError(f"{' or '.join(filter(None, names))} has changed since the sweep was planned; run it again")


def check(cells: Sequence[Arguments]) -> None:
    """Names, lengths and options of all cells, each combination once."""
    from unmask.core.chance import check_seed
    from unmask.generation import fit_of
    from unmask.samplers import SAMPLERS
    from unmask.schedules import check as check_schedule

    for cell in cells:
        if not cell.get("language") and not cell.get("model"):
            raise UnmaskError("there is neither a language nor a model; put one under grid, zip or fixed")
        check_prompts(cell, arguments.length(cell["length"]))
        for name in ("seed", "language_seed"):
            check_seed(cell.get(name, 0))
        rows = arguments.whole("rows", cell.get("rows", 1), 1, arguments.MOST_ROWS)
        arguments.whole("first_row", cell.get("first_row", 0), 0, arguments.MOST - rows)
        sampler, fit = SAMPLERS.make(cell.get("sampler", "ancestral")), None
        if cell.get("model"):
            _check_network(cell["model"], cell["length"])
        else:
            q = ground_truth(cell["language"], cell["language_seed"], cell["pruned"], cell["digest"])
            q.check_length(cell["length"])
            fit = fit_of(sampler, q, cell["length"])
        if "schedule" in cell:
            check_schedule(cell["schedule"], cell.get("steps", USUAL_STEPS), fit)


def _check_network(model: str, length: int) -> None:
    """By what stands beside its weights, which are read by whoever measures it."""
    from unmask.networks.model import checkpoints

    language, _ = checkpoints.read_language(model)
    checkpoints.check_fits(checkpoints.read_shape(model), model, language.vocabulary, length)
    check_file(Path(model) / checkpoints.WEIGHTS)


def about(cell: Arguments) -> Record:
    """Which language rows are held against: a name and a seed mean another one where the code that makes it changes."""
    if cell.get("model"):
        from unmask.networks.model.checkpoints import read_language

        q = read_language(cell["model"])[0]
    else:
        q = ground_truth(cell["language"], cell["language_seed"], cell.get("pruned", True), cell["digest"])
    return {"language_digest": q.source()["digest"]}


def check_prompts(cell: Arguments, length: int) -> None:
    """Something must be left to write."""
    left = ", so that something is left to write"
    arguments.whole("prompt_length", cell.get("prompt_length", 0), 0, length - 1, left)
    for name in ("rows_per_prompt", "prompts"):
        arguments.whole(name, cell.get(name, 1))


def row_seconds(cell: Arguments) -> float:
    """About how long a row takes to generate: its time grows with the messages that it holds."""
    from unmask.ideal import Ideal
    from unmask.languages.base import MESSAGE_BYTES

    if cell.get("model"):
        return MODEL_SECONDS
    q = ground_truth(cell["language"], cell["language_seed"], cell["pruned"], cell["digest"])
    return (cell["length"] + MESSAGE_BYTES / Ideal(q).rows_at_once(cell["length"]) / 64) * UNIT_SECONDS


def curve_cost(cell: Arguments) -> float:
    return float(CURVE_COST * cell["rows"] * row_seconds(cell))


def record(measure: str, estimate: Estimate, evaluations: float | None) -> Record:
    """JSON has no infinity: an open end is None. evaluations: of a row, None where there are no rows."""
    return {"measure": measure} | finite(estimate.to_dict()) | {"evaluations": evaluations}
