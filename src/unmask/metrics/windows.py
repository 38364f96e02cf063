"""Statistics of short windows of tokens, compared with the language's distribution; and the variety of sequences."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.estimates import LEVEL, Estimate, quantile
from unmask.core.means import mean
from unmask.languages import LanguageLike, load
from unmask.languages.base import as_tokens, codes

GROUPS = 20  # of rows, for the jackknife interval
MAX_WINDOWS = 2**20
FLOOR_SEED = 2**62 + 1  # of the sequences drawn from the language, used for nothing else


@dataclass(frozen=True)
class Bigrams:
    """Diversity and distance of pairs of neighbours.

    H(X_2 | X_1) in bits is below the language's for repetitive samples. The floor is the distance of the same number
    of sequences drawn from the language itself; it is not zero."""

    entropy_bits: float
    entropy_bits_of_language: float
    total_variation: Estimate
    total_variation_floor: float


def bigrams(tokens: Tensor, language: LanguageLike, given: Tensor | None = None) -> Bigrams | None:
    """Compare pairs of tokens (B, L) with the language; None if the vocabulary is too large or sequences too short.

    With given tokens (B, L), V where hidden, only pairs with a hidden token count. The language's distribution is then
    estimated from sequences that it draws from the same prompts; the floor uses a second set of them.
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
        count = partial(window_counts, vocabulary=language.vocabulary, size=2, groups=min(GROUPS, rows), where=where)
        counts, other, perfect = map(count, (tokens, again, drawn))
        distribution = perfect.sum(0) / perfect.sum()
        return Bigrams(
            conditional_entropy_bits(counts.sum(0), language.vocabulary),
            conditional_entropy_bits(distribution, language.vocabulary),
            _distance(counts, distribution, rows),
            _distance(other, distribution, rows).value,
        )

    return Bigrams(
        conditional_entropy_bits(window_counts(tokens, language.vocabulary, 2)[0], language.vocabulary),
        conditional_entropy_bits(language.window_distribution(2, length), language.vocabulary),
        total_variation(tokens, language),
        total_variation(drawn, language).value,
    )


def window_counts(tokens: Tensor, vocabulary: int, size: int, groups: int = 1, where: Tensor | None = None) -> Tensor:
    """(groups, V^size): count of each window of consecutive tokens, in equal parts of the rows (B, L).

    where: Bool (B, L - size + 1), the first positions of the windows to count. (default: all)
    """
    arguments.whole("size", size, 1, as_tokens(tokens).shape[-1])
    every = codes(as_tokens(tokens), vocabulary, size)
    if where is None:
        where = torch.ones_like(every, dtype=torch.bool)

    parts = zip(every.tensor_split(groups), where.tensor_split(groups), strict=True)
    return torch.stack([torch.bincount(part[mask], minlength=vocabulary**size) for part, mask in parts]).double()


def total_variation(tokens: Tensor, language: LanguageLike, size: int = 2) -> Estimate:
    """Half the L1 distance between the window distributions of samples and language, averaged over positions.

    The interval is a jackknife over groups of rows. Even perfect samples have a distance above zero, which falls with
    the root of the number of rows: compare with the same number of rows drawn from the language.
    """
    language = load(language)
    tokens = language.check_tokens(tokens)
    counts = window_counts(tokens, language.vocabulary, size, min(GROUPS, len(tokens)))
    return _distance(counts, language.window_distribution(size, tokens.shape[1]), len(tokens))


def _distance(counts: Tensor, distribution: Tensor, rows: int) -> Estimate:
    distance = (counts.sum(0) / counts.sum() - distribution).abs().sum() / 2
    groups = len(counts)
    without = counts.sum(0) - counts
    rest = (without / without.sum(1, keepdim=True) - distribution).abs().sum(1) / 2
    half = math.inf
    if groups > 1:
        half = quantile() * math.sqrt((groups - 1) / groups * float(((rest - rest.mean()) ** 2).sum()))
    value = float(distance)
    return Estimate(value, max(value - half, 0.0), value + half, rows, LEVEL, "jackknife")


def conditional_entropy_bits(distribution: Tensor, vocabulary: int) -> float:
    """H(X_2 | X_1) in bits of a distribution (V^2) of pairs."""
    pairs = distribution.view(vocabulary, vocabulary) / distribution.sum()
    return float((torch.xlogy(pairs.sum(1), pairs.sum(1)).sum() - torch.xlogy(pairs, pairs).sum()) / math.log(2))


@dataclass(frozen=True)
class Variety:
    distinct: int
    entropy: float  # nats, of the tokens at a position among the sequences, the mean over positions
    identity: Estimate  # fraction of equal tokens of two sequences, the mean over pairs
    closest: float  # the largest of these fractions


def variety(tokens: Tensor, counted: Tensor) -> Variety:
    """The variety of rows (n, L), of their tokens at counted positions, Bool (n, L).

    Entropies depend on n: compare equal numbers of rows."""
    tokens = torch.where(counted, tokens, -1)
    entropies = [0.0]
    for column in tokens.T[counted.any(0)]:
        p = column[column >= 0].unique(return_counts=True)[1].double()
        entropies.append(float(torch.special.entr(p / p.sum()).sum()))

    rows = zip(tokens, counted, strict=True)
    same = torch.stack(
        [((tokens == row) & there).sum(1) / (counted & there).sum(1).clamp(min=1) for row, there in rows]
    )

    each = (same.sum(1) - same.diagonal()).double() / max(len(tokens) - 1, 1)
    identity = mean(2 * each - each.mean())  # a mean over pairs varies as a mean of twice the deviations of rows
    closest = float(same.fill_diagonal_(0).max())
    return Variety(len(tokens.unique(dim=0)), sum(entropies) / max(len(entropies) - 1, 1), identity, closest)
