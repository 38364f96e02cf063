"""The common parameters of jobs, each declared once: language, length, steps, rows, prompts.

A language file or a network is part of a cell by its contents (`digest`), which are compared again at measurement.
Languages, networks and curves are read once per process.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.files import finite
from unmask.core.reading import check_file
from unmask.core.run import Sampling
from unmask.experiments.jobs.catalogue import Job, Record, Tally
from unmask.experiments.sweeps.cells import digest as of_contents

if TYPE_CHECKING:
    from torch import Tensor

    from unmask.core.estimates import Estimate
    from unmask.denoisers import Denoiser
    from unmask.languages import Language
    from unmask.samplers import Generation
    from unmask.theory.curves import InformationCurve

UNIT_SECONDS = 4e-7  # of one core, for a token or for 64 bytes of a row's messages
CURVE_COST = 2.0  # time of a row of a curve, in generated rows
PROMPT_SEEDS = 2**61  # added to a seed: a continuation must not share the random numbers that drew its prompt
OF_AR = "model calls of causal"  # calls of the AR model that assists a masked model
USUAL_STEPS = 64


@dataclass(frozen=True, kw_only=True)
class OfLanguage(Job):
    """language: a spec, or a file. digest: of the file. length: tokens of a sequence."""

    language: str
    digest: str = ""
    length: int = 512

    @cached_property
    def q(self) -> Language:
        """The true distribution."""
        return ground_truth(self.language, self.digest)

    def check(self) -> None:
        from unmask.core.chance import check_seed

        arguments.length(self.length)
        self.check_rows()
        check_seed(getattr(self, "seed", 0))
        self.check_source()

    def check_rows(self) -> None:
        """Check the numbers of rows and prompts."""

    def check_source(self) -> None:
        if not self.language:
            raise UnmaskError("there is neither a language nor a model. Expected one. Put it under grid, zip or fixed")
        self.q.check_length(self.length)

    def about(self) -> Record:
        """The digest of the language: a spec may mean another language after a change of the code."""
        return {"language_digest": self.q.source()["digest"]}

    @property
    def row_seconds(self) -> float:
        """Estimated time to generate a row; it grows with the size of the row's messages."""
        from unmask.denoisers import Ideal
        from unmask.languages.base import MESSAGE_BYTES

        return (self.length + MESSAGE_BYTES / Ideal(self.q).rows_at_once(self.length) / 64) * UNIT_SECONDS


@dataclass(frozen=True, kw_only=True)
class Scheduled(OfLanguage):
    """schedule: the expected fraction of a sequence that each step reveals."""

    schedule: str = "linear"

    def delta(self, steps: int) -> Tensor:
        from unmask.samplers.schedules import Fit, deltas

        return deltas(self.schedule, steps, Fit(self.q, self.length))

    def model_calls(self, steps: int) -> float:
        """Mean number of model calls per row."""
        from unmask.diagnosis.flops import model_calls

        return model_calls(self.delta(steps), self.length - getattr(self, "prompt_length", 0))

    def check_source(self) -> None:
        from unmask.samplers import SAMPLERS, fit_of
        from unmask.samplers.schedules import check

        super().check_source()
        sampler = SAMPLERS.make(getattr(self, "sampler", Sampling.sampler))
        check(self.schedule, getattr(self, "steps", USUAL_STEPS), fit_of(sampler, self.q, self.length))


@dataclass(frozen=True, kw_only=True)
class Stepped(Scheduled):
    """steps: the number of steps N."""

    steps: int = USUAL_STEPS


@dataclass(frozen=True, kw_only=True)
class Prompted(OfLanguage):
    """prompt_length: rows continue the first tokens of x ~ q."""

    prompt_length: int = 0

    def check_rows(self) -> None:
        left = ", so that at least one token is generated"
        arguments.whole("prompt_length", self.prompt_length, 0, self.length - 1, left)
        super().check_rows()


@dataclass(frozen=True, kw_only=True)
class Drawn(OfLanguage):
    """rows: sequences. seed: random seed of the rows."""

    rows: int = 2000
    seed: int = 0

    def check_rows(self) -> None:
        rows = arguments.whole("rows", self.rows, 1, arguments.MOST_ROWS)
        arguments.whole("first_row", getattr(self, "first_row", 0), 0, arguments.MOST - rows)
        super().check_rows()

    def cost(self) -> float:
        return float(self.rows * self.row_seconds)


@dataclass(frozen=True, kw_only=True)
class Continued(Prompted, Drawn):
    """rows_per_prompt: rows that continue the same prompt."""

    rows_per_prompt: int = 1

    def check_rows(self) -> None:
        arguments.whole("rows_per_prompt", self.rows_per_prompt)
        super().check_rows()

    def prompts(self, q: Language, length: int, **which: int) -> tuple[Tensor | None, Tensor | None]:
        """(given tokens (rows, L), prompt number of each row (rows))."""
        which = {"rows": self.rows, "first_row": getattr(self, "first_row", 0)} | which
        return prompts_of(q, length, self.prompt_length, self.rows_per_prompt, seed=self.seed, **which)


@dataclass(frozen=True, kw_only=True)
class Curved(Continued, Scheduled):
    """The information curve of a language, from one pass for all schedules and numbers of steps."""

    rows: int = 100

    @property
    def curve(self) -> InformationCurve:
        own = self.length, self.rows, self.seed, self.prompt_length, self.rows_per_prompt
        return _curve(self.language, self.digest, *own)

    def cost(self) -> float:
        return CURVE_COST * super().cost()


@dataclass(frozen=True, kw_only=True)
class Generated(Sampling):
    """Rows of `generate`, with all sampling options."""

    steps: int = USUAL_STEPS
    rows: int = 2000
    seed: int = 0

    def generate(self, source: Language | Denoiser, length: int, **changes: Any) -> Generation:
        from unmask.samplers import generate

        how: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(Generated)}
        return generate(source, length=length, first_row=getattr(self, "first_row", 0), **how | changes)


@dataclass(frozen=True, kw_only=True)
class Sampled(Drawn, Stepped, Generated):
    """Rows of a language by a sampler."""


@dataclass(frozen=True, kw_only=True)
class Blocked(Continued, Sampled):
    """first_row: the number of the first row. Rows are measured in blocks; rows of a prompt share a block."""

    merges = True

    first_row: int = 0

    def together(self) -> int:
        return self.rows_per_prompt

    def records(self, tally: Tally) -> list[Record]:
        return records_of_samples(tally)


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


def prompts_of(
    q: Language, length: int, prompt_length: int, rows_per_prompt: int = 1, *, rows: int, seed: int, first_row: int = 0
) -> tuple[Tensor | None, Tensor | None]:
    """(given tokens (rows, L), prompt number of each row (rows)); None without prompts."""
    if not prompt_length:
        return None, None
    import torch

    from unmask.samplers import prompts

    drawn = {"rows_per_prompt": rows_per_prompt, "seed": seed + PROMPT_SEEDS, "first_row": first_row}
    numbers = torch.arange(first_row, first_row + rows) // rows_per_prompt
    return prompts(q, rows, length, prompt_length, **drawn), numbers


@lru_cache(maxsize=2)
def _curve(
    language: str, digest: str, length: int, rows: int, seed: int, prompt_length: int, rows_per_prompt: int
) -> InformationCurve:
    from unmask.theory.sampled import information_curve

    q = ground_truth(language, digest)
    given, prompt = prompts_of(q, length, prompt_length, rows_per_prompt, rows=rows, seed=seed)
    return information_curve(q, length, rows=rows, seed=seed, given=given, prompt=prompt)


@lru_cache(maxsize=64)  # once per process: reading a network may take longer than a block
def unchanged(digest: str, *names: str) -> None:
    if digest and digest != "".join(of_contents(name) for name in names if name):
        changed = " or ".join(filter(None, names))
        raise UnmaskError(
            f"{changed} has changed since the sweep was planned. Expected the same file. Run the sweep again"
        )


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


def check_network(model: str, length: int) -> None:
    """Refuse a directory without a network of this length; measurement reads its weights."""
    from unmask.models.trained import checkpoints

    language, _ = checkpoints.read_language(model)
    checkpoints.check_fits(checkpoints.read_shape(model), model, language.vocabulary, length)
    check_file(Path(model) / checkpoints.WEIGHTS)


def record(measure: str, estimate: Estimate, model_calls: float | None) -> Record:
    """A record of an estimate, with None for infinity. `model_calls`: model calls per row, None without rows."""
    return {"measure": measure} | finite(estimate.to_dict()) | {"model_calls": model_calls}
