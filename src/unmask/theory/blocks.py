"""Block diffusion on n-grams, exactly: blocks from left to right, ancestral sampling of N steps within each.

When a block of b tokens begins, all positions before it are revealed and all after it hidden. So with m = n - 1 it
depends only on its context c, the last m tokens, and on the steps of positions in it. The output distribution is then
a product over blocks, p(x) = p_0(y_1) prod_i p(y_i | c_i), where each p(y | c) is a mixture over the orders of one
block (partitions.py, of q(. | c)). With contexts as states, k blocks, and u, M, v for the first, the inner and the last
block,

    u(c')    = sum of p_0(y) over the possible y that end in c'
    M(c, c') = sum of p(y | c) over those                              1 - SER = u M^(k-2) v,      v(c) = sum_y p(y | c)
    KL(q || p) = KL(q_0 || p_0) + sum_{i=2..k} E_{c ~ q} KL(q(. | c) || p(. | c))

This is the divergence of the mixture itself, not its mean over orders, and gives the true TER at any length. If b does
not divide L the last block is shorter. 1 - SER falls as the leading eigenvalue of M to the power of L/b, and the
divergence per token tends to a constant: block diffusion is fluent but incorrect, like diffusion of whole sequences.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.kernels.machine import Floats, Ints
from unmask.languages import Language, NGram
from unmask.metrics.enumeration import MAX_LENGTH, MAX_SEQUENCES
from unmask.theory.partitions import Partitions, of_distribution

MOST_STRINGS = 300_000  # after all contexts: some tens of seconds


@dataclass(frozen=True, eq=False)
class Step:
    """The effect of one block, from each of A contexts (one for the first block) to each of C."""

    true: Floats  # (A, C) q of the next context
    valid: Floats  # (A, C) p of it, along possible strings
    divergence: Floats  # (A) KL(q(. | c) || p(. | c)) in nats


@dataclass(frozen=True, eq=False)
class Blocks:
    """Block diffusion of an n-gram in blocks of b tokens by the schedule delta (N) within each."""

    language: NGram
    block_length: int
    delta: Tensor

    def __post_init__(self) -> None:
        b, v, memory = self.block_length, self.language.vocabulary, self.language.order - 1
        if b < memory:
            raise UnmaskError(f"block_length is {b}; expected at least {memory} for an n-gram of order {memory + 1}")
        if v**b > MAX_SEQUENCES or b > MAX_LENGTH or v ** (b + memory) > MOST_STRINGS:
            limit = f"{MAX_LENGTH} tokens, {MAX_SEQUENCES:,} strings, and {MOST_STRINGS:,} after all contexts"
            problem = f"blocks of {b} of {v} symbols are too many to enumerate; expected at most {limit}"
            raise UnmaskError(f"{problem}. Measure them: generate(sampler='blocks(..)') and score.")

    def ser(self, length: int) -> float:
        """SER = 1 - u M^(k-2) v."""
        reached = self._first(min(self.block_length, length)).valid[0]
        for size in self._later_sizes(length):
            reached = reached @ self._inner(size).valid
        return max(1 - float(reached.sum()), 0.0)

    def divergence(self, length: int) -> float:
        """KL(q || p) in nats per sequence, of the mixture."""
        first = self._first(min(self.block_length, length))
        reached, paid = first.true[0], float(first.divergence[0])
        for size in self._later_sizes(length):
            step = self._inner(size)
            paid += float(reached @ step.divergence)
            reached = reached @ step.true
        return paid

    def ter_bits(self, length: int) -> float:
        """log2 TER = (H(q) + KL(q || p)) / L, in bits per token."""
        return (self.language.entropy(length).value + self.divergence(length)) / length / math.log(2)

    def model_calls(self, length: int) -> float:
        """Mean model calls of a sequence: sum over its blocks and steps of 1 - (1 - delta_k)^b."""
        sizes = [min(self.block_length, length), *self._later_sizes(length)]
        return sum(float((1 - (1 - self.delta) ** size).sum()) for size in sizes)

    @property
    def kappa(self) -> float:
        """The factor of 1 - SER per token as L grows: the leading eigenvalue of M, to the power of 1/b."""
        return float(np.abs(np.linalg.eigvals(self._inner(self.block_length).valid)).max()) ** (1 / self.block_length)

    def _later_sizes(self, length: int) -> list[int]:
        self.language.check_length(length)
        whole, rest = divmod(length, self.block_length)
        return [self.block_length] * (whole - 1) + [rest] * (rest > 0 and whole > 0)

    @cached_property
    def _steps(self) -> dict[tuple[str, int], Step]:
        return {}

    def _first(self, size: int) -> Step:
        if ("first", size) not in self._steps:
            strings = _strings(self.language.vocabulary, size)
            q = self.language.log_prob(strings).exp().numpy()
            self._steps["first", size] = self._step(strings, q[None], np.zeros(1, np.int64))
        return self._steps["first", size]

    def _inner(self, size: int) -> Step:
        """From every context reachable under q; other rows stay empty, as p cannot reach them either."""
        if ("inner", size) not in self._steps:
            strings, v = _strings(self.language.vocabulary, size), self.language.vocabulary
            contexts = np.arange(v ** (self.language.order - 1))
            q, code = np.ones((len(contexts), len(strings))), np.repeat(contexts[:, None], len(strings), 1)
            for token in strings.T:
                q *= self.language.transition[code, token]
                code = (code * v + token) % len(contexts)
            q[np.setdiff1d(contexts, self.language.reachable)] = 0.0
            self._steps["inner", size] = self._step(strings, q, contexts)
        return self._steps["inner", size]

    def _step(self, strings: Ints, q: Floats, contexts: Ints) -> Step:
        v, memory = self.language.vocabulary, self.language.order - 1
        count = v**memory
        true, valid = np.zeros((2, len(contexts), count))
        divergence = np.zeros(len(contexts))
        for row, context in enumerate(contexts):
            code = np.full(len(strings), context)
            for token in strings.T:
                code = (code * v + token) % count
            there = q[row] > 0
            if there.any():
                block = _block(strings[there], q[row, there], v)
                true[row] = np.bincount(code[there], block.q, count)
                valid[row] = np.bincount(code[there], block.distribution(self.delta), count)
                divergence[row] = block.divergence(self.delta)
        return Step(true, valid, divergence)


def of_blocks(language: Language, block_length: int, delta: Tensor) -> Blocks:
    """Block diffusion of an n-gram; an error for other languages."""
    if not isinstance(language, NGram):
        problem = f"the block diffusion of {language.kind} is not known exactly; expected an n-gram"
        raise UnmaskError(f"{problem}. Measure it: generate(sampler='blocks(..)') and score.")
    return Blocks(language, block_length, delta)


def _block(strings: Ints, q: Floats, vocabulary: int) -> Partitions:
    return of_distribution(strings, q, np.full(len(strings), strings.shape[1]), vocabulary)


def _strings(vocabulary: int, size: int) -> Ints:
    """(V^b, b), in lexicographic order."""
    return np.indices((vocabulary,) * size).reshape(size, -1).T.copy()
