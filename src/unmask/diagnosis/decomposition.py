"""Whose fault is it: what parallel sampling does wrong by itself, and what the network adds (theory.md 4, 7).

    SER = SER of the exact denoiser, with the same luck        + the rest, which is learning
    log TER <= H(q)/L + E KL(q || p_order)/L, the schedule's   + sum_k delta_k h_KL(p_k)/L, which is learning

An AR model that is exact makes no error, so all of its errors are learning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from unmask import metrics
from unmask.core.estimates import Estimate, exactly, mean
from unmask.core.tables import as_table
from unmask.denoisers import Denoiser
from unmask.diagnosis.learning import Learning
from unmask.generation import Generation, generate
from unmask.languages import Language
from unmask.schedules import Fit, deltas
from unmask.theory.known import curve


@dataclass(frozen=True)
class Blame:
    """At N rounds; steps is None for an AR model, which takes one for each token."""

    steps: int | None
    evaluations: float
    ser: Estimate
    ser_sampling: Estimate  # of the exact denoiser
    ser_learning: Estimate  # the difference, of the same rows
    ter_sampling: Estimate  # TER over the language's own, by its bound: 1 where nothing is lost
    ter_learning: Estimate  # the factor that learning adds
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
    learning: Learning,
    rows: int = 1000,
    seed: int = 0,
) -> list[Blame]:
    """Of ancestral sampling at each number of steps; learning: `of_language`, on the same denoiser."""
    own = curve(language, length)
    found = []
    for count in steps:
        delta = deltas(schedule, count, Fit(language, length))
        ours, theirs = (
            generate(source, schedule=delta.tolist(), length=length, rows=rows, seed=seed)
            for source in (denoiser, language)
        )
        sampling = own.divergence(delta).map(lambda nats: math.exp(nats / length))
        found.append(_one(count, ours, theirs, language, sampling, _factor(learning.excess(delta), length)))
    return found


def blame_ar(
    denoiser: Denoiser, language: Language, length: int, *, learning: Learning, rows: int = 1000, seed: int = 0
) -> Blame:
    """Of autoregression; learning: `of_language(.., causal=True)`."""
    ours = generate(denoiser, sampler="autoregressive", length=length, rows=rows, seed=seed)
    return _one(None, ours, None, language, exactly(1.0), _factor(learning.excess(), length))


def _one(
    steps: int | None,
    ours: Generation,
    theirs: Generation | None,
    language: Language,
    sampling: Estimate,
    learning: Estimate,
) -> Blame:
    seen = metrics.rows(ours, language)
    exact, rest = exactly(0.0), seen.ser
    if theirs is not None:
        ideal = metrics.rows(theirs, language)
        exact = ideal.ser
        rest = mean(ideal.valid.double() - seen.valid.double(), method="normal, paired")
    return Blame(
        steps=steps,
        evaluations=float(ours.evaluations.double().mean()),
        ser=seen.ser,
        ser_sampling=exact,
        ser_learning=rest,
        ter_sampling=sampling,
        ter_learning=learning,
        generative_perplexity=seen.estimate("generative_perplexity"),
    )


def _factor(nats: Estimate, length: int) -> Estimate:
    return nats.map(lambda value: math.exp(value / length))
