"""Exact SER and TER of ancestral sampling with the ideal denoiser, by their definitions (theory.md 2).

SER(p) = P_p(q(x) = 0)
TER(p) = 2^{E_{x~q}[-log2 p(x) / |x|]};  at a fixed length  log2 TER(p) = (H(q) + KL(q || p)) / L in bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, bounded_mean, exactly, mean
from unmask.denoisers import Ideal
from unmask.languages import Language, LanguageLike, load
from unmask.languages.base import Tokens, as_tokens
from unmask.metrics.enumeration import MAX_LENGTH, MAX_SEQUENCES, output_distribution, sequences
from unmask.metrics.given import hidden_counts, patterns
from unmask.samplers.schedules import Fit, ScheduleLike, deltas

Nats = Callable[[Tensor, int, int], Estimate]  # E_{x~q(.|c)}[-log p(x | c)] of a prompt, its number, their count


def ter_autoregressive(language: LanguageLike, length: int, given: Tokens | None = None) -> Estimate:
    """TER of exact autoregression, equal to the language's own: 2^(H(q)/L); exact if the entropy is.

    given: tokens (L) with V where hidden, or prompts (K, L): then 2^(E_c H(X | c) / hidden), the mean over the prompts.
    """
    language = load(language)
    _fixed(language)
    if given is None:
        return language.entropy(length).map(lambda nats: 2 ** (nats / length / math.log(2)))

    def nats(prompt: Tensor, number: int, prompts: int) -> Estimate:
        return language.entropy(length, given=prompt, rows=max(2, 2000 // prompts), seed=number)

    return _over_prompts(language, length, given, nats)


def ter(
    language: LanguageLike,
    length: int,
    schedule: ScheduleLike = "linear",
    steps: int | None = None,
    given: Tokens | None = None,
) -> Estimate:
    """TER of ancestral sampling with the ideal denoiser: for closed forms at any length, for others if tiny.

    given: tokens (L) with V where hidden, or prompts (K, L), for the mean over them: if sequences can be enumerated.
    """
    language = load(language)
    _fixed(language)
    language.check_length(length)
    delta = deltas(schedule, steps, Fit(language, length))
    if (form := language.closed_form) is not None and given is None:
        missing = form.divergence(length, delta) / math.log(2)
        return exactly(float(2 ** ((form.bits(length) + missing) / length)))
    every = _listed(language, length, "TER", "Use ter_upper, a bound at every length, or ter_autoregressive for AR.")

    def nats(prompt: Tensor | None, *_: int) -> Estimate:
        q = language.log_prob(every, prompt).exp()
        p = output_distribution(Ideal(language), length, delta, prompt)
        return exactly(-float(torch.where(q > 0, q * p.log(), 0.0).sum()))

    if given is None:
        return nats(None).map(lambda value: 2 ** (value / length / math.log(2)))
    return _over_prompts(language, length, given, nats)


def ser(
    language: LanguageLike,
    length: int,
    schedule: ScheduleLike = "linear",
    steps: int | None = None,
    given: Tokens | None = None,
) -> Estimate:
    """SER of ancestral sampling with the ideal denoiser: for closed forms at any length, for others if tiny.

    given: tokens (L) with V where hidden, or prompts (K, L), for the mean over them: if sequences can be enumerated.
    """
    language = load(language)
    language.check_length(length)
    delta = deltas(schedule, steps, Fit(language, length))
    if (form := language.closed_form) is not None and given is None:
        return exactly(form.ser(length, delta))
    every = _listed(language, length, "SER", "Measure it with score, or use ser_upper, a bound at every length.")

    def wrong(prompt: Tensor | None) -> float:
        possible = language.log_prob(every, prompt).isfinite()
        return float(output_distribution(Ideal(language), length, delta, prompt)[~possible].sum())

    if given is None:
        return exactly(wrong(None))
    prompts = _prompts(language, given, length)
    distinct, which = prompts.unique(dim=0, return_inverse=True)
    each = torch.tensor([wrong(prompt) for prompt in distinct], dtype=torch.float64)
    return exactly(float(each[0])) if len(distinct) == 1 else bounded_mean(each[which], groups=which)


def _listed(language: Language, length: int, metric: str, advice: str) -> Tensor:
    """Every sequence; an error if there are too many."""
    if language.vocabulary**length > MAX_SEQUENCES or length > MAX_LENGTH:
        raise UnmaskError(f"no exact {metric} for {language.kind} at length {length}. {advice}")
    return sequences(language.vocabulary, length)


def _prompts(language: Language, given: Tokens, length: int) -> Tensor:
    """(K, L) from several prompts, or from one (L)."""
    given = as_tokens(given, "given tokens")
    return patterns(language, given, len(given) if given.dim() == 2 else 1, length)


def _over_prompts(language: Language, length: int, given: Tokens, nats: Nats) -> Estimate:
    """2^E_c[nats(c) / hidden] in bits over the rows of given; for one prompt as exact as nats."""
    prompts = _prompts(language, given, length)
    counts = hidden_counts(language, prompts)
    distinct, which = prompts.unique(dim=0, return_inverse=True)
    if len(distinct) == 1:
        return nats(distinct[0], 0, 1).map(lambda value: 2 ** (value / int(counts[0]) / math.log(2)))
    each = [nats(prompt, number, len(distinct)).value for number, prompt in enumerate(distinct)]
    values = torch.tensor(each, dtype=torch.float64)
    bits = values[which] / counts / math.log(2)
    return mean(bits, groups=which).map(lambda value: 2**value)


def _fixed(language: Language) -> None:
    if language.end is not None:
        problem = f"{language.kind} varies in length, so E[-log p / |x|] has no closed form"
        raise UnmaskError(f"{problem}; expected a fixed length. Use ter_upper.")
