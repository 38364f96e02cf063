"""Decomposition of errors into sampling error and learning error (theory.md 4, 7).

    SER = SER of the exact denoiser, same random seed          + the rest, the learning error
    log TER <= H(q)/L + E KL(q || p_order)/L of the schedule   + sum_k delta_k h_KL(p_k)/L, the learning error

Under uniform noise only SER is decomposed. An exact AR model makes no errors, so all errors of an AR model are learning
errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from unmask import metrics
from unmask.core.estimates import Estimate, bounded_mean, exactly
from unmask.core.tables import as_table
from unmask.denoisers import Denoiser
from unmask.diagnosis.learning import Learning
from unmask.languages import Language
from unmask.samplers import Generation, generate
from unmask.samplers.schedules import Fit, deltas
from unmask.theory.known import curve

RULES = {"mask": "ancestral", "uniform": "uniform-ancestral"}  # by the noise of the denoiser


@dataclass(frozen=True)
class Blame:
    """Errors at N steps; None for an AR model, which takes one step per token."""

    steps: int | None
    model_calls: float
    ser: Estimate
    ser_sampling: Estimate  # SER of the exact denoiser
    ser_learning: Estimate  # the difference, on the same rows
    ter_sampling: Estimate | None  # bound of TER / TER of the language: 1 without error; None under uniform noise
    ter_learning: Estimate | None  # factor of the learning error
    generative_perplexity: Estimate | None

    __repr__ = as_table

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def blame(
    denoiser: Denoiser,
    language: Language,
    length: int,
    schedule: str,
    steps: Sequence[int],
    *,
    learning: Learning | None,
    rows: int = 1000,
    seed: int = 0,
) -> list[Blame]:
    """Decompose ancestral sampling at each number of steps.

    learning: `of_language` of the same denoiser; None for one of uniform noise, whose SER alone is decomposed.
    """
    how: dict[str, Any] = {"length": length, "rows": rows, "seed": seed}
    own = None if learning is None else curve(language, length)
    results = []
    for count in steps:
        delta = deltas(schedule, count, Fit(language, length))
        ours, theirs = (
            generate(source, sampler=RULES[denoiser.removes], schedule=delta.tolist(), **how)
            for source in (denoiser, language)
        )
        sampling = learned = None
        if learning is not None and own is not None:
            sampling = own.divergence(delta).map(lambda nats: math.exp(nats / length))
            learned = _factor(learning.excess(delta), length)
        results.append(_one(count, ours, theirs, language, sampling, learned))
    return results


def blame_ar(
    denoiser: Denoiser, language: Language, length: int, *, learning: Learning, rows: int = 1000, seed: int = 0
) -> Blame:
    """Decompose autoregression; learning: `of_language(.., causal=True)`."""
    ours = generate(denoiser, sampler="autoregressive", length=length, rows=rows, seed=seed)
    return _one(None, ours, None, language, exactly(1.0), _factor(learning.excess(), length))


def _one(
    steps: int | None,
    ours: Generation,
    theirs: Generation | None,
    language: Language,
    sampling: Estimate | None,
    learning: Estimate | None,
) -> Blame:
    measured = metrics.rows(ours, language)
    exact, rest = exactly(0.0), measured.ser
    if theirs is not None:
        ideal = metrics.rows(theirs, language)
        exact = ideal.ser
        difference = ideal.valid.double() - measured.valid.double()
        rest = bounded_mean(difference, (-1.0, 1.0), method="gaffke, paired")
    return Blame(
        steps=steps,
        model_calls=float(ours.model_calls.double().mean()),
        ser=measured.ser,
        ser_sampling=exact,
        ser_learning=rest,
        ter_sampling=sampling,
        ter_learning=learning,
        generative_perplexity=measured.estimate("generative_perplexity"),
    )


def _factor(nats: Estimate, length: int) -> Estimate:
    return nats.map(lambda value: math.exp(value / length))
