"""Test cases for samplers: small languages of every kind, and denoisers with errors, with time, without a cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from unmask.core.chance import Stream, uniform
from unmask.denoisers import Cost, Denoiser, Noise, Perturbed, UniformIdeal, as_denoiser
from unmask.languages import Brackets, Interval, Language, random_ngram, sparse_hmm


@dataclass(frozen=True)
class Case:
    name: str
    language: Language  # source of given tokens
    denoiser: Denoiser
    length: int


class Timed(Denoiser):
    """p_t(v) ~ q(v | x_R)^(1+t) in float32: neither time-free nor a language, without a cache."""

    time_free = False

    def __init__(self, language: Language) -> None:
        self._distribution = language
        self.vocabulary = language.vocabulary

    def posterior(self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        power = 1.0 if time is None else 1 + time.view(-1, 1, 1)
        sharp = self._distribution.posterior(tokens, positions) ** power
        return (sharp / sharp.sum(-1, keepdim=True)).float()


class Counting(Denoiser):
    """The posterior of a language without a cache, with its own count of the cost."""

    ideal = True
    language: Language

    def __init__(self, language: Language, noise: Noise = "mask") -> None:
        self.language, self.vocabulary, self.removes = language, language.vocabulary, noise
        self.time_free = noise == "mask"
        self.counted = Cost()

    def posterior(self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        self.counted = self.counted + Cost(1, len(tokens), tokens.numel())
        if self.removes == "uniform":
            return UniformIdeal(self.language).full().posterior(tokens, positions, time)
        return self.language.posterior(tokens, positions)


@cache
def cases(noise: Noise) -> tuple[Case, ...]:
    """Test cases for samplers of this noise; none of them can refuse the first."""
    pairs = random_ngram(2, 4, threshold=0.1, seed=1)
    exact = {
        "a 2-gram": (pairs, 9),
        "a 3-gram": (random_ngram(3, 3, threshold=0.1, seed=1), 8),
        "an HMM": (sparse_hmm(8, 4, 2, seed=1), 8),
        "intervals": (Interval(3), 7),
        "brackets": (Brackets(), 8),
        "one token": (pairs, 1),
        "one token of an HMM": (sparse_hmm(8, 4, 2, seed=1), 1),
    }

    return (
        *(Case(name, language, as_denoiser(language, noise), length) for name, (language, length) in exact.items()),
        Case("a leaking 2-gram", pairs, Perturbed(as_denoiser(pairs, noise), "leak", 0.1), 6),
        Case("a timed 2-gram", pairs, Timed(pairs) if noise == "mask" else UniformIdeal(pairs).full(), 9),
    )


@cache
def tiny(noise: Noise) -> dict[str, Case]:
    """Cases whose sequences can all be enumerated."""
    pairs = random_ngram(2, 3, threshold=0.15, seed=2)
    hidden = sparse_hmm(6, 3, 2, seed=3)
    return {
        "2-gram": Case("a tiny 2-gram", pairs, as_denoiser(pairs, noise), 4),
        "leak": Case("a tiny leaking 2-gram", pairs, Perturbed(as_denoiser(pairs, noise), "leak", 0.1), 4),
        "hmm": Case("a tiny HMM", hidden, as_denoiser(hidden, noise), 4),
        "interval": Case("one interval", Interval(3), as_denoiser(Interval(3), noise), 4),
    }


def patterns(case: Case, rows: int = 8) -> Iterator[tuple[str, Tensor]]:
    """(name, tokens (rows, L) with V where hidden): from no given token in the first row to all in the last."""
    drawn = case.language.sample(rows, case.length, seed=7)
    positions = torch.arange(case.length)
    fraction = torch.linspace(0, 1, rows, dtype=torch.float64).unsqueeze(1)
    sizes = torch.round(fraction * case.length).long()
    scattered = uniform(7, Stream.ORDER, torch.arange(rows).unsqueeze(1), positions) < fraction

    for name, shown in (
        ("prefixes", positions < sizes),
        ("suffixes", positions >= case.length - sizes),
        ("scattered tokens", scattered),
        ("all tokens but one", positions != (torch.arange(rows) % case.length).unsqueeze(1)),
        ("all tokens", torch.ones_like(scattered)),
    ):
        yield name, torch.where(shown, drawn, case.language.vocabulary)
