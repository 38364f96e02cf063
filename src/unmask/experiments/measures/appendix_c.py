"""The checks of appendix C: correctness, and the language of intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from scipy.optimize import brentq

from unmask.denoisers import Denoiser
from unmask.experiments.measures.checks import Case, checks, says, shares, small
from unmask.ideal import Perturbed
from unmask.languages import Interval
from unmask.metrics.enumeration import output_law, sequences
from unmask.schedules import deltas
from unmask.theory import correctness


@checks("c1")
def collision(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """P(two positions share a round) <= C(L,2) sum_k delta_k^2, of random schedules."""
    for _ in range(cases):
        length, delta = int(random.integers(2, 12)), shares(random, int(random.integers(1, 60)))
        yield 1 - correctness.all_distinct(length, delta).value, correctness.lemma_c1(length, delta)


def _walk(denoiser: Denoiser, length: int, order: Sequence[int]) -> np.ndarray:
    """(V^L) p_order(x) of one position after another."""
    every = sequences(denoiser.vocabulary, length)
    law = torch.ones(len(every), dtype=torch.float64)
    shown = torch.zeros(length, dtype=torch.bool)
    for place in order:
        distinct, which = torch.where(shown, every, denoiser.vocabulary).unique(dim=0, return_inverse=True)
        law *= denoiser.probabilities(distinct)[which, place].gather(1, every[:, place : place + 1])[:, 0]
        shown[place] = True
    return law.numpy()


@checks("c2")
def step_by_step(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """One position a round, errors of eps nats in each context: P(valid) >= exp(-L eps)."""
    for _ in range(max(cases // 10, 1)):
        language, eps = small(random), 10 ** random.uniform(-4, -0.5)
        valid = language.log_prob(sequences(3, 4)).isfinite().numpy()
        law = _walk(Perturbed(language, "leak", eps), 4, random.permutation(4).tolist())
        yield float(law[valid].sum()), correctness.lemma_c2(4, eps)


@checks("c3")
def enough_rounds(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """SER <= 1 - P(distinct) exp(-L eps) of ancestral sampling by a denoiser that errs by eps, by enumeration."""
    for _ in range(max(cases // 20, 1)):
        language, eps = small(random), 10 ** random.uniform(-4, -1)
        valid = language.log_prob(sequences(3, 4)).isfinite()
        for rounds in (4, 32):
            delta = deltas("linear", rounds)
            law = output_law(Perturbed(language, "leak", eps), 4, delta)
            yield float(law[~valid].sum()), correctness.theorem_4_3(4, delta, eps)


@checks("c5")
def different_rounds(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """P(l positions in different rounds) <= (1 - 1/N)^(l-1), exactly, of random schedules."""
    for _ in range(cases):
        width, delta = int(random.integers(2, 7)), shares(random, int(random.integers(2, 20)))
        yield correctness.all_distinct(width, delta).value, correctness.lemma_c5(width, delta)


@checks("c5-jensen")
def jensen(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """The step sum_k delta_k (1 - delta_k)^(l-1) <= (1 - 1/N)^(l-1), with l = 5; (.2, .8) is the first schedule."""
    for number in range(cases):
        delta = shares(random, int(random.integers(2, 20))) if number else torch.tensor([0.2, 0.8]).double()
        yield float((delta * (1 - delta) ** 4).sum()), correctness.lemma_c5(5, delta)


@checks("c6")
def intervals(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """SER of the interval language >= 1 - (1 - p_e (1 - (1-1/N)^(l-1)))^(L/l), against its closed form."""
    for _ in range(cases):
        width, delta = int(random.integers(2, 7)), shares(random, int(random.integers(1, 80)))
        length = width * int(random.integers(1, 40))
        yield Interval(width).closed_form.ser(length, delta), correctness.lemma_c6(length, len(delta), width)


@checks("c6-half")
def mismatch(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """Two bits that are each fair up to Pinsker's sqrt(eps/2) disagree with probability at least 1/2 - eps."""
    for _ in range(cases):
        eps = random.uniform(0, 1 / 128)
        ones = [_half(eps, random) for _ in range(2)]
        yield ones[0] * (1 - ones[1]) + ones[1] * (1 - ones[0]), says(correctness.error_chance(eps), "lower")


def _half(eps: float, random: np.random.Generator) -> float:
    """P(1) of a bit whose divergence from a fair one, KL(fair || bit), is eps at most."""
    far = brentq(lambda b: -0.5 * math.log1p(-4 * b * b) - eps, 0, 0.5 - 1e-12)
    return 0.5 + float(random.choice([-1, 1])) * far * random.uniform(0.5, 1)


@checks("c7")
def interval_law(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """Example C.7: an interval of l positions over 2^(l-1) symbols has 2^C(l,2) equally likely strings."""
    for width in (2, 3):
        language = Interval(width)
        said = language.log_prob(sequences(language.vocabulary, width))
        valid = said[said.isfinite()]
        yield len(valid), says(2 ** math.comb(width, 2), "exact")
        yield float(valid.min()), says(-math.comb(width, 2) * math.log(2), "exact")
        yield float(valid.max()), says(-math.comb(width, 2) * math.log(2), "exact")
    yield Interval(5).vocabulary, says(16, "exact")


@checks("c8")
def hidden_markov(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """Note C.8: as a hidden Markov language it is the same law; 544 states are enough at l = 5, of the note's 5120."""
    for width in (2, 3, 4):
        language = Interval(width)
        hidden, rows = language.as_hmm(), language.sample(max(cases // 3, 1), 2 * width + 1, seed=1)
        drawn = torch.randint(language.vocabulary, rows.shape, generator=torch.Generator().manual_seed(2))
        for x in (rows, drawn):
            for one, other in zip(language.log_prob(x).exp(), hidden.log_prob(x).exp(), strict=True):
                yield float(other), says(float(one), "exact")
    yield Interval(5).as_machine().states, says(544, "exact")


@checks("c8-ngram")
def plain_markov(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """The rebuttal: with symbols that also say where they stand it is an n-gram, n = l; the same law."""
    for width in (2, 3):
        language = Interval(width)
        plain = language.as_ngram()
        rows = language.sample(max(cases // 2, 1), 3 * width, seed=1)
        placed = rows + language.vocabulary * (torch.arange(rows.shape[1]) % width)
        for one, other in zip(language.log_prob(rows), plain.log_prob(placed), strict=True):
            yield float(other), says(float(one), "exact")
        yield plain.order, says(width, "exact")


@checks("c9")
def half(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """Up to the rounds of Theorem 4.4 the SER of the interval language is at least 1/2, by any schedule."""
    for _ in range(cases):
        length = 5 * int(random.integers(2, 200))
        most = int(correctness.theorem_4_4(length).value)
        delta = shares(random, int(random.integers(1, most + 1)))
        yield Interval(5).closed_form.ser(length, delta), says(0.5, "lower")
