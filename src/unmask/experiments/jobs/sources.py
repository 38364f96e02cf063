"""The parameters that jobs share, as frozen dataclasses: a language and its prompts, sampling; tallies and records.

A language file or a network is part of a cell by its contents (`digest`), which are compared again at measurement.
Languages, networks and curves are read once per process.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.core import arguments
from unmask.core import run as options
from unmask.core.errors import UnmaskError
from unmask.core.files import finite
from unmask.core.reading import check_file
from unmask.experiments.cell import Record, Tally
from unmask.experiments.cell import digest as of_contents

if TYPE_CHECKING:
    from torch import Tensor

    from unmask.core.estimates import Estimate
    from unmask.denoisers import Denoiser
    from unmask.languages import Language
    from unmask.samplers import Generation

PROMPT_SEEDS = 2**61  # added to a seed: a continuation must not share the random numbers that drew its prompt
OF_AR = "model calls of causal"  # calls of the AR model that assists a masked model
USUAL_STEPS = 64


@dataclass(frozen=True)
class Source:
    """language: a spec, or a file. digest: of the file. length: tokens of a sequence."""

    language: str
    digest: str = ""
    length: int = 512

    @property
    def q(self) -> Language:
        """The true distribution."""
        return ground_truth(self.language, self.digest)


NONE = Source(language="")  # where a model may take its place


@dataclass(frozen=True)
class Pace:
    """steps: the number of steps N. schedule: the expected fraction of a sequence that each step reveals."""

    steps: int = USUAL_STEPS
    schedule: str = "linear"


@dataclass(frozen=True)
class Sampling(options.Sampling):
    """All options of a sampler."""

    steps: int = USUAL_STEPS


@dataclass(frozen=True)
class Amount:
    """rows: sequences. seed: of the rows. prompt_length: rows continue the first tokens of x ~ q, several each."""

    rows: int = 2000
    seed: int = 0
    prompt_length: int = 0
    rows_per_prompt: int = 1

    def prompts(self, q: Language, length: int, first_row: int = 0) -> tuple[Tensor | None, Tensor | None]:
        """(given tokens (rows, L), prompt number of each row (rows)); None without prompts."""
        if not self.prompt_length:
            return None, None
        import torch

        from unmask.samplers import prompts

        drawn = {"rows_per_prompt": self.rows_per_prompt, "seed": self.seed + PROMPT_SEEDS, "first_row": first_row}
        numbers = torch.arange(first_row, first_row + self.rows) // self.rows_per_prompt
        return prompts(q, self.rows, length, self.prompt_length, **drawn), numbers


def generated(source: Language | Denoiser, length: int, sampling: Sampling, amount: Amount, **more: Any) -> Generation:
    """Rows of `generate`."""
    from unmask.samplers import generate

    return generate(source, length=length, rows=amount.rows, seed=amount.seed, **vars(sampling), **more)


def delta(source: Source, pace: Pace | Sampling, steps: int | None = None, fixed_size: bool = False) -> Tensor:
    from unmask.samplers.schedules import Fit, deltas

    return deltas(pace.schedule, pace.steps if steps is None else steps, Fit(source.q, source.length, fixed_size))


# Checks before any measurement.


def check(source: Source, pace: Pace, amount: Amount, sampler: str = Sampling.sampler, model: str = "") -> None:
    """Refuse an unknown language, sampler or schedule, and numbers that are out of range; a cell has some of these."""
    from unmask.samplers import SAMPLERS, fit_of
    from unmask.samplers.schedules import check, deltas

    check_amount(amount, arguments.length(source.length))
    if model:
        check_network(model, source.length)
        deltas(pace.schedule, pace.steps)
        return
    if not source.language:
        raise UnmaskError("there is neither a language nor a model. Expected one. Put it under grid, zip or fixed")
    source.q.check_length(source.length)
    check(pace.schedule, pace.steps, fit_of(SAMPLERS.make(sampler), source.q, source.length))


def check_amount(amount: Amount, length: int) -> None:
    from unmask.core.chance import check_seed

    left = ", so that at least one token is generated"
    arguments.whole("rows", amount.rows, 1, arguments.MOST_ROWS)
    check_seed(amount.seed)
    arguments.whole("prompt_length", amount.prompt_length, 0, length - 1, left)
    arguments.whole("rows_per_prompt", amount.rows_per_prompt)


def check_network(model: str, length: int) -> None:
    """Refuse a directory without a network of this length; measurement reads its weights."""
    from unmask.models.trained import checkpoints

    language, _ = checkpoints.read_language(model)
    checkpoints.check_fits(checkpoints.read_shape(model), model, language.vocabulary, length)
    check_file(Path(model) / checkpoints.WEIGHTS)


def about(source: Source, model: str = "") -> Record:
    """The digest of the language: a spec may mean another language after a change of the code."""
    from unmask.models.trained.checkpoints import read_language

    return {"language_digest": (read_language(model)[0] if model else source.q).source()["digest"]}


# Read once per process.


def ground_truth(spec: str, digest: str = "") -> Language:
    """The language of a spec or a file; digest: the expected digest of the file, if any."""
    unchanged(digest, spec)
    return _language(spec, digest or of_contents(spec))


@lru_cache(maxsize=16)
def _language(spec: str, digest: str) -> Language:
    from unmask.languages import load

    return load(spec)


@lru_cache(maxsize=1)
def network(model: str, digest: str) -> tuple[Language, Denoiser]:
    """(language, network) from a directory of `unmask train`."""
    from unmask.models.trained import read_network
    from unmask.models.trained.checkpoints import read_language

    unchanged(digest, model)
    return read_language(model)[0], read_network(model)


def modelled(source: Source, model: str) -> tuple[Language, Language | Denoiser]:
    """The language, and it or the model, a directory of `unmask train`."""
    return network(model, source.digest) if model else (source.q, source.q)


@lru_cache(maxsize=64)  # once per process: reading a network may take longer than a block
def unchanged(digest: str, *names: str) -> None:
    if digest and digest != "".join(of_contents(name) for name in names if name):
        changed = " or ".join(filter(None, names))
        raise UnmaskError(
            f"{changed} has changed since the sweep was planned. Expected the same file. Run the sweep again"
        )


# Tallies and records.


def tally_of(generation: Generation, q: Language, prompt: Tensor | None = None) -> Tally:
    """The metrics of generated rows as a tally; prompt: the prompt number of each row."""
    from unmask.experiments.jobs.tallies import counts, sums
    from unmask.metrics import METRICS, rows

    scores = rows(generation, q, prompt=prompt)
    tally: Tally = {}
    for name, metric in METRICS.items():
        if (values := metric.values(scores)) is None:  # such as steps of reasoning, if the language has none
            continue
        known = ~values.isnan()
        tally |= (counts if metric.events else sums)(name, values[known], None if prompt is None else prompt[known])
    if {"denoiser", "causal"} <= generation.model_calls_of.keys():
        tally |= sums(OF_AR, generation.model_calls_of["causal"], prompt)
    return tally


def records_of_samples(tally: Tally) -> list[Record]:
    from unmask.experiments.jobs.tallies import mean, share
    from unmask.metrics import METRICS

    model_calls, records = mean("model_calls", tally), list[Record]()
    needed = None if model_calls is None else model_calls.value
    for name, metric in METRICS.items():
        if f"{name}_count" not in tally:
            continue
        if (estimate := (share if metric.events else mean)(name, tally)) is not None:
            records.append(record(name, estimate.map(metric.shown), needed))
    if f"{OF_AR}_count" in tally and (calls := mean(OF_AR, tally)) is not None:
        records.append(record(OF_AR, calls, needed))
    return records


def record(measure: str, estimate: Estimate, model_calls: float | None) -> Record:
    """A record of an estimate, with None for infinity. `model_calls`: model calls per row, None without rows."""
    return {"measure": measure} | finite(estimate.to_dict()) | {"model_calls": model_calls}
