"""The jobs of samples (experiments/cell.py explains jobs).

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
from functools import lru_cache
from typing import TYPE_CHECKING

from unmask.core import arguments
from unmask.experiments.cell import Place, Record, Tally, job
from unmask.experiments.jobs.sources import (
    NONE,
    Amount,
    Pace,
    Sampling,
    Source,
    about,
    check,
    delta,
    generated,
    modelled,
    record,
    records_of_samples,
    tally_of,
)

if TYPE_CHECKING:
    from unmask.theory.curves import InformationCurve


@job(records=records_of_samples, check=check, about=about)
def samples(
    sampling: Sampling,
    amount: Amount,
    place: Place,
    source: Source = NONE,
    model: str = "",
    first_row: int = 0,
    keep: bool = False,
) -> Tally:
    """SER, generative perplexity and model calls of generated rows.

    model: a directory of `unmask train`, instead of a language. keep: also store the tokens, as files.
    """
    q, denoiser = modelled(source, model)
    given, prompt = amount.prompts(q, source.length, first_row)
    generation = generated(denoiser, source.length, sampling, amount, first_row=first_row, given=given)
    if keep:
        import numpy as np

        file, tokens = io.BytesIO(), generation.tokens
        np.save(file, tokens.numpy().astype(np.min_scalar_type(int(tokens.max()))), allow_pickle=False)
        place.write(f"{first_row:09d}-{amount.rows}.npy", file.getvalue())
    return tally_of(generation, q, prompt)


@job(check=check, about=about)
def ter_upper(source: Source, pace: Pace, amount: Amount = Amount(rows=100), fixed_size: bool = False) -> list[Record]:
    """Bounds of TER and SER from the NELBO of the N-step sampler."""
    from unmask import metrics
    from unmask.diagnosis.flops import model_calls

    q, hidden = source.q, source.length - amount.prompt_length
    pacing = delta(source, pace, fixed_size=fixed_size)
    if q.closed_form is not None and not fixed_size and not amount.prompt_length:
        ter = metrics.ter(q, source.length, pace.schedule, pace.steps)
        own = metrics.ter_autoregressive(q, source.length).value
        estimates = {"ter": ter, "ter_ratio": ter.map(lambda value: value / own)}
    else:
        curve = curve_of(source, amount)
        estimates = {
            "ter_upper": curve.ter_upper(pace.schedule, pace.steps, fixed_size=fixed_size),
            "ser_upper": curve.ser_upper(pace.schedule, pace.steps, fixed_size=fixed_size),
        }
        if q.end is None:  # else the number of tokens varies
            excess = curve.divergence(pacing, fixed_size=fixed_size)
            estimates["ter_upper_ratio"] = excess.map(lambda nats: math.exp(nats / hidden))
    return [record(name, estimate, model_calls(pacing, hidden)) for name, estimate in estimates.items()]


@lru_cache(maxsize=8)
def curve_of(source: Source, amount: Amount) -> InformationCurve:
    """The information curve of a language, from one pass for all schedules and numbers of steps."""
    from unmask.theory.sampled import information_curve

    given, prompt = amount.prompts(source.q, source.length)
    return information_curve(source.q, source.length, rows=amount.rows, seed=amount.seed, given=given, prompt=prompt)


def _check_baseline(source: Source, prompt_length: int, prompts: int, seed: int) -> None:
    arguments.whole("prompts", prompts)
    check(source, Pace(), Amount(1, seed, prompt_length))


@job(check=_check_baseline, about=about)
def autoregressive(source: Source, prompt_length: int = 0, prompts: int = 100, seed: int = 0) -> list[Record]:
    """The AR baseline, one model call per token: it samples from q, so only TER(q) is measured.

    prompts: the number of prompts that TER is averaged over, if they have a length.
    """
    from unmask import metrics
    from unmask.core.estimates import exactly

    given, _ = Amount(prompts, seed, prompt_length).prompts(source.q, source.length)
    own = metrics.ter_autoregressive(source.q, source.length, given)
    estimates = {"ser": exactly(0.0), "ter": own, "ter_ratio": exactly(1.0)}
    needed = float(source.length - prompt_length)
    return [record(name, estimate, needed) for name, estimate in estimates.items()]


@job(check=check, about=about)
def theory(source: Source, pace: Pace, prompt_length: int = 0) -> list[Record]:
    """Exact values from theory; no records if none exist, for example with a prompt."""
    from unmask.core.estimates import exactly
    from unmask.diagnosis.flops import model_calls
    from unmask.theory.known import exact

    if prompt_length:
        return []
    pacing, records = delta(source, pace), list[Record]()
    known, cost = exact(source.q, source.length, pacing), model_calls(pacing, source.length)
    logarithms = {"ter_bits_per_token": "ter", "generative_nll_bits_per_token": "generative_perplexity"}
    for field, method in known.method.items():
        value = getattr(known, field)
        value = 2.0**value if field in logarithms else value
        records.append(record(logarithms.get(field, field), exactly(value, f"exact: {method}"), cost))
    return records
