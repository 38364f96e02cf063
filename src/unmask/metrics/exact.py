"""Exact SER and TER of ancestral sampling with the ideal denoiser, by their definitions (theory.md 2).

SER(p) = P_p(q(x) = 0)
TER(p) = 2^{E_{x~q}[-log2 p(x) / |x|]};  at a fixed length  log2 TER(p) = (H(q) + KL(q || p)) / L in bits.

The output distribution of tiny languages, by enumeration: before step k the mass of a sequence is spread over the sets
R of revealed positions. With rho_k = delta_k / (1-p_k),
    A_{k+1}(R', x) = sum_{R in R'} A_k(R, x) rho_k^|R' - R| (1 - rho_k)^(L - |R'|) prod_{j in R' - R} p(x_j | x_R),
and p(x) is the mass at the full set.
"""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, exactly
from unmask.core.means import mean
from unmask.denoisers import Denoiser, Ideal
from unmask.denoisers.denoiser import checked
from unmask.languages import Language, LanguageLike, load
from unmask.languages.base import Tokens, as_tokens
from unmask.metrics.rows import patterns
from unmask.samplers.schedules import Fit, Schedule, ScheduleLike, as_delta, deltas

MAX_SEQUENCES = 20_000
MAX_LENGTH = 6
AT_ONCE = 2**15  # numbers that are moved together: at most the size of a cache


def sequences(vocabulary: int, length: int) -> Tensor:
    """All V^L sequences, in lexicographic order."""
    arguments.whole("vocabulary", vocabulary)
    arguments.length(length)
    if length > MAX_LENGTH or vocabulary**length > MAX_SEQUENCES:
        raise UnmaskError(
            f"there are {vocabulary**length:,} sequences of length {length}",
            f"expected at most {MAX_SEQUENCES:,}, and a length up to {MAX_LENGTH}",
            "Use ter_upper and a sampled SER.",
        )
    return torch.tensor(list(itertools.product(range(vocabulary), repeat=length)))


def output_distribution(denoiser: Denoiser, length: int, delta: Tensor, given: Tensor | None = None) -> Tensor:
    """p(x) of ancestral sampling for every x of `sequences`, float64 (V^L); p(x | c) where tokens (L) are given."""
    delta = as_delta(delta)
    every = sequences(checked(denoiser).vocabulary, length)
    sets = [torch.tensor(bits, dtype=torch.bool) for bits in itertools.product([False, True], repeat=length)]

    # given tokens are revealed from the start
    if given is None:
        given = torch.full((length,), denoiser.vocabulary)
    shown = given != denoiser.vocabulary

    fits = {}  # probability of each token of x given the revealed set: (V^L, L)
    for number, revealed in enumerate(sets[:-1]):
        context = torch.where(revealed, every, denoiser.vocabulary)
        distinct, which = context.unique(dim=0, return_inverse=True)
        prompts = torch.where(shown, distinct, denoiser.vocabulary)
        marginals = denoiser.probabilities(distinct, given=prompts)
        fits[number] = marginals[which.unsqueeze(1), torch.arange(length), every]

    moves = []  # (from, to, number revealed, number that stays hidden)
    for start, revealed in enumerate(sets[:-1]):
        for end, larger in enumerate(sets):
            if bool((larger | ~revealed).all()):
                moves.append((start, end, int((larger & ~revealed).sum()), length - int(larger.sum())))

    factors = torch.stack([fits[start][:, sets[end] & ~sets[start]].prod(1) for start, end, *_ in moves])
    at_once = max(AT_ONCE // len(every), 1)
    some = list(zip(torch.tensor(moves).split(at_once), factors.split(at_once), strict=True))

    mass = torch.zeros((len(sets), len(every)), dtype=torch.float64)
    begins = next(number for number, revealed in enumerate(sets) if torch.equal(revealed, shown))
    mass[begins] += (~shown | (every == given)).all(1)

    for rho in Schedule(delta).rho.tolist():
        goes = torch.tensor([rho**n for n in range(length + 1)], dtype=torch.float64)
        waits = torch.tensor([(1 - rho) ** n for n in range(length + 1)], dtype=torch.float64)

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

    given = as_tokens(given, "given tokens")
    prompts = patterns(language, given, len(torch.atleast_2d(given)), length)
    counts = hidden_counts(language, prompts)
    distinct, which = prompts.unique(dim=0, return_inverse=True)
    rows = max(2, 2000 // len(distinct))
    nats = [language.entropy(length, given=prompt, rows=rows, seed=n) for n, prompt in enumerate(distinct)]
    if len(distinct) == 1:
        return nats[0].map(lambda value: 2 ** (value / int(counts[0]) / math.log(2)))

    values = torch.tensor([one.value for one in nats], dtype=torch.float64)
    return mean(values[which] / counts / math.log(2), groups=which).map(lambda value: 2**value)


def ter(language: LanguageLike, length: int, schedule: ScheduleLike = "linear", steps: int | None = None) -> Estimate:
    """TER of ancestral sampling with the ideal denoiser: for closed forms at any length, for others if tiny."""
    language = load(language)
    _fixed(language)
    delta = _delta(language, length, schedule, steps)
    if (form := language.closed_form) is not None:
        nats = form.divergence(length, delta) + form.bits(length) * math.log(2)
    else:
        every = _listed(language, length, "TER", "Use ter_upper, a bound at every length; for AR ter_autoregressive.")
        q = language.log_prob(every).exp()
        p = output_distribution(Ideal(language), length, delta)
        nats = -float(torch.where(q > 0, q * p.log(), 0.0).sum())
    return exactly(2 ** (nats / length / math.log(2)))


def ser(language: LanguageLike, length: int, schedule: ScheduleLike = "linear", steps: int | None = None) -> Estimate:
    """SER of ancestral sampling with the ideal denoiser: for closed forms at any length, for others if tiny."""
    language = load(language)
    delta = _delta(language, length, schedule, steps)
    if (form := language.closed_form) is not None:
        return exactly(form.ser(length, delta))
    every = _listed(language, length, "SER", "Measure it with score, or use ser_upper, a bound at every length.")
    p = output_distribution(Ideal(language), length, delta)
    return exactly(float(p[~language.supports(every)].sum()))


def _delta(language: Language, length: int, schedule: ScheduleLike, steps: int | None) -> Tensor:
    language.check_length(length)
    return deltas(schedule, steps, Fit(language, length))


def _listed(language: Language, length: int, metric: str, advice: str) -> Tensor:
    """Every sequence; an error if there are too many."""
    if language.vocabulary**length > MAX_SEQUENCES or length > MAX_LENGTH:
        raise UnmaskError(f"no exact {metric} for {language.kind} at length {length}. {advice}")
    return sequences(language.vocabulary, length)


def _fixed(language: Language) -> None:
    if language.end is not None:
        raise UnmaskError(
            f"{language.kind} varies in length, so E[-log p / |x|] has no closed form",
            "expected a fixed length",
            "Use ter_upper.",
        )


def hidden_counts(language: Language, given: Tensor) -> Tensor:
    """(rows): number of hidden positions, at least one."""
    counts = (given == language.vocabulary).sum(1)
    if bool((counts == 0).any()):
        row = int((counts == 0).int().argmax())
        raise UnmaskError(f"given row {row} has no hidden position; expected at least one token to predict")
    return counts
