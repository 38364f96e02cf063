"""Tiny languages of any kind: every schedule, from one pass over ordered set partitions (theory.md 7.7).

Only the non-empty steps of an order matter, an ordered set partition B_1, .., B_r of the positions, under which
    p(x | B) = prod_k prod_{j in B_k} q(x_j | x_{B_1 + .. + B_{k-1}}).
Only the sizes of the blocks depend on the schedule, so partitions with equal sizes are summed first:
    p(x) = sum over sizes s of  [ sum_{i_1 < .. < i_r} prod_k delta_{i_k}^{s_k} ] [ sum over B of sizes s of p(x | B) ]
Only sequences possible under q are used: their contexts are possible too, so no convention is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.languages import Language, LanguageLike, load
from unmask.languages.kernels.machine import Floats, Ints
from unmask.metrics.exact import MAX_LENGTH, MAX_SEQUENCES, sequences
from unmask.theory.curves import ErrorCurve, InformationCurve

METHOD = "enumeration"
ROUNDING = 1e-13  # of a sum of products
Sizes = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Partitions:
    """q and the sums over partitions, for the K possible sequences of a language."""

    strings: Ints  # (K, L)
    q: Floats  # (K)
    tokens: Ints  # (K): |x|
    shown: Floats  # (2^L, K): q(x_R) of each sequence; bit j of R is position j
    blocks: dict[Sizes, Floats]  # sizes -> (K): sum over the partitions of these sizes of p(x | B)

    def __repr__(self) -> str:
        return f"<Partitions of {len(self.strings)} sequences of {self.length} tokens>"

    @property
    def length(self) -> int:
        return self.strings.shape[1]

    def distribution(self, delta: Tensor) -> Floats:
        """(K) p(x) of ancestral sampling."""
        return sum((_chances(delta, sizes) * mass for sizes, mass in self.blocks.items()), np.zeros(len(self.q)))

    def of_order(self, order: Floats) -> Floats:
        """(K) p_order(x) = prod_j q(x_j | x of earlier steps)."""
        distribution = np.ones(len(self.q))
        for j, step in enumerate(order):
            earlier = sum(1 << i for i, other in enumerate(order) if other < step)
            distribution = distribution * self.shown[earlier | 1 << j] / self.shown[earlier]
        return distribution

    def ser(self, delta: Tensor) -> float:
        """SER, with full precision where it is small: the sum of losses, not a difference from 1."""
        return sum(_chances(delta, sizes) * lost for sizes, lost in self.lost.items())

    @cached_property
    def lost(self) -> dict[Sizes, float]:
        """sizes -> the mass on impossible sequences of the partitions of these sizes: zero if all sizes are 1."""
        every = {sizes: math.factorial(self.length) / math.prod(map(math.factorial, sizes)) for sizes in self.blocks}
        mass = {sizes: every[sizes] - math.fsum(mass) for sizes, mass in self.blocks.items()}
        return {sizes: lost if lost > ROUNDING * every[sizes] else 0.0 for sizes, lost in mass.items()}

    def divergence(self, delta: Tensor) -> float:
        """KL(q || p) in nats."""
        return float(self.q @ np.log(self.q / self.distribution(delta)))

    def ter_bits(self, delta: Tensor) -> float:
        """log2 TER = E_q[-log2 p(x) / |x|], also for sequences of varying length."""
        return float(-(self.q / self.tokens) @ np.log2(self.distribution(delta)))

    def entropy_bits(self) -> float:
        """log2 of the TER of q itself: E_q[-log2 q(x) / |x|]."""
        return float(-(self.q / self.tokens) @ np.log2(self.q))

    def generative_nll_bits(self, delta: Tensor) -> float:
        """E_p[-log2 q(x) / |x|] over valid sequences: the logarithm of the generative perplexity."""
        p = self.distribution(delta)
        return float(-(p / self.tokens) @ np.log2(self.q) / p.sum())

    def information_curve(self) -> InformationCurve:
        """f(k) = the mean of H(X_j | X_R) = sum_x q(x) log (q(x_R) / q(x_R, x_j)) over j and |R| = k."""
        f, count = np.zeros((2, self.length))
        for revealed in range(len(self.shown)):
            for j in range(self.length):
                if not revealed >> j & 1:
                    k = revealed.bit_count()
                    f[k] += self.q @ np.log(self.shown[revealed] / self.shown[revealed | 1 << j])
                    count[k] += 1
        return InformationCurve(f / count, METHOD)

    def error_curve(self) -> ErrorCurve:
        """g(k): drawn independently, x_i and x_j agree with probability sum q(x_i | x_R) q(x_j | x_R)."""
        g, count = np.zeros((2, self.length - 1))
        for revealed in range(len(self.shown)):
            hidden = [j for j in range(self.length) if not revealed >> j & 1]
            for i, j in combinations(hidden, 2):
                together = revealed | 1 << i | 1 << j
                one, other = self.shown[revealed | 1 << i], self.shown[revealed | 1 << j]
                agree = self.q / self.shown[together] @ (one * other / self.shown[revealed])
                g[revealed.bit_count()] += 1 - agree
                count[revealed.bit_count()] += 1
        return ErrorCurve(np.maximum(g / count, 0.0), METHOD)


def tiny(language: Language, length: int) -> bool:
    return language.vocabulary**length <= MAX_SEQUENCES and length <= MAX_LENGTH


def partitions(language: LanguageLike, length: int) -> Partitions:
    """q and all sums over partitions of a tiny language: some seconds, then every schedule is fast."""
    language = load(language)
    language.check_length(length)
    if not tiny(language, length):
        raise UnmaskError(
            f"{language.vocabulary} symbols at length {length} give {language.vocabulary**length:,} sequences",
            f"expected at most {MAX_SEQUENCES:,} and a length up to {MAX_LENGTH}",
            "Use theory.known.exact, or ter_upper and score.",
        )
    every = sequences(language.vocabulary, length)
    q = language.log_prob(every).exp()
    strings, masses, sizes = every[q > 0].numpy(), q[q > 0].numpy(), language.sizes(every[q > 0]).numpy()
    shown = _shown(strings, masses, language.vocabulary)
    return Partitions(strings, masses, sizes, shown, _blocks(shown))


def _shown(strings: Ints, q: Floats, vocabulary: int) -> Floats:
    """(2^L, K): q(x_R), the sum over sequences that agree on R."""
    digits = vocabulary ** np.arange(strings.shape[1])
    rows = []
    for revealed in range(2 ** strings.shape[1]):
        codes = strings @ (digits * (revealed >> np.arange(strings.shape[1]) & 1))
        _, which = np.unique(codes, return_inverse=True)
        rows.append(np.bincount(which, q)[which])
    return np.array(rows)


def _blocks(shown: Floats) -> dict[Sizes, Floats]:
    """The sums over partitions, block by block: from each revealed set to every larger one."""
    everything = len(shown) - 1
    reached: list[dict[Sizes, Floats]] = [{} for _ in shown]
    reached[0][()] = np.ones(shown.shape[1])

    for revealed in range(everything):  # a larger set has a larger number
        rest = everything & ~revealed
        block = rest
        while block:
            tokens = [j for j in range(everything.bit_length()) if block >> j & 1]
            factor = np.prod([shown[revealed | 1 << j] / shown[revealed] for j in tokens], axis=0)

            for sizes, mass in reached[revealed].items():
                longer = (*sizes, len(tokens))
                target = reached[revealed | block]
                target[longer] = target.get(longer, 0.0) + mass * factor
            block = (block - 1) & rest

        reached[revealed] = {}
    return reached[everything]


def _chances(delta: Tensor, sizes: Sizes) -> float:
    """P(the blocks B_1..B_r are the non-empty steps, in this order) = sum_{i_1<..<i_r} prod_k delta_{i_k}^{s_k}."""
    ways = np.ones(len(delta) + 1)  # over the steps before each
    for size in sizes:
        ways = np.concatenate([[0.0], np.cumsum(delta.numpy() ** size * ways[:-1])])
    return float(ways[-1])
