"""Statistics of rows, whose means over rows distinguish distributions, and the noise of these means.

Neighbouring windows of a row are dependent, so a chi-square test over windows would raise false alarms. Rows are
independent. So every statistic is one number per row, and all tests are over rows. Below are p-values of counts:
scipy's tests, with rare cells pooled until the expected count of each is at least five.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from scipy import stats
from torch import Tensor

from unmask.languages import Language
from unmask.languages.base import codes

MAX_WINDOWS = 4096  # largest V^size of windows with a table of probabilities
LONGEST = 4
CELLS = 64  # largest number of cells into which pairs are pooled, by probability
EXPECTED = 50  # smallest expected count in the samples: below, a mean is not normal enough for the alarm rates
PARTS = 16  # largest number of parts into which steps and positions are pooled
ROUNDING = 1e-9  # of floats; smaller variations count as constant
NEGLIGIBLE = 1e-6  # fraction of the largest eigenvalue of a correlation; below it a statistic is a sum of others
BITS = 12  # classes of surprise: 0 to 1 bit, 1 to 2, ..., 12 and more, impossible


class Statistics:
    """Rows (B, L) -> (B, D): pairs, surprise, repetition and validity.

    The surprise of a token is -log2 q(x_j | a few earlier tokens), from the probabilities of short windows. Its classes
    show tails that are cut off or too heavy (precision, temperature), the last class impossible windows, its square per
    row the variation among rows. Repetitions of a token show noise that positions share.

    With steps (B, L) also: number and surprise of the tokens of each step, early positions, and neighbours that are
    revealed together.
    """

    def __init__(self, language: Language, reference: Tensor, rows: int, steps: int = 1) -> None:
        length, vocabulary = reference.shape[1], language.vocabulary
        self.language, self.steps = language, steps
        self.size = max(s for s in range(1, LONGEST + 1) if s == 1 or (vocabulary**s <= MAX_WINDOWS and s <= length))
        distribution = language.window_distribution(self.size, length).view(-1, vocabulary)
        self.bits = -(distribution / distribution.sum(1, keepdim=True)).nan_to_num(0.0).log2().view(-1)
        self.pair_size = min(2, self.size)
        # from the language: cells of rare pairs in the order of the reference would always have fewer in the samples
        share = distribution.view(vocabulary**self.pair_size, -1).sum(1)
        cells = max(1, min(CELLS, rows * length // EXPECTED))
        by_share = share.argsort(descending=True, stable=True)
        before = share[by_share].cumsum(0) - share[by_share]
        self.cells = torch.empty_like(by_share)
        self.cells[by_share] = (before / share.sum() * cells).long().clamp(max=cells - 1)
        self.typical = float(self.surprise(reference)[0].sum(1).mean())

    def surprise(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """(bits, impossible) of each window, (B, L-size+1): 0 bits if it is impossible."""
        bits = self.bits[codes(tokens, self.language.vocabulary, self.size)]
        impossible = torch.isinf(bits)
        return torch.where(impossible, 0.0, bits), impossible

    def __call__(self, tokens: Tensor, order: Tensor | None = None, surprise: Tensor | None = None) -> Rows:
        """Statistics of tokens (B, L); order: the step of each, surprise: its -log p when it was revealed."""
        bits, impossible = self.surprise(tokens)
        classes = torch.where(impossible, BITS + 1, bits.long().clamp(max=BITS))

        pairs = self.cells[codes(tokens, self.language.vocabulary, self.pair_size)]
        whole = bits.sum(1)
        invalid = self.language.impossible(tokens)

        lags = range(1, min(5, tokens.shape[1]))
        counts = [
            histogram(pairs, int(self.cells.max()) + 1),
            histogram(classes, BITS + 2),
            *((tokens[:, lag:] == tokens[:, :-lag]).sum(1, keepdim=True) for lag in lags),
            invalid.unsqueeze(1),
        ]

        measured = [
            *(part.sum(1) for part in bits.tensor_split(min(4, bits.shape[1]), dim=1)),
            (whole - self.typical) ** 2,
            (histogram(tokens, self.language.vocabulary) ** 2).sum(1),
            (counts[0] ** 2).sum(1),
        ]
        if order is not None and surprise is not None:
            measured += self._ordered(order, surprise)

        columns = torch.cat([*counts, torch.stack(measured, 1)], 1).double()
        return Rows(tokens, columns, columns.shape[1] - len(measured), whole, invalid)

    def _ordered(self, order: Tensor, surprise: Tensor) -> list[Tensor]:
        parts = min(PARTS, self.steps)
        part = ((order - 1) * parts // self.steps).clamp(max=parts - 1)
        surprises = torch.zeros((len(order), parts), dtype=torch.float64).scatter_add_(1, part, surprise.double())
        places = order.double().tensor_split(min(PARTS, order.shape[1]), dim=1)
        together = [(order[:, lag:] == order[:, :-lag]).sum(1) for lag in range(1, 5) if lag < order.shape[1]]
        return [*histogram(part, parts).T, *surprises.T, *(steps.mean(1) for steps in places), *together]


@dataclass(frozen=True)
class Rows:
    """Rows and their statistics."""

    tokens: Tensor  # (B, L)
    columns: Tensor  # (B, D)
    counted: int  # number of leading columns that are counts; the last of them is `invalid`
    bits: Tensor  # (B): the surprise of a row
    invalid: Tensor  # (B): whether the row is impossible

    @cached_property
    def mean(self) -> Tensor:
        return self.columns.mean(0)

    @cached_property
    def scatter(self) -> Tensor:
        """(D, D): (n-1) S, computed once for the samples and for each specimen."""
        centred = self.columns - self.mean
        return centred.T @ centred

    def different(self) -> Rows:
        """Distinct rows."""
        _, which = self.tokens.unique(dim=0, return_inverse=True)
        first = torch.full((int(which.max()) + 1,), len(which)).scatter_reduce_(
            0, which, torch.arange(len(which)), "amin"
        )
        return Rows(self.tokens[first], self.columns[first], self.counted, self.bits[first], self.invalid[first])

    def __len__(self) -> int:
        return len(self.columns)


def halves(columns: Tensor) -> Tensor:
    """(2, D): the means of every other row of (B, D)."""
    return torch.stack([columns[k::2].mean(0) for k in range(2)])


class Noise:
    """Covariance of the difference of two means, without directions of zero variance.

    pooled = ((n-1) S_1 + (m-1) S_2) / (n+m-2),   Cov = pooled (1/n + 1/m)           (Hotelling)
    """

    def __init__(self, first: Rows, second: Rows, dense: bool = False) -> None:
        n, m = len(first), len(second)
        pooled = (first.scatter + second.scatter) / (n + m - 2)
        size = 1 + torch.maximum(first.mean.abs(), second.mean.abs())
        self.used = pooled.diagonal() > (ROUNDING * size) ** 2

        constant = ~self.used  # in both samples, so that any difference is a certain one
        self.apart = bool((constant & ((first.mean - second.mean).abs() > ROUNDING * size)).any())

        if dense:
            mean = (n * first.mean + m * second.mean) / (n + m)
            counted = torch.arange(len(mean)) < first.counted
            self.used &= ~counted | (n * mean >= EXPECTED)
            last = first.counted - 1  # invalid rows: rare validity is not normal either
            self.used[last] &= bool(n * (1 - mean[last]) >= EXPECTED)

        pooled = pooled[self.used][:, self.used] * (1 / n + 1 / m)
        self.scale = pooled.diagonal().sqrt()
        values, vectors = torch.linalg.eigh(pooled / self.scale / self.scale.unsqueeze(1))
        large = values > NEGLIGIBLE * values[-1:]  # the largest is the last
        self.whiten = vectors[:, large] / values[large].sqrt()
        self.degrees = int(large.sum())

    def misfit(self, difference: Tensor) -> float:
        """The squared distance of two means whose difference is (D); infinite if they certainly differ."""
        white = self.white(difference)
        return math.inf if self.apart else float(white @ white)

    def white(self, difference: Tensor) -> Tensor:
        """A difference of means (D) in coordinates (degrees) whose noise is standard normal."""
        return (difference[..., self.used] / self.scale) @ self.whiten


def histogram(codes: Tensor, size: int) -> Tensor:
    """(B, size) counts of codes (B, K)."""
    return torch.zeros((len(codes), size)).scatter_add_(1, codes, torch.ones(codes.shape))


def chi_square(value: float, degrees: int) -> float:
    """P(chi-square >= value); 0 for an infinite value, otherwise 1 without degrees of freedom."""
    if not degrees and math.isfinite(value):
        return 1.0
    return float(stats.chi2.sf(value, max(degrees, 1)))


def table(first: Tensor, second: Tensor) -> float:
    """p-value of counts (K) and (K) under one distribution: G = 2 sum O log(O / E) with K - 1 degrees of freedom."""
    counts = torch.stack([first, second])
    nonzero = counts[:, counts.sum(0) > 0]
    return float(stats.chi2_contingency(nonzero.numpy(), correction=False, lambda_="log-likelihood").pvalue)


def against_distribution(counts: Tensor, distribution: Tensor, least: float = 5.0) -> float:
    """Pearson's p-value of counts (K) under a distribution (K), rare cells pooled; 0 if an impossible cell occurred."""
    if bool((counts[distribution <= 0] > 0).any()):
        return 0.0

    n = float(counts.sum())
    order = distribution.argsort(descending=True)
    means, values = n * distribution[order].double(), counts[order].double()

    alone = int((means >= least).sum())
    pools = int(float(means[alone:].sum()) / least)  # of rare cells; a remainder too small for one joins the last cell
    pooled = (means[alone:].cumsum(0) / least).long().clamp(max=pools - 1) + alone
    groups = torch.cat([torch.arange(alone), pooled]).clamp(min=0)
    size = int(groups.max()) + 1

    expected = torch.zeros(size).double().scatter_add_(0, groups, means)
    observed = torch.zeros(size).double().scatter_add_(0, groups, values)
    if size == 1:
        return 1.0
    expected *= n / expected.sum()  # equal except for rounding
    return float(stats.chisquare(observed.numpy(), expected.numpy()).pvalue)


def shares(successes: int, n: int, others: int, m: int) -> float:
    """Fisher's exact test, two-sided: successes of n against others of m."""
    return float(stats.fisher_exact([[successes, n - successes], [others, m - others]]).pvalue)


def at_least(k: int, n: int, p: float) -> float:
    """P(Binomial(n, p) >= k)."""
    return float(stats.binom.sf(k - 1, n, p))
