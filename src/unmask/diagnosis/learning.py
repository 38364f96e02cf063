"""Learning error of a denoiser per context, in nats relative to the exact denoiser (theory.md 4).

    KL( q(. | x_R) || p_theta(. | x_R) )    at each hidden position, in contexts of q or of a sampler

Assumption 4.1 bounds the largest value over all contexts, not the mean. On contexts x ~ q with k revealed positions the
mean f_KL(k) is exactly the contribution of learning to the NELBO of any schedule,

    NELBO_N(p_theta) - NELBO_N(q) = sum_k delta_k h_KL(p_k),   h_KL(u) = L sum_k Binom(L-1, u)(k) f_KL(k)

and for an AR model, whose contexts are prefixes, the sum over positions is KL(q || p_theta).

`blame` divides the errors of samples into those of sampling and those of learning (theory.md 7):

    SER = SER of the exact denoiser, same random seed          + the rest, the learning error
    log TER <= H(q)/L + E KL(q || p_order)/L of the schedule   + sum_k delta_k h_KL(p_k)/L, the learning error

Under uniform noise only SER is decomposed. An exact AR model makes no errors, so all errors of an AR model are learning
errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unmask import metrics
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, bounded_mean, exactly
from unmask.core.means import ratio
from unmask.core.memory import fits
from unmask.core.tables import as_table
from unmask.core.threads import tracked
from unmask.denoisers import Denoiser, Ideal
from unmask.denoisers.denoiser import checked, removing
from unmask.diagnosis.loss_curve import hidden_places, revealed_counts
from unmask.languages import Language, LanguageLike, load
from unmask.samplers import Generation, generate
from unmask.samplers.schedules import Fit, deltas
from unmask.samplers.teaching import read
from unmask.theory.curves import weights
from unmask.theory.optimal import information_curve

QUANTILE = 0.99
BINS = 8
LOOKS = 16  # contexts per row
ROWS_AT_ONCE = 64
LANGUAGE = "of the language"
RULES = {"mask": "ancestral", "uniform": "uniform-ancestral"}  # by the noise of the denoiser
Contexts = Callable[[slice], tuple[Tensor, Tensor]]  # for some rows: contexts (C, L), and the row (C) of each


@dataclass(frozen=True)
class Learning:
    """KL in nats at hidden positions (P), with the row and the context of each.

    Impossible contexts have no exact posterior and are omitted; `impossible` is their fraction.
    """

    nats: Tensor  # (P)
    row: Tensor  # (P)
    revealed: Tensor  # (P): number of revealed positions in the context
    evaluated: Tensor  # (P): number of evaluated positions in the context
    length: int
    impossible: float
    contexts: str

    def __repr__(self) -> str:
        return f"<Learning at {len(self.nats)} positions, length {self.length}, contexts {self.contexts}>"

    def mean(self, low: float = 0.0, high: float = 1.0) -> Estimate | None:
        """Mean over contexts with a hidden fraction above low, up to high; None without such contexts."""
        inside = self._between(low, high)
        return self._ratio(inside.double()) if bool(inside.any()) else None

    def quantile(self, level: float = QUANTILE, low: float = 0.0, high: float = 1.0) -> float:
        return float(self.nats[self._between(low, high)].quantile(level))

    @property
    def largest(self) -> float:
        """The largest observed value: a lower bound of the epsilon of Assumption 4.1."""
        return float(self.nats.max())

    def by_share(self, bins: int = BINS) -> list[dict[str, Any]]:
        """Statistics by hidden fraction, from near 0 to near 1."""
        records = []
        for index in range(bins):
            ends = {"low": index / bins, "high": (index + 1) / bins}
            if (value := self.mean(**ends)) is not None:
                numbers = {
                    "mean": value.to_dict(),
                    "quantile": self.quantile(**ends),
                    "largest": float(self.nats[self._between(**ends)].max()),
                }
                records.append(ends | numbers)
        return records

    def to_dict(self, bins: int = BINS) -> dict[str, Any]:
        about: dict[str, Any] = {"contexts": self.contexts, "mean": None, "quantile": None, "largest": None}
        if (whole := self.mean()) is not None:
            about |= {"mean": whole.to_dict(), "quantile": self.quantile(), "largest": self.largest}
        return about | {"impossible": self.impossible, "by_share": self.by_share(bins)}

    def excess(self, delta: Tensor | None = None, *, fixed_size: bool = False) -> Estimate:
        """Nats per sequence that learning adds to the NELBO of a schedule (default: one position per step)."""
        if self.contexts != LANGUAGE:
            raise UnmaskError(f"contexts are {self.contexts}; expected contexts {LANGUAGE}")
        by_count = np.ones(self.length) if delta is None else weights(self.length, delta, fixed_size)
        weight = torch.from_numpy(by_count)[self.revealed] / self.evaluated
        return self._ratio(weight).map(lambda nats: nats * self.length)

    def _ratio(self, weight: Tensor) -> Estimate:
        """Weighted mean over positions: a ratio of sums over rows, since only rows are independent."""
        nothing = torch.zeros((2, int(self.row.max()) + 1), dtype=torch.float64)
        weights, total = nothing.index_add_(1, self.row, torch.stack([weight, weight * self.nats]))
        if not bool(weights.any()):
            raise UnmaskError("no context has as few revealed positions as the schedule. Use more rows")
        met = weights > 0
        return ratio(total[met], weights[met], "ratio of sums over rows")

    def _between(self, low: float, high: float) -> Tensor:
        hidden = 1 - self.revealed / self.length
        return (hidden > low) & (hidden <= high)


def of_language(
    denoiser: Denoiser,
    language: LanguageLike,
    length: int,
    *,
    rows: int = 200,
    looks: int = LOOKS,
    seed: int = 0,
    causal: bool = False,
) -> Learning:
    """Learning error on contexts x ~ q with random revealed positions; if causal, on all prefixes."""
    language = load(language)
    tokens = language.sample(rows, length, seed=seed)
    checked(denoiser)
    if causal:
        return _of_prefixes(denoiser, language, tokens, LANGUAGE)
    removing(denoiser, "mask", "the learning error by hidden positions")
    revealed = revealed_counts(rows, length, looks, seed)

    def contexts_of(part: slice) -> tuple[Tensor, Tensor]:
        owners = torch.arange(part.start, part.stop).repeat_interleave(revealed.shape[1])
        return torch.where(hidden_places(revealed, part, length, seed), language.vocabulary, tokens[owners]), owners

    return _of_contexts(denoiser, language, rows, length, contexts_of, LANGUAGE)


def of_sampler(
    denoiser: Denoiser,
    language: LanguageLike,
    length: int,
    steps: int = 64,
    sampler: str = "ancestral",
    *,
    rows: int = 200,
    looks: int = LOOKS,
    seed: int = 0,
    causal: bool = False,
) -> Learning:
    """Learning error on contexts of a sampler: some steps of each row, evenly spaced; if causal, all prefixes of AR."""
    language = load(language)
    if causal:
        generation = generate(denoiser, sampler="autoregressive", length=length, rows=rows, seed=seed)
        return _of_prefixes(denoiser, language, generation.tokens, "of autoregressive")
    generation = generate(denoiser, sampler=sampler, steps=steps, length=length, rows=rows, seed=seed)

    def contexts_of(part: slice) -> tuple[Tensor, Tensor]:
        contexts, owners = [], []
        for row in range(part.start, part.stop):
            revealed = generation.order[row].unique()
            chosen = revealed[torch.linspace(0, len(revealed) - 1, min(looks, len(revealed))).round().long()]
            contexts.append(
                torch.where(generation.order[row] < chosen.unsqueeze(1), generation.tokens[row], language.vocabulary)
            )
            owners.append(torch.full((len(chosen),), row))
        return torch.cat(contexts), torch.cat(owners)

    return _of_contexts(denoiser, language, rows, length, contexts_of, f"of {sampler}, {steps} steps")


def _of_contexts(
    denoiser: Denoiser, language: Language, rows: int, length: int, contexts_of: Contexts, name: str
) -> Learning:
    def measured(part: slice) -> tuple[Tensor, ...]:
        contexts, owners = contexts_of(part)

        # a context that the language cannot have has no exact posterior
        possible = torch.isfinite(language.log_evidence(contexts))
        contexts, owners = contexts[possible], owners[possible]

        hidden = contexts == language.vocabulary
        time = denoiser.time_at(hidden.double().mean(1), len(hidden))
        nothing = torch.full_like(contexts, language.vocabulary)
        learned = denoiser.probabilities(contexts, time=time, given=nothing)
        loss = divergence(language.posterior(contexts), learned)
        where, _ = hidden.nonzero(as_tuple=True)
        return loss[hidden], owners[where], (length - hidden.sum(1))[where], possible

    parts = tracked("learning error", measured, rows, ROWS_AT_ONCE, threads=False)
    nats, row, revealed, possible = map(torch.cat, zip(*parts, strict=True))
    impossible = float((~possible).double().mean())
    return Learning(nats, row, revealed, length - revealed, length, impossible, name)


def _of_prefixes(denoiser: Denoiser, language: Language, tokens: Tensor, name: str) -> Learning:
    rows, length = tokens.shape
    fits(rows, f"rows of {length} prefixes", 16 * length**2)
    contexts = torch.where(torch.ones(length, length).tril(-1).bool(), tokens.unsqueeze(1), language.vocabulary)
    possible = torch.isfinite(language.log_evidence(contexts.flatten(0, 1))).view(rows, length)
    loss = divergence(*(read(one, tokens).dense() for one in (Ideal(language), denoiser))).view(rows, length)
    row, position = possible.nonzero(as_tuple=True)
    impossible = float((~possible).double().mean())
    return Learning(loss[possible], row, position, torch.ones_like(row), length, impossible, name)


def divergence(exact: Tensor, learned: Tensor) -> Tensor:
    """KL(exact || learned) over the last axis, in nats."""
    return (torch.xlogy(exact, exact) - torch.xlogy(exact, learned.double())).sum(-1).clamp(min=0)


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

    __repr__, to_dict = as_table, asdict


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
    how: dict[str, Any] = {"length": length, "rows": rows, "seed": seed, "sampler": RULES[denoiser.removes]}
    results = []
    for count in steps:
        delta = deltas(schedule, count, Fit(language, length))
        ours = generate(denoiser, schedule=delta.tolist(), **how)
        theirs = generate(language, schedule=delta.tolist(), **how)

        sampling = learned = None
        if learning is not None:
            sampling = information_curve(language, length).divergence(delta).map(lambda nats: math.exp(nats / length))
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
    rest = measured.ser
    exact = exactly(0.0)
    if theirs is not None:
        ideal = metrics.rows(theirs, language)
        exact = ideal.ser
        rest = bounded_mean(ideal.valid.double() - measured.valid.double(), (-1.0, 1.0), method="gaffke, paired")

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
