"""The jobs of samples (catalogue.py explains jobs).

    samples          generate and score: ser, generative_perplexity, `model_calls` (model calls)
    ter_upper        bounds by the information curve, all N from one pass: ter_upper, ser_upper; ter in closed form
    theory           exact values: ser, ter, generative_perplexity, divergence_nats, entropy_bits_per_token
    autoregressive   AR sampling by the ideal denoiser: no error, and the language's own ter

With a prompt_length all but theory is conditional: rows_per_prompt rows continue each beginning of x ~ q, and intervals
are over prompts. The bounds and theory assume ancestral sampling by the ideal denoiser, whatever the recipe's sampler.
Measures with `_ratio` are divided by TER(q), the language's own, on the same rows. Seconds differ from run to run, so
the store has them and records do not. The seed in a language's spec draws the language; `seed` draws the samples.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unmask.core import arguments
from unmask.experiments.jobs.catalogue import JOBS, Output, Record, Tally
from unmask.experiments.jobs.sources import (
    Blocked,
    Continued,
    Curved,
    Prompted,
    Sampled,
    Stepped,
    check_network,
    network,
    prompts_of,
    record,
    tally_of,
)

if TYPE_CHECKING:
    from torch import Tensor

    from unmask.denoisers import Denoiser
    from unmask.languages import Language

THEORY_SECONDS = 0.2
MODEL_SECONDS = 0.02  # per row of a network, before it is read


@dataclass(frozen=True, kw_only=True)
class Modelled(Continued, Sampled):
    """model: a directory of `unmask train`, instead of a language."""

    language: str = ""
    model: str = ""

    @property
    def source(self) -> tuple[Language, Language | Denoiser]:
        """The language, and it or the model."""
        return network(self.model, self.digest) if self.model else (self.q, self.q)

    def check_source(self) -> None:
        from unmask.samplers.schedules import deltas

        if not self.model:
            return super().check_source()
        check_network(self.model, self.length)
        deltas(self.schedule, self.steps)

    def about(self) -> Record:
        from unmask.models.trained.checkpoints import read_language

        return {"language_digest": read_language(self.model)[0].source()["digest"]} if self.model else super().about()

    def cost(self) -> float:
        return self.rows * MODEL_SECONDS if self.model else super().cost()


@JOBS.register("samples")
@dataclass(frozen=True, kw_only=True)
class Samples(Modelled, Blocked):
    """SER, generative perplexity and model calls of generated rows.

    keep: also store the tokens, as files.
    """

    keep: bool = False

    def measure(self) -> Tally | Output:
        q, denoiser = self.source
        given, prompt = self.prompts(q, self.length)
        generation = self.generate(denoiser, self.length, given=given)
        tally = tally_of(generation, q, prompt)
        return Output(tally, {f"tokens-{self.first_row:012d}.npy": _npy(generation.tokens)}) if self.keep else tally


@JOBS.register("ter_upper")
@dataclass(frozen=True, kw_only=True)
class TerUpper(Curved, Stepped):
    """Bounds of TER and SER from the NELBO of the N-step sampler."""

    shares = ("steps", "schedule", "fixed_size")

    fixed_size: bool = False

    def measure(self) -> list[Record]:
        from unmask import metrics
        from unmask.diagnosis.flops import model_calls
        from unmask.samplers.schedules import Fit, deltas

        q, fixed_size = self.q, self.fixed_size
        delta = deltas(self.schedule, self.steps, Fit(q, self.length, fixed_size))
        hidden = self.length - self.prompt_length
        if q.closed_form is not None and not fixed_size and not self.prompt_length:
            ter = metrics.ter(q, self.length, self.schedule, self.steps)
            own = metrics.ter_autoregressive(q, self.length).value
            estimates = {"ter": ter, "ter_ratio": ter.map(lambda value: value / own)}
        else:
            curve = self.curve
            estimates = {
                "ter_upper": curve.ter_upper(self.schedule, self.steps, fixed_size=fixed_size),
                "ser_upper": curve.ser_upper(self.schedule, self.steps, fixed_size=fixed_size),
            }
            if q.end is None:  # else the number of tokens varies
                excess = curve.divergence(delta, fixed_size=fixed_size)
                estimates["ter_upper_ratio"] = excess.map(lambda nats: math.exp(nats / hidden))
        return [record(name, estimate, model_calls(delta, hidden)) for name, estimate in estimates.items()]


@JOBS.register("autoregressive")
@dataclass(frozen=True, kw_only=True)
class Autoregressive(Prompted):
    """The AR baseline, one model call per token: it samples from q, so only TER(q) is measured.

    prompts: the number of prompts that TER is averaged over, if they have a length.
    """

    prompts: int = 100
    seed: int = 0

    def check_rows(self) -> None:
        arguments.whole("prompts", self.prompts)
        super().check_rows()

    def measure(self) -> list[Record]:
        from unmask import metrics
        from unmask.core.estimates import exactly

        given, _ = prompts_of(self.q, self.length, self.prompt_length, rows=self.prompts, seed=self.seed)
        own = metrics.ter_autoregressive(self.q, self.length, given)
        estimates = {"ser": exactly(0.0), "ter": own, "ter_ratio": exactly(1.0)}
        needed = float(self.length - self.prompt_length)
        return [record(name, estimate, needed) for name, estimate in estimates.items()]


@JOBS.register("theory")
@dataclass(frozen=True, kw_only=True)
class Theory(Prompted, Stepped):
    """Exact values from theory; no records if none exist, for example with a prompt."""

    def cost(self) -> float:
        return THEORY_SECONDS

    def measure(self) -> list[Record]:
        from unmask.core.estimates import exactly
        from unmask.theory.known import exact

        if self.prompt_length:
            return []
        known = exact(self.q, self.length, self.delta(self.steps))
        cost = self.model_calls(self.steps)
        logarithms = {"ter_bits_per_token": "ter", "generative_nll_bits_per_token": "generative_perplexity"}
        records = []
        for field, method in known.method.items():
            value = getattr(known, field)
            value = 2.0**value if field in logarithms else value
            records.append(record(logarithms.get(field, field), exactly(value, f"exact: {method}"), cost))
        return records


def _npy(tokens: Tensor) -> bytes:
    import numpy as np

    file = io.BytesIO()
    np.save(file, tokens.numpy().astype(np.min_scalar_type(int(tokens.max()))), allow_pickle=False)
    return file.getvalue()
