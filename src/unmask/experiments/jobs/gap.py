"""The jobs `gap` and `learned_gap`: the loss by parallel decoding (diagnosis/gap), of languages or trained networks.

On a known language each row also has its true loss, so these measure the divergence as well, over the possible rows:

    divergence_nats   E[log p(x | choices) - log q(x)], of samplers that choose before they draw
    gap_exact_nats    the same without samples, for ancestral sampling from first-order chains
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, get_args

import torch

from unmask.core import arguments
from unmask.experiments.cell import Place, Record, job
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
)
from unmask.experiments.jobs.training import Student, check_learned, needs_training, network_of

if TYPE_CHECKING:
    from unmask.core.estimates import Estimate
    from unmask.denoisers import Denoiser
    from unmask.languages import Language
    from unmask.samplers import Generation

Calls = Literal["one", "chain"]
MEASURES = {
    "gap_nats": "sequence",
    "gap_nats_per_token": "token",
    "gap_changed_tokens": "changes",
    "gap_regret": "regrets",
    "gap_infinite": "infinite",
}


def _check_gap(sampling: Sampling, amount: Amount, source: Source, model: str, calls: Calls) -> None:
    check(source, Pace(sampling.steps, sampling.schedule), amount, sampling.sampler, model)
    arguments.word("calls", calls, get_args(Calls))


@job(check=_check_gap, about=about)
def gap(
    sampling: Sampling,
    amount: Amount,
    source: Source = NONE,
    model: str = "",
    calls: Calls = "one",
) -> list[Record]:
    """Nats and tokens lost by sampling several tokens in one step.

    calls: one more context of each step, or chain: its tokens one by one.
    """
    q, denoiser = modelled(source, model)
    exact = (lambda: None) if model else (lambda: _exact(source, sampling, amount))
    return _measured(q, denoiser, source.length, sampling, amount, calls, exact)


def _check_learned(student: Student, sampling: Sampling, amount: Amount, calls: Calls) -> None:
    check_learned(student, sampling, amount)
    arguments.word("calls", calls, get_args(Calls))


@job(needs=needs_training, check=_check_learned, about=about)
def learned_gap(
    student: Student, sampling: Sampling, amount: Amount, place: Place, calls: Calls = "one"
) -> list[Record]:
    """The same for a trained network."""
    network = network_of(sampling.sampler, place, student.device)
    return _measured(student.q, network, network.length, sampling, amount, calls)


def _measured(
    q: Language,
    denoiser: Language | Denoiser,
    length: int,
    sampling: Sampling,
    amount: Amount,
    calls: Calls,
    exact: Callable[[], Estimate | None] = lambda: None,
) -> list[Record]:
    from unmask.diagnosis.gap import gap

    given, _ = amount.prompts(q, length)
    generation = generated(denoiser, length, sampling, amount, given=given, trace=True)
    measured = gap(denoiser, generation, calls=calls, seed=amount.seed)
    cost = float(generation.model_calls.double().mean())
    estimates = {name: getattr(measured, field) for name, field in MEASURES.items()}
    if measured.claim == "divergence":
        estimates |= {"divergence_nats": divergence(generation, q), "gap_exact_nats": exact()}
    return [record(name, estimate, cost) for name, estimate in estimates.items() if estimate is not None]


def _exact(source: Source, sampling: Sampling, amount: Amount) -> Estimate | None:
    """The divergence by recursion on gaps (theory/gaps.py), where it is exact and quick."""
    from unmask.core.estimates import exactly
    from unmask.theory.chains import first_order
    from unmask.theory.gaps import order_loss
    from unmask.theory.known import LONGEST, MOST_WORK, work

    chain, pacing = first_order(source.q), delta(source, sampling)
    plain = (sampling.sampler, sampling.temperature, sampling.top_p, sampling.top_k) == ("ancestral", 1, 1, None)
    if chain is None or not plain or amount.prompt_length or source.length > LONGEST:
        return None
    if work(chain, source.length, pacing) > MOST_WORK:
        return None
    return exactly(float(order_loss(chain, source.length, pacing)[1][-1]), "exact: recursion on gaps")


def divergence(generation: Generation, q: Language) -> Estimate | None:
    """Mean of log p(x | choices) - log q(x) over the possible rows; None if no row is possible."""
    from unmask.core.estimates import mean

    given, written = generation.given, generation.order > 0
    nats = torch.where(written, generation.probability, 1.0).double().log().sum(1)
    nats -= q.log_evidence(generation.tokens) - q.log_evidence(given)
    groups = given.unique(dim=0, return_inverse=True)[1] if bool((given != q.vocabulary).any()) else None
    there = nats.isfinite()
    return mean(nats[there], groups=None if groups is None else groups[there]) if bool(there.any()) else None
