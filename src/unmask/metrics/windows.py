"""Statistics of short windows: what a sampler's output looks like from near, against the language's own law."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.estimates import LEVEL, Estimate, quantile
from unmask.languages import LanguageLike, load
from unmask.languages.base import as_tokens

GROUPS = 20  # of rows, left out one at a time for an interval
MAX_WINDOWS = 2**20
FLOOR_SEED = 2**62 + 1  # of the rows that say what perfect samples look like: nobody else's


@dataclass(frozen=True)
class Bigrams:
    """Diversity and distance of pairs of neighbours. H(X_2 | X_1) in bits falls below the language's where a sampler
    repeats itself; the floor is the distance of as many rows drawn from the language itself, which is not zero."""

    entropy_bits: float
    entropy_bits_of_language: float
    total_variation: Estimate
    total_variation_floor: float


def bigrams(tokens: Tensor, language: LanguageLike, given: Tensor | None = None) -> Bigrams | None:
    """None where the vocabulary is too large, or the sequences too short, for a law of pairs.

    Where tokens (B, L) are given, V where hidden, pairs with a hidden token are counted, and what stands for the law of
    the language are rows that it draws itself from the same prompts; the floor are others of them.
    """
    language = load(language)
    tokens = language.check_tokens(tokens)
    rows, length = tokens.shape
    if language.vocabulary**2 > MAX_WINDOWS or length < 2:
        return None
    drawn = language.sample(rows, length, seed=FLOOR_SEED, given=given)
    if given is not None:
        where = (given == language.vocabulary).unfold(1, 2, 1).any(2)
        if not bool(where.any()):
            return None
        again = language.sample(rows, length, seed=FLOOR_SEED + 1, given=given)
        counts, other, perfect = (
            window_counts(x, language.vocabulary, 2, min(GROUPS, rows), where) for x in (tokens, again, drawn)
        )
        law = perfect.sum(0) / perfect.sum()
        return Bigrams(
            conditional_entropy_bits(counts.sum(0), language.vocabulary),
            conditional_entropy_bits(law, language.vocabulary),
            _distance(counts, law, rows),
            _distance(other, law, rows).value,
        )
    return Bigrams(
        conditional_entropy_bits(window_counts(tokens, language.vocabulary, 2)[0], language.vocabulary),
        conditional_entropy_bits(language.window_law(2, length), language.vocabulary),
        total_variation(tokens, language),
        total_variation(drawn, language).value,
    )


def window_counts(tokens: Tensor, vocabulary: int, size: int, groups: int = 1, where: Tensor | None = None) -> Tensor:
    """(groups, V^size): how often each window of consecutive tokens occurs in equal parts of the rows (B, L).

    Of the windows that begin at places Bool (B, L - size + 1), all of them by default.
    """
    arguments.whole("size", size, 1, as_tokens(tokens).shape[-1])
    codes = as_tokens(tokens).unfold(1, size, 1) @ (vocabulary ** torch.arange(size - 1, -1, -1))
    kept = torch.ones_like(codes, dtype=torch.bool) if where is None else where
    parts = zip(codes.tensor_split(groups), kept.tensor_split(groups), strict=True)
    return torch.stack([torch.bincount(part[asked], minlength=vocabulary**size) for part, asked in parts]).double()


def total_variation(tokens: Tensor, language: LanguageLike, size: int = 2) -> Estimate:
    """Half the L1 distance between the windows of the samples and the language's own, averaged over positions.

    The interval is a jackknife over groups of rows. Even perfect samples have a distance above zero, which falls with
    the root of the number of rows: compare with that of as many rows drawn from the language.
    """
    language = load(language)
    tokens = language.check_tokens(tokens)
    counts = window_counts(tokens, language.vocabulary, size, min(GROUPS, len(tokens)))
    return _distance(counts, language.window_law(size, tokens.shape[1]), len(tokens))


def _distance(counts: Tensor, law: Tensor, rows: int) -> Estimate:
    distance = (counts.sum(0) / counts.sum() - law).abs().sum() / 2
    groups = len(counts)
    without = counts.sum(0) - counts
    others = (without / without.sum(1, keepdim=True) - law).abs().sum(1) / 2
    half = math.inf
    if groups > 1:
        half = quantile() * math.sqrt((groups - 1) / groups * float(((others - others.mean()) ** 2).sum()))
    value = float(distance)
    return Estimate(value, max(value - half, 0.0), value + half, rows, LEVEL, "jackknife")


def conditional_entropy_bits(law: Tensor, vocabulary: int) -> float:
    """H(X_2 | X_1) in bits of a law (V^2) of pairs: the diversity of samples, by counting."""
    pairs = law.view(vocabulary, vocabulary) / law.sum()
    return float((torch.xlogy(pairs.sum(1), pairs.sum(1)).sum() - torch.xlogy(pairs, pairs).sum()) / math.log(2))
