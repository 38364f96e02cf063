"""The jobs of a known language and its exact denoiser (experiments/cell.py explains jobs).

    samples          generate and score: ser, generative_perplexity, `model_calls` (model calls)
    ter_upper        bounds by the information curve, all N from one pass: ter_upper, ser_upper; ter in closed form
    theory           exact values: ser, ter, generative_perplexity, divergence_nats, entropy_bits_per_token
    autoregressive   AR sampling by the ideal denoiser: no error, and the language's own ter
    gap              the loss by parallel decoding (diagnosis/gap)

With a prompt_length all but theory is conditional: rows_per_prompt rows continue each beginning of x ~ q, and intervals
are over prompts. The bounds and theory assume ancestral sampling by the ideal denoiser, whatever the recipe's sampler.
Measures with `_ratio` are divided by TER(q), the language's own, on the same rows. Seconds differ from run to run, so
the store has them and records do not. The seed in a language's spec draws the language; `seed` draws the samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Literal, get_args

import torch

from unmask import metrics
from unmask.core import arguments, entries, means
from unmask.core.estimates import Estimate, exactly
from unmask.denoisers import Denoiser
from unmask.diagnosis.gap import gap as measured_gap
from unmask.experiments.cell import Record, Tally, job
from unmask.experiments.jobs.sources import (
    Amount,
    Pace,
    Sampling,
    Source,
    about,
    check,
    delta,
    generated,
    records_of,
    records_of_samples,
    tally_of,
)
from unmask.languages import Language
from unmask.metrics.rows import several_prompts
from unmask.planning.flops import model_calls
from unmask.samplers import Generation
from unmask.theory import known
from unmask.theory.chains import first_order
from unmask.theory.curves import InformationCurve
from unmask.theory.recursion import order_loss
from unmask.theory.sampled import information_curve

Calls = Literal["one", "chain"]
OF_GAP = {
    "gap_nats": "sequence",
    "gap_nats_per_token": "token",
    "gap_differ_at_most": "differ",
    "gap_first_flips": "flips",
    "gap_infinite": "infinite",
}


LOGARITHMS = {"ter_bits_per_token": "ter", "generative_nll_bits_per_token": "generative_perplexity"}  # to base 2


@job(records=records_of_samples, check=check, about=about)
def samples(sampling: Sampling, amount: Amount, source: Source, first_row: int = 0) -> Tally:
    """SER, generative perplexity and model calls of generated rows."""
    given, prompt = amount.prompts(source.q, source.length, first_row)
    generation = generated(source.q, source.length, sampling, amount, first_row=first_row, given=given)
    return tally_of(generation, source.q, prompt)


@job(check=check, about=about)
def ter_upper(source: Source, pace: Pace, amount: Amount = Amount(rows=100)) -> list[Record]:
    """Bounds of TER and SER from the NELBO of the N-step sampler."""
    q = source.q
    hidden = source.length - amount.prompt_length
    steps = pace.schedule, pace.steps

    if q.closed_form is not None and not amount.prompt_length:
        ter = metrics.ter(q, source.length, *steps)
        own = metrics.ter_autoregressive(q, source.length).value
        numbers = {"ter": ter, "ter_ratio": ter.map(lambda value: value / own)}
    else:
        curve = curve_of(source, amount)
        numbers = {"ter_upper": curve.ter_upper(*steps), "ser_upper": curve.ser_upper(*steps)}
        if q.end is None:  # else the number of tokens varies
            excess = curve.divergence(delta(source, pace))
            numbers["ter_upper_ratio"] = excess.map(lambda nats: math.exp(nats / hidden))

    return records_of(numbers, model_calls(delta(source, pace), hidden))


@lru_cache(maxsize=8)
def curve_of(source: Source, amount: Amount) -> InformationCurve:
    """The information curve of a language, from one pass for all schedules and numbers of steps."""
    given, prompt = amount.prompts(source.q, source.length)
    return information_curve(source.q, source.length, rows=amount.rows, seed=amount.seed, given=given, prompt=prompt)


def _check_baseline(source: Source, prompt_length: int, prompts: int, seed: int) -> None:
    arguments.whole("prompts", prompts)
    check(source, Pace(), Amount(1, seed, prompt_length))


@job(check=_check_baseline, about=about)
def autoregressive(source: Source, prompt_length: int = 0, prompts: int = 100, seed: int = 0) -> list[Record]:
    """The AR baseline, one model call per token: it samples from q, so only TER(q) is measured."""
    given, _ = Amount(prompts, seed, prompt_length).prompts(source.q, source.length)
    own = metrics.ter_autoregressive(source.q, source.length, given)
    return records_of(
        {"ser": exactly(0.0), "ter": own, "ter_ratio": exactly(1.0)}, float(source.length - prompt_length)
    )


@job(check=check, about=about)
def theory(source: Source, pace: Pace, prompt_length: int = 0) -> list[Record]:
    """Exact values from theory; no records if none exist, for example with a prompt."""
    if prompt_length:
        return []

    pacing = delta(source, pace)
    exact = known.exact(source.q, source.length, pacing)
    numbers = dict[str, Estimate]()
    for field, method in exact.method.items():
        value = exactly(getattr(exact, field), f"exact: {method}")
        if field in LOGARITHMS:
            value = value.map(lambda bits: 2.0**bits)
        numbers[LOGARITHMS.get(field, field)] = value
    return records_of(numbers, model_calls(pacing, source.length))


def check_calls(calls: Calls) -> None:
    arguments.word("calls", calls, get_args(Calls))


def _check_gap(sampling: Sampling, amount: Amount, source: Source, calls: Calls) -> None:
    check(source, Pace(sampling.steps, sampling.schedule), amount, sampling.sampler)
    check_calls(calls)


@job(check=_check_gap, about=about)
def gap(sampling: Sampling, amount: Amount, source: Source, calls: Calls = "one") -> list[Record]:
    """Nats and tokens lost by sampling several tokens in one step.

    calls: one more context of each step, or chain: its tokens one by one. Of samplers that choose before they draw also

        divergence_nats   E[log p(x | choices) - log q(x)] over the possible rows
        gap_exact_nats    the same without samples, for ancestral sampling from first-order chains
    """
    return gap_records(
        source.q, source.q, source.length, sampling, amount, calls, lambda: _exact(source, sampling, amount)
    )


def gap_records(
    q: Language,
    denoiser: Language | Denoiser,
    length: int,
    sampling: Sampling,
    amount: Amount,
    calls: Calls,
    exact: Callable[[], Estimate | None] = lambda: None,
) -> list[Record]:
    given, _ = amount.prompts(q, length)
    generation = generated(denoiser, length, sampling, amount, given=given, trace=True)
    measured = measured_gap(denoiser, generation, calls=calls, seed=amount.seed, reference=0)

    numbers = entries.mapped(partial(getattr, measured), OF_GAP)
    # of these the distribution of what they write, given their choices, is known
    if measured.claim == "divergence":
        numbers |= {"divergence_nats": divergence(generation, q), "gap_exact_nats": exact()}
    return records_of(numbers, float(generation.model_calls.double().mean()))


def _exact(source: Source, sampling: Sampling, amount: Amount) -> Estimate | None:
    """The divergence by recursion on gaps (theory/recursion.py), where it is exact and quick."""
    chain, pacing = first_order(source.q), delta(source, sampling)
    plain = (sampling.sampler, sampling.temperature, sampling.top_p, sampling.top_k) == ("ancestral", 1, 1, None)
    if chain is None or not plain or amount.prompt_length or source.length > known.LONGEST:
        return None
    if known.work(chain, source.length, pacing) > known.MOST_WORK:
        return None
    return exactly(float(order_loss(chain, source.length, pacing)[1][-1]), "exact: recursion on gaps")


def divergence(generation: Generation, q: Language) -> Estimate | None:
    """Mean of log p(x | choices) - log q(x) over the possible rows; None if no row is possible."""
    given, written = generation.given, generation.order > 0
    nats = torch.where(written, generation.probability, 1.0).double().log().sum(1)
    nats -= q.log_evidence(generation.tokens) - q.log_evidence(given)
    there = nats.isfinite()
    if not there.any():
        return None
    return means.skewed_mean(nats[there], groups=several_prompts(given[there]))
