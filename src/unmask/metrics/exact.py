"""Exact SER and TER of ancestral sampling with the ideal denoiser, by their definitions (theory.md 2).

SER(p) = P_p(q(x) = 0)
TER(p) = 2^{E_{x~q}[-log2 p(x) / |x|]};  at a fixed length  log2 TER(p) = (H(q) + KL(q || p)) / L in bits.

Given tokens c, SER = E_c[1 - p(L_q(c) | c)] with L_q(c) = {x: q(x|c) > 0}, and TER has E_c E_{x~q(.|c)}[-log2 p(x|c)].

The output distribution of tiny languages, by enumeration: before step k the mass of a sequence is spread over the sets
R of revealed positions. With rho_k = delta_k / (1-p_k),
    A_{k+1}(R', x) = sum_{R in R'} A_k(R, x) rho_k^|R' - R| (1 - rho_k)^(L - |R'|) prod_{j in R' - R} p(x_j | x_R),
and p(x) is the mass at the full set.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, bounded_mean, exactly, mean
from unmask.denoisers import Denoiser, Ideal
from unmask.denoisers.denoiser import checked
from unmask.languages import Language, LanguageLike, load
from unmask.languages.base import Tokens, as_tokens
from unmask.metrics.rows import patterns
from unmask.samplers.schedules import Fit, Schedule, ScheduleLike, as_delta, deltas

MAX_SEQUENCES = 20_000
MAX_LENGTH = 6
AT_ONCE = 2**15  # numbers that are moved together: at most the size of a cache
Nats = Callable[[Tensor, int, int], Estimate]  # E_{x~q(.|c)}[-log p(x | c)] of a prompt, its number, their count


def sequences(vocabulary: int, length: int) -> Tensor:
    """All V^L sequences, in lexicographic order."""
    arguments.whole("vocabulary", vocabulary)
    arguments.length(length)
    if length > MAX_LENGTH or vocabulary**length > MAX_SEQUENCES:
        size = f"{vocabulary**length:,} sequences of length {length}"
        limit = f"{MAX_SEQUENCES:,}, and a length up to {MAX_LENGTH}"
        raise UnmaskError(f"there are {size}; expected at most {limit}. Use ter_upper and a sampled SER.")
    return torch.tensor(list(itertools.product(range(vocabulary), repeat=length)))


def output_distribution(denoiser: Denoiser, length: int, delta: Tensor, given: Tensor | None = None) -> Tensor:
    """p(x) of ancestral sampling for every x of `sequences`, float64 (V^L); p(x | c) where tokens (L) are given."""
    every, delta = sequences(checked(denoiser).vocabulary, length), as_delta(delta)
    sets = [torch.tensor(bits, dtype=torch.bool) for bits in itertools.product([False, True], repeat=length)]
    fits = {}  # probability of each token of x given the revealed set: (V^L, L)
    for number, revealed in enumerate(sets[:-1]):
        context = torch.where(revealed, every, denoiser.vocabulary)
        distinct, which = context.unique(dim=0, return_inverse=True)
        marginals = denoiser.probabilities(distinct)
        fits[number] = marginals[which.unsqueeze(1), torch.arange(length), every]
    moves = [  # (from, to, number revealed, number that stays hidden)
        (start, end, int((larger & ~revealed).sum()), length - int(larger.sum()))
        for start, revealed in enumerate(sets[:-1])
        for end, larger in enumerate(sets)
        if bool((larger | ~revealed).all())
    ]
    factors = torch.stack([fits[start][:, sets[end] & ~sets[start]].prod(1) for start, end, *_ in moves])
    at_once = max(AT_ONCE // len(every), 1)
    some = list(zip(torch.tensor(moves).split(at_once), factors.split(at_once), strict=True))
    mass = torch.zeros((len(sets), len(every)), dtype=torch.float64)
    shown = torch.zeros(length, dtype=torch.bool) if given is None else given != denoiser.vocabulary
    agrees = torch.ones(len(every), dtype=torch.bool) if given is None else (~shown | (every == given)).all(1)
    mass[next(number for number, revealed in enumerate(sets) if torch.equal(revealed, shown))] += agrees
    for rho in Schedule(delta).rho.tolist():
        goes, waits = (torch.tensor([p**n for n in range(length + 1)], dtype=torch.float64) for p in (rho, 1 - rho))
        new = torch.zeros_like(mass)
        new[-1] = mass[-1]
        for part, factor in some:
            starts, ends, counts, stays = part.unbind(1)
            moved = mass[starts] * goes[counts].unsqueeze(1) * waits[stays].unsqueeze(1) * factor
            new.index_add_(0, ends, moved)
        mass = new
    return mass[-1]


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


def hidden_counts(language: Language, given: Tensor) -> Tensor:
    """(rows): number of hidden positions, at least one."""
    counts = (given == language.vocabulary).sum(1)
    if bool((counts == 0).any()):
        row = int((counts == 0).int().argmax())
        raise UnmaskError(f"given row {row} has no hidden position; expected at least one token to predict")
    return counts
