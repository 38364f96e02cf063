"""SER and TER of ancestral sampling with the ideal denoiser, by their definitions, where they are exact (theory.md 2).

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
from unmask.ideal import Ideal
from unmask.languages import Language, LanguageLike, load
from unmask.languages.base import Tokens, as_tokens
from unmask.metrics.enumeration import MAX_LENGTH, MAX_SEQUENCES, output_law, sequences
from unmask.metrics.given import hidden_counts, patterns
from unmask.schedules import Fit, ScheduleLike, deltas

Nats = Callable[[Tensor, int, int], Estimate]  # E_{x~q(.|c)}[-log p(x | c)] of a prompt, number k of so many


def ter_autoregressive(language: LanguageLike, length: int, given: Tokens | None = None) -> Estimate:
    """TER of exact autoregression, which is the language's own: 2^(H(q)/L); exact where the entropy is.

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
    """TER of ancestral sampling with the ideal denoiser: at any length of a closed form, of others if tiny.

    given: tokens (L) with V where hidden, or prompts (K, L), whose mean it is: where sequences can be listed.
    """
    language = load(language)
    _fixed(language)
    language.check_length(length)
    delta = deltas(schedule, steps, Fit(language, length))
    if (form := language.closed_form) is not None and given is None:
        missing = form.divergence(length, delta) / math.log(2)
        return exactly(float(2 ** ((form.bits(length) + missing) / length)))
    every = _listed(language, length, "TER", "ter_upper bounds it at every length, ter_autoregressive is exact for AR")

    def nats(prompt: Tensor | None, *_: int) -> Estimate:
        q = language.log_prob(every, prompt).exp()
        p = output_law(Ideal(language), length, delta, prompt)
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
    """SER of ancestral sampling with the ideal denoiser: at any length of a closed form, of others if tiny.

    given: tokens (L) with V where hidden, or prompts (K, L), whose mean it is: where sequences can be listed.
    """
    language = load(language)
    language.check_length(length)
    delta = deltas(schedule, steps, Fit(language, length))
    if (form := language.closed_form) is not None and given is None:
        return exactly(form.ser(length, delta))
    every = _listed(language, length, "SER", "score measures it, and ser_upper bounds it at every length")

    def wrong(prompt: Tensor | None) -> float:
        possible = language.log_prob(every, prompt).isfinite()
        return float(output_law(Ideal(language), length, delta, prompt)[~possible].sum())

    if given is None:
        return exactly(wrong(None))
    prompts = _prompts(language, given, length)
    distinct, which = prompts.unique(dim=0, return_inverse=True)
    each = torch.tensor([wrong(prompt) for prompt in distinct], dtype=torch.float64)
    return exactly(float(each[0])) if len(distinct) == 1 else bounded_mean(each[which], groups=which)


def _listed(language: Language, length: int, what: str, nearest: str) -> Tensor:
    """Every sequence, where there are few enough."""
    if language.vocabulary**length > MAX_SEQUENCES or length > MAX_LENGTH:
        raise UnmaskError(f"no exact {what} for {language.kind} at length {length}; {nearest}")
    return sequences(language.vocabulary, length)


def _prompts(language: Language, given: Tokens, length: int) -> Tensor:
    """(K, L) of several, or of one as (L)."""
    given = as_tokens(given, "given tokens")
    return patterns(language, given, len(given) if given.dim() == 2 else 1, length)


def _over_prompts(language: Language, length: int, given: Tokens, nats: Nats) -> Estimate:
    """2^E_c[nats(c) / hidden] in bits over the rows of given; of one prompt it is as exact as nats are."""
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
        raise UnmaskError(f"{language.kind} varies in length: E[-log p / |x|] has no closed form; use ter_upper")
