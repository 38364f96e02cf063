"""The metrics of ours: samples, ter_upper and theory (catalogue.py says what a metric is).

    samples     generate and score: ser, generative_perplexity, evaluations
    ter_upper   bounds by the information curve, all N from one pass: ter_upper, ser_upper; ter itself by a closed form
    theory      what is known without sampling: ser, ter, generative_perplexity, divergence_nats, entropy_bits_per_token
    autoregressive   what AR sampling by the ideal denoiser has: no error, and the language's own ter

With a prompt_length all but theory is conditional: rows continue the beginnings of x ~ q, rows_per_prompt of them each,
and intervals are over prompts. The bounds and theory speak of ancestral sampling by the ideal denoiser, whatever
sampler a recipe names beside them. Measures with `_ratio` are relative to TER(q), the language's own, on the same rows.
Seconds are no records: they stand in the store, since no two runs agree on them. The language_seed
draws the language, where it is random, and the seed the luck.
"""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

from unmask.experiments.measures.catalogue import Arguments, Output, Record, Tally, metric
from unmask.experiments.measures.sources import (
    about,
    check,
    curve_cost,
    ground_truth,
    kept_curve,
    prompts_of,
    record,
    row_seconds,
    source,
)

if TYPE_CHECKING:
    from torch import Tensor

    from unmask.generation import Generation
    from unmask.languages import Language

THEORY_SECONDS = 0.2
OF_AR = "evaluations of causal"  # of a masked model's rows: calls of the AR model that reads beside it
PASS = ("steps", "schedule", "fixed_size")  # what one curve answers for


def tally_of(made: Generation, q: Language, prompt: Tensor | None = None) -> Tally:
    """What a language says of generated rows, in numbers that add up; prompt: which one each row continues."""
    from unmask.experiments.measures.tallies import counts, sums
    from unmask.metrics import YARDSTICKS, rows

    seen = rows(made, q, prompt=prompt)
    tally: Tally = {}
    for name, yardstick in YARDSTICKS.items():
        if (values := yardstick.values(seen)) is None:  # as of steps, where the language has none
            continue
        said = ~values.isnan()
        tally |= (counts if yardstick.events else sums)(name, values[said], None if prompt is None else prompt[said])
    if {"denoiser", "causal"} <= made.evaluations_of.keys():
        tally |= sums(OF_AR, made.evaluations_of["causal"], prompt)
    return tally


def records_of_samples(tally: Tally, **cell: Any) -> list[Record]:
    from unmask.experiments.measures.tallies import mean, share
    from unmask.metrics import YARDSTICKS

    evaluations, found = mean("evaluations", tally), []
    needed = None if evaluations is None else evaluations.value
    for name, yardstick in YARDSTICKS.items():
        if f"{name}_count" not in tally:
            continue
        if (estimate := (share if yardstick.events else mean)(name, tally)) is not None:
            found.append(record(name, estimate.map(yardstick.shown), needed))
    if f"{OF_AR}_count" in tally and (calls := mean(OF_AR, tally)) is not None:
        found.append(record(OF_AR, calls, needed))
    return found


def rows_of_a_prompt(cell: Arguments) -> int:
    """Which stay in one tally."""
    return int(cell["rows_per_prompt"])


def _cost_of_samples(cell: Arguments) -> float:
    return float(cell["rows"] * row_seconds(cell))


@metric(
    "samples",
    records=records_of_samples,
    check=check,
    about=about,
    cost=_cost_of_samples,
    together=rows_of_a_prompt,
)
def samples(
    *,
    language: str = "",
    model: str = "",
    digest: str = "",
    length: int = 512,
    sampler: str = "ancestral",
    schedule: str = "linear",
    steps: int = 64,
    rows: int = 2000,
    first_row: int = 0,
    language_seed: int = 0,
    seed: int = 0,
    pruned: bool = True,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int | None = None,
    prompt_length: int = 0,
    rows_per_prompt: int = 1,
    keep: bool = False,
) -> Tally | Output:
    """SER, generative perplexity and evaluations of generated rows.

    model: a directory of `unmask train`. keep: the tokens, too, as files beside the store.
    """
    from unmask.generation import generate

    q, filled = source(language, model, language_seed, pruned, digest)
    given, prompt = prompts_of(q, length, prompt_length, rows_per_prompt, rows=rows, first_row=first_row, seed=seed)
    how: dict[str, Any] = {"sampler": sampler, "schedule": schedule, "steps": steps, "length": length}
    how |= {"temperature": temperature, "top_p": top_p, "top_k": top_k}
    made = generate(filled, **how, rows=rows, first_row=first_row, seed=seed, given=given)
    tally = tally_of(made, q, prompt)
    return Output(tally, {f"tokens-{first_row:012d}.npy": _npy(made.tokens)}) if keep else tally


@metric("ter_upper", shares=PASS, check=check, about=about, cost=curve_cost)
def ter_upper(
    *,
    language: str,
    digest: str = "",
    length: int = 512,
    schedule: str = "linear",
    steps: int = 64,
    fixed_size: bool = False,
    prompt_length: int = 0,
    rows_per_prompt: int = 1,
    rows: int = 100,
    language_seed: int = 0,
    seed: int = 0,
    pruned: bool = True,
) -> list[Record]:
    """Bounds of TER and SER from the NELBO of the N-round sampler."""
    from unmask import metrics
    from unmask.cost.flops import evaluations
    from unmask.schedules import Fit, deltas

    q = ground_truth(language, language_seed, pruned, digest)
    delta = deltas(schedule, steps, Fit(q, length, fixed_size))
    hidden = length - prompt_length
    cost = evaluations(delta, hidden)
    if q.closed_form is not None and not fixed_size and not prompt_length:
        ter, own = metrics.ter(q, length, schedule, steps), metrics.ter_autoregressive(q, length).value
        found = {"ter": ter, "ter_ratio": ter.map(lambda value: value / own)}
    else:
        curve = kept_curve(language, length, rows, language_seed, seed, pruned, digest, prompt_length, rows_per_prompt)
        found = {
            "ter_upper": curve.ter_upper(schedule, steps, fixed_size=fixed_size),
            "ser_upper": curve.ser_upper(schedule, steps, fixed_size=fixed_size),
        }
        if q.end is None:  # else there is no one number of tokens to share the divergence among
            excess = curve.divergence(delta, fixed_size=fixed_size)
            found["ter_upper_ratio"] = excess.map(lambda nats: math.exp(nats / hidden))
    return [record(name, estimate, cost) for name, estimate in found.items()]


@metric("autoregressive", check=check, about=about)
def autoregressive(
    *,
    language: str,
    digest: str = "",
    length: int = 512,
    prompt_length: int = 0,
    prompts: int = 100,
    language_seed: int = 0,
    seed: int = 0,
    pruned: bool = True,
) -> list[Record]:
    """The AR baseline, one evaluation a token: it draws from q itself, so there is nothing to measure but TER(q).

    prompts: how many TER is the mean of, where they have a length.
    """
    from unmask import metrics
    from unmask.core.estimates import exactly

    q = ground_truth(language, language_seed, pruned, digest)
    given, _ = prompts_of(q, length, prompt_length, rows=prompts, seed=seed)
    own = metrics.ter_autoregressive(q, length, given)
    found = {"ser": exactly(0.0), "ter": own, "ter_ratio": exactly(1.0)}
    return [record(name, estimate, float(length - prompt_length)) for name, estimate in found.items()]


@metric("theory", check=check, about=about, cost=lambda cell: THEORY_SECONDS)
def theory(
    *,
    language: str,
    digest: str = "",
    length: int = 512,
    schedule: str = "linear",
    steps: int = 64,
    prompt_length: int = 0,
    language_seed: int = 0,
    pruned: bool = True,
) -> list[Record]:
    """What is known exactly; nothing where nothing is, as of what continues a prompt."""
    from unmask.core.estimates import exactly
    from unmask.cost.flops import evaluations
    from unmask.schedules import Fit, deltas
    from unmask.theory.known import exact

    if prompt_length:
        return []
    q = ground_truth(language, language_seed, pruned, digest)
    delta = deltas(schedule, steps, Fit(q, length))
    known = exact(q, length, delta)
    cost = evaluations(delta, length)
    logarithms = {"ter_bits_per_token": "ter", "generative_nll_bits_per_token": "generative_perplexity"}
    found = []
    for field, method in known.method.items():
        value = getattr(known, field)
        value = 2.0**value if field in logarithms else value
        found.append(record(logarithms.get(field, field), exactly(value, f"exact: {method}"), cost))
    return found


def _npy(tokens: Tensor) -> bytes:
    import numpy as np

    file = io.BytesIO()
    np.save(file, tokens.numpy().astype(np.min_scalar_type(int(tokens.max()))), allow_pickle=False)
    return file.getvalue()
