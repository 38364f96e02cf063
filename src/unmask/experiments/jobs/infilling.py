"""Jobs of infilling: the hidden tokens of x, given all others; beside it an AR model, which sees the left side alone.

    infilling           an exact denoiser fills sequences of a language
    learned_infilling   trained networks do
    text_infilling      networks of a text do, on held-out windows

span: the number of hidden tokens. where: in the "middle", in "two" parts, or at the "end", where AR misses nothing. The
sampler decides who fills: "autoregressive" is AR, from left to right into each part; others fill from both sides.

    infill_ser                the fraction of filled sequences that are impossible
    infill_divergence_nats    KL(q || p) of the hidden tokens, at most, for ancestral sampling; exact for AR
    infill_loss_nats          -log p of a hidden token of the text, by the chain rule from left to right
    infill_exact              the fraction of windows whose tokens are all those of the text
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, starmap
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from unmask import metrics
from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, share
from unmask.core.means import mean
from unmask.denoisers import Denoiser
from unmask.denoisers.marginals import as_marginals
from unmask.experiments.cell import Place, Record, job
from unmask.experiments.jobs.sources import (
    PROMPT_SEEDS,
    Amount,
    Sampling,
    Source,
    about,
    check,
    generated,
    records_of,
)
from unmask.experiments.jobs.texts import Reader, checked_text, text_digest
from unmask.experiments.jobs.training import Student, kinds_of, needs_training, trained_network
from unmask.languages import Language
from unmask.models.text.corpus import tiles
from unmask.models.trained.objectives import Objective
from unmask.models.trained.trunk import Trunk
from unmask.models.trained.validation import HeldOut
from unmask.samplers import schedules
from unmask.theory.sampled import information_curve

Where = Literal["middle", "two", "end"]
AR = "autoregressive"


def parts_of(length: int, span: int, where: Where) -> list[tuple[int, int]]:
    """(begin, end) of each hidden part; two parts are as far from each other as from the ends."""
    arguments.word("where", where, get_args(Where))
    arguments.whole("span", span, 2, length - 2, ", so that both sides are given")
    if where == "end":
        return [(length - span, length)]
    if where == "middle":
        begin = round((length - span) / 2)
        return [(begin, begin + span)]
    half, gap = span // 2, (length - span) / 3
    first, second = round(gap), round(2 * gap) + half
    return [(first, first + half), (second, second + span - half)]


def hidden_in(whole: Tensor, parts: list[tuple[int, int]], vocabulary: int) -> Tensor:
    """The rows (B, L) without the tokens of the parts."""
    around = whole.clone()
    for begin, end in parts:
        around[:, begin:end] = vocabulary
    return around


def filled(
    source: Language | Denoiser, whole: Tensor, parts: list[tuple[int, int]], sampling: Sampling, amount: Amount
) -> tuple[Tensor, float]:
    """(rows with their parts filled, model calls per row)."""
    length = whole.shape[1]
    if sampling.sampler != AR:
        generation = generated(source, length, sampling, amount, given=hidden_in(whole, parts, source.vocabulary))
        return generation.tokens, float(generation.model_calls.double().mean())

    rows = whole.clone()
    for begin, end in parts:  # its own earlier parts are read, and nothing behind this one
        left, true = _prefix(rows, begin, source.vocabulary), _prefix(whole, begin, source.vocabulary)
        if isinstance(source, Language):  # a row that is impossible already goes on from the true text
            lost = source.log_evidence(left).isinf()
            left[lost] = true[lost]

        rows[:, begin:end] = generated(source, length, sampling, amount, given=left).tokens[:, begin:end]
    return rows, float(sum(map(len, starmap(range, parts))))


def log_evidence_of_parts(q: Language, whole: Tensor, parts: list[tuple[int, int]]) -> Tensor:
    """(B): log q(hidden | left) of an ideal AR model, the sum over parts of log q(x_<end) - log q(x_<begin)."""
    return _over_parts(lambda end: q.log_evidence(_prefix(whole, end, q.vocabulary)), parts)


def left_nats(trunk: Trunk, whole: Tensor, parts: list[tuple[int, int]]) -> Tensor:
    """(B): -log p(hidden | left) of an AR network, in the same way."""
    return _over_parts(lambda end: HeldOut(whole[:, :end], 0, Objective(trunk.shape)).nats(trunk), parts)


def _over_parts(of_prefix: Callable[[int], Tensor], parts: list[tuple[int, int]]) -> Tensor:
    """(B): the sum over parts of the value of a prefix at the end minus that at the beginning."""
    total = torch.zeros(())
    for begin, end in parts:
        total = total + (of_prefix(end) - of_prefix(begin))
    return total


def _prefix(whole: Tensor, end: int, vocabulary: int) -> Tensor:
    """The rows (B, L) with their first tokens only."""
    return hidden_in(whole, [(end, whole.shape[1])], vocabulary)


def chain_nats(denoiser: Denoiser, whole: Tensor, parts: list[tuple[int, int]]) -> Tensor:
    """(B): -log p(hidden | all others) of a denoiser, by the chain rule from left to right."""
    tokens = hidden_in(whole, parts, denoiser.vocabulary)
    nats = torch.zeros(len(whole), dtype=torch.float64)
    for position in chain(*starmap(range, parts)):
        answer = denoiser.posterior(tokens, torch.full((len(whole), 1), position))
        nats -= as_marginals(answer).of(whole[:, position]).double().log()
        tokens[:, position] = whole[:, position]
    return nats


def _on_language(
    q: Language,
    source: Language | Denoiser,
    length: int,
    sampling: Sampling,
    amount: Amount,
    parts: list[tuple[int, int]],
    ar: Trunk | None = None,
) -> list[Record]:
    whole = q.sample(amount.rows, length, seed=amount.seed + PROMPT_SEEDS)
    rows, calls = filled(source, whole, parts, sampling, amount)

    around = hidden_in(whole, parts, q.vocabulary)
    each = torch.arange(amount.rows)  # each row has its own given tokens
    numbers: dict[str, Estimate] = {"infill_ser": metrics.rows(rows, q, given=around, prompt=each).ser}

    if sampling.sampler == AR:
        known = -left_nats(ar, whole, parts) if ar else log_evidence_of_parts(q, whole, parts)
        numbers["infill_divergence_nats"] = mean(q.log_evidence(whole) - q.log_evidence(around) - known)
    elif sampling.sampler == "ancestral":
        denoiser = None if isinstance(source, Language) else source
        curve = information_curve(q, length, rows=amount.rows, seed=amount.seed, denoiser=denoiser, given=around)
        pacing = schedules.deltas(sampling.schedule, sampling.steps, schedules.Fit(q, length))
        numbers["infill_divergence_nats"] = curve.divergence(pacing)

    return records_of(numbers, calls)


def _check(source: Source, sampling: Sampling, amount: Amount, where: Where, span: int) -> None:
    check(source, sampling, amount, sampling.sampler)  # type: ignore[arg-type]
    parts_of(source.length, span, where)


@job(check=_check, about=about)
def infilling(
    source: Source, sampling: Sampling, amount: Amount, where: Where = "middle", span: int = 16
) -> list[Record]:
    """SER and divergence of hidden tokens that an exact denoiser fills, or an exact AR model from the left."""
    parts = parts_of(source.length, span, where)
    return _on_language(source.q, source.q, source.length, sampling, amount, parts)


def _check_learned(student: Student, sampling: Sampling, amount: Amount, where: Where, span: int) -> None:
    schedules.deltas(sampling.schedule, sampling.steps)
    length = student.shape(kinds_of(sampling.sampler)[0]).length
    amount.check(length)
    parts_of(length, span, where)


@job(check=_check_learned, needs=needs_training, about=about)
def learned_infilling(
    student: Student, sampling: Sampling, amount: Amount, place: Place, where: Where = "middle", span: int = 16
) -> list[Record]:
    """The same by trained networks."""
    network = trained_network(sampling.sampler, place, student.device)
    parts = parts_of(network.length, span, where)
    ar = network.ar.trunk if network.ar is not None else None
    return _on_language(student.q, network, network.length, sampling, amount, parts, ar)


def _check_text(reader: Reader, sampling: Sampling, where: Where, span: int) -> None:
    checked_text(reader)
    parts_of(reader.shape("mdm").length, span, where)
    schedules.deltas(sampling.schedule, sampling.steps)


def _needs(reader: Reader, sampler: str) -> list[dict[str, Any]]:
    return list(map(reader.training, kinds_of(sampler)))


@job(check=_check_text, needs=_needs, about=text_digest)
def text_infilling(
    reader: Reader, sampling: Sampling, place: Place, rows: int = 200, where: Where = "middle", span: int = 8
) -> list[Record]:
    """Loss of the hidden tokens of held-out text, and how often a sample has all of them."""
    network = trained_network(sampling.sampler, place, reader.device)

    text = reader.text_of(place.needed[0])
    whole = tiles(text.held_out, rows, network.length)
    if len(whole) < rows:
        raise UnmaskError(f"the held-out text has {len(whole)} windows. Expected {rows}. Reduce rows")

    parts = parts_of(network.length, span, where)
    tokens, calls = filled(network, whole, parts, sampling, Amount(rows, reader.seed))

    if sampling.sampler == AR and network.ar is not None:  # it sees the left side alone: the loss of a prefix
        nats = left_nats(network.ar.trunk, whole, parts)
    else:
        nats = chain_nats(network, whole, parts)
    return records_of({"infill_loss_nats": mean(nats / span), "infill_exact": share((tokens == whole).all(1))}, calls)
