"""The checks of the lemmas of appendices A, B and C, on random small cases.

A check yields (truth, Statement) for each case, under the paper's name of the lemma; a suffix names a step of a proof.
Cases are random distributions, languages of three symbols with all orders, and schedules.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.stats import binom
from torch import Tensor

from reproduction import separators
from reproduction.intervals import as_hmm, as_ngram, ngram_as_hmm
from unmask.denoisers import Denoiser, Perturbed
from unmask.languages import Interval, NGram, random_ngram
from unmask.metrics import output_distribution, sequences
from unmask.samplers.schedules import deltas
from unmask.theory import Statement, correctness, fluency
from unmask.theory.partitions import partitions

Case = tuple[float, Statement]
Check = Callable[[int, np.random.Generator], Iterator[Case]]
CHECKS: dict[str, Check] = {}


def checks(name: str) -> Callable[[Check], Check]:
    def add(check: Check) -> Check:
        CHECKS[name] = check
        return check

    return add


def bound(value: float, kind: Any = "upper") -> Statement:
    return Statement(float(value), kind, "", "", "reconstructed", "")


def distribution(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Random distributions over the last axis, some very uneven."""
    drawn = random.dirichlet([0.4] * math.prod(shape[-1:]), size=shape[:-1] or None)
    return (drawn + 1e-9) / (drawn + 1e-9).sum(-1, keepdims=True)


def shares(random: np.random.Generator, steps: int) -> Tensor:
    return torch.from_numpy(random.dirichlet([random.choice([0.3, 1.0, 10.0])] * steps))


def small(random: np.random.Generator) -> NGram:
    """A random 2- or 3-gram of three symbols; half of these languages are pruned."""
    order, seed = int(random.integers(2, 4)), int(random.integers(2**31))
    return random_ngram(order, 3, temperature=2.0, threshold=0.15 * int(random.integers(2)), seed=seed)


def divergence(p: np.ndarray, q: np.ndarray) -> float:
    """KL(p || q) in nats."""
    there = p > 0
    return float((p[there] * np.log(p[there] / q[there])).sum())


@checks("a1")
def tokens_apart(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """KL(X || Y) <= (k-1) log|V| + k delta: X any k tokens, Y independent, delta the worst marginal divergence."""
    for _ in range(cases):
        k, v = int(random.integers(2, 5)), int(random.integers(2, 4))
        joint = distribution(random, v**k).reshape((v,) * k)
        own = [joint.sum(tuple(i for i in range(k) if i != j)) for j in range(k)]
        apart = [0.9 * one + 0.1 * distribution(random, v) for one in own]
        product = reduce(np.multiply.outer, apart)
        worst = max(divergence(one, other) for one, other in zip(own, apart, strict=True))
        yield divergence(joint, product), separators.lemma_a1(v, k, worst)


@checks("a2")
def chernoff(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """P(X >= (1+d) mu) <= exp(-d^2 mu / (2+d)) and P(X <= (1-d) mu) <= exp(-d^2 mu / 2) of binomials, exactly."""
    for _ in range(cases):
        n, p, d = int(random.integers(1, 200)), random.uniform(0.01, 0.99), random.uniform(0.05, 3)
        mu = n * p
        yield float(binom.sf(math.ceil((1 + d) * mu - 1e-9) - 1, n, p)), bound(math.exp(-d * d * mu / (2 + d)))
        d = min(d, 1.0)
        yield float(binom.cdf(math.floor((1 - d) * mu + 1e-9), n, p)), bound(math.exp(-d * d * mu / 2))


@checks("a3")
def pinsker(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """||p - q||_1 <= sqrt(2 KL(p || q))."""
    for _ in range(cases):
        size = int(random.integers(2, 9))
        p = distribution(random, size)
        q = p + random.uniform(0, 1) * (distribution(random, size) - p)
        yield float(abs(p - q).sum()), bound(math.sqrt(2 * max(divergence(p, q), 0.0)))


@checks("b2")
def mixture(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """KL(q || p) <= E KL(q || p_order), both by ordered set partitions."""
    for _ in range(max(cases // 10, 1)):
        every = partitions(small(random), 4)
        for steps in (1, 2, 3, 5):
            delta = shares(random, steps)
            yield every.divergence(delta), bound(every.information_curve().divergence(delta).value)


@checks("b3")
def by_steps(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """KL(q || p_order) = sum_k E KL(q(x_k | x_<k) || prod_j q(x_j | x_<k)), by enumeration of all strings."""
    for _ in range(max(cases // 10, 1)):
        every = partitions(small(random), 4)
        for _ in range(10):
            order = random.integers(0, 3, size=4).astype(float)
            parts = 0.0
            for k in sorted(set(order.tolist())):
                earlier = sum(1 << i for i, other in enumerate(order) if other < k)
                mine = [j for j, other in enumerate(order) if other == k]
                joint = every.shown[earlier | sum(1 << j for j in mine)] / every.shown[earlier]
                apart = math.prod(every.shown[earlier | 1 << j] / every.shown[earlier] for j in mine)
                parts += divergence(every.q, every.q * apart / joint)
            yield divergence(every.q, every.of_order(order)), bound(parts, "exact")


@checks("b6")
def example(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """Example B.6: ten positions, n = 4, {2,3,4,6,7} revealed, {1,5,9} new: one separator, dep = 2."""
    revealed, new = torch.zeros(10, dtype=torch.bool), torch.zeros(10, dtype=torch.bool)
    revealed[[1, 2, 3, 5, 6]] = True
    new[[0, 4, 8]] = True
    yield separators.separators(4, revealed), bound(1, "exact")
    yield separators.dependencies(4, new, revealed), bound(2, "exact")


@checks("b8")
def one_order(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """KL(q || p_order) <= log|V| sum_k (|M_k| - dep_n), for random orders."""
    for _ in range(max(cases // 10, 1)):
        language = small(random)
        every, order_of = partitions(language, 5), language.order
        for _ in range(10):
            order = random.integers(0, 4, size=5).astype(float)
            statement = separators.lemma_b8(order_of, 3, torch.from_numpy(order).long() + 1)
            yield divergence(every.q, every.of_order(order)), statement


@checks("b9")
def all_orders(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """KL(q || p) <= log|V| sum_k E[|M_k| - dep_n], with the exact expectation."""
    for _ in range(max(cases // 10, 1)):
        language = small(random)
        every = partitions(language, 5)
        for steps in (1, 2, 4, 8):
            delta = shares(random, steps)
            yield every.divergence(delta), separators.lemma_b9(language.order, 3, 5, delta)


@checks("b10")
def few_separators(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """P(Sep_n <= mu/2) <= exp(-mu/8) over all sets of revealed positions; P(|M_k| >= 2 L delta) <= exp(-L delta/3)."""
    length = 12
    sets = torch.tensor(list(itertools.product([False, True], repeat=length)))
    sizes = sets.sum(1).numpy()
    separated = {n: [separators.separators(n, one) for one in sets] for n in (2, 3, 4)}
    for _ in range(max(cases // 4, 1)):
        n, p = int(random.integers(2, 5)), random.uniform(0.05, 0.95)
        delta = random.uniform(0.01, 1 - p)
        few, many = separators.lemma_b10(n, length, delta, p)
        mu = length // (n - 1) * p ** (n - 1)
        chance = p**sizes * (1 - p) ** (length - sizes)
        yield float(sum(c for c, s in zip(chance, separated[n], strict=True) if s <= mu / 2)), few
        yield float(binom.sf(math.ceil(2 * length * delta - 1e-9) - 1, length, delta)), many


@checks("b11")
def three_cases(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """E[|M_k| - dep_n] <= (9 + 24 (n-1) L delta^2) / p^(n-1) where L delta > 1, against the exact expectation."""
    for _ in range(cases):
        n, length = int(random.integers(2, 6)), int(random.integers(8, 600))
        p = random.uniform(0.02, 0.95)
        delta = random.uniform(min(1.0 / length, 1 - p), 1 - p)
        if length * delta <= 1:
            continue
        shares = torch.tensor([p, delta, max(1 - p - delta, 0.0)], dtype=torch.float64)
        yield float(separators.expected_excess(n, length, shares)[1]), separators.lemma_b11(n, length, delta, p)


@checks("b12")
def schedule(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """With the schedule of Theorem 4.2, the bound of lemma B.9 is at most 4 eps log|V| a token, at every length."""
    for n, eps, length in itertools.product((2, 3, 4), (0.5, 0.35, 0.25, 0.2), (8, 64, 512)):
        delta = deltas(f"theorem-4.2(order={n})", separators.explicit_steps(n, eps))
        yield separators.lemma_b9(n, 8, length, delta).value, fluency.theorem_4_2(n, 8, length, eps)


@checks("c1")
def collision(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """P(two positions share a step) <= C(L,2) sum_k delta_k^2, for random schedules."""
    for _ in range(cases):
        length, delta = int(random.integers(2, 12)), shares(random, int(random.integers(1, 60)))
        yield 1 - correctness.all_distinct(length, delta).value, correctness.lemma_c1(length, delta)


def _walk(denoiser: Denoiser, length: int, order: Sequence[int]) -> np.ndarray:
    """(V^L) p_order(x) with one position per step."""
    every = sequences(denoiser.vocabulary, length)
    distribution = torch.ones(len(every), dtype=torch.float64)
    shown = torch.zeros(length, dtype=torch.bool)
    for position in order:
        distinct, which = torch.where(shown, every, denoiser.vocabulary).unique(dim=0, return_inverse=True)
        distribution *= denoiser.probabilities(distinct)[which, position].gather(1, every[:, position : position + 1])[
            :, 0
        ]
        shown[position] = True
    return distribution.numpy()


@checks("c2")
def step_by_step(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """P(valid) >= exp(-L eps) with one position per step and errors of eps nats in each context."""
    for _ in range(max(cases // 10, 1)):
        language, eps = small(random), 10 ** random.uniform(-4, -0.5)
        valid = language.log_prob(sequences(3, 4)).isfinite().numpy()
        distribution = _walk(Perturbed(language, "leak", eps), 4, random.permutation(4).tolist())
        yield float(distribution[valid].sum()), correctness.lemma_c2(4, eps)


@checks("c3")
def enough_steps(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """SER <= 1 - P(distinct) exp(-L eps) for ancestral sampling by a denoiser that errs by eps, by enumeration."""
    for _ in range(max(cases // 20, 1)):
        language, eps = small(random), 10 ** random.uniform(-4, -1)
        valid = language.log_prob(sequences(3, 4)).isfinite()
        for steps in (4, 32):
            delta = deltas("linear", steps)
            distribution = output_distribution(Perturbed(language, "leak", eps), 4, delta)
            yield float(distribution[~valid].sum()), correctness.theorem_4_3(4, delta, eps)


@checks("c5")
def different_steps(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """P(l positions in different steps) <= (1 - 1/N)^(l-1), exactly, for random schedules."""
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
    """Two bits, each fair up to Pinsker's sqrt(eps/2), disagree with probability at least 1/2 - eps."""
    for _ in range(cases):
        eps = random.uniform(0, 1 / 128)
        ones = [_half(eps, random) for _ in range(2)]
        yield ones[0] * (1 - ones[1]) + ones[1] * (1 - ones[0]), bound(correctness.error_chance(eps), "lower")


def _half(eps: float, random: np.random.Generator) -> float:
    """P(1) of a bit with KL(fair bit || bit) <= eps."""
    far = brentq(lambda b: -0.5 * math.log1p(-4 * b * b) - eps, 0, 0.5 - 1e-12)
    return 0.5 + float(random.choice([-1, 1])) * far * random.uniform(0.5, 1)


@checks("c7")
def interval_distribution(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """Example C.7: an interval of l positions over 2^(l-1) symbols has 2^C(l,2) equally likely strings."""
    for width in (2, 3):
        language = Interval(width)
        log_prob = language.log_prob(sequences(language.vocabulary, width))
        valid = log_prob[log_prob.isfinite()]
        yield len(valid), bound(2 ** math.comb(width, 2), "exact")
        yield float(valid.min()), bound(-math.comb(width, 2) * math.log(2), "exact")
        yield float(valid.max()), bound(-math.comb(width, 2) * math.log(2), "exact")
    yield Interval(5).vocabulary, bound(16, "exact")


@checks("c8")
def hidden_markov(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """Note C.8: a hidden Markov model has the same distribution; 544 of 5120 states are enough at l = 5."""
    for width in (2, 3, 4):
        language = Interval(width)
        hidden, rows = as_hmm(language), language.sample(max(cases // 3, 1), 2 * width + 1, seed=1)
        drawn = torch.randint(language.vocabulary, rows.shape, generator=torch.Generator().manual_seed(2))
        for x in (rows, drawn):
            for one, other in zip(language.log_prob(x).exp(), hidden.log_prob(x).exp(), strict=True):
                yield float(other), bound(float(one), "exact")
    yield Interval(5).as_machine().states, bound(544, "exact")


@checks("ngram-hmm")
def every_ngram(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """Section 4.1: the HMM of an n-gram gives the product of the n-gram's table to every string."""
    for number in range(cases):
        order, seed = 2 + number % 3, int(random.integers(2**31))
        language = random_ngram(order, 3, threshold=0.15 * (number % 2), seed=seed)
        (x,) = random.integers(3, size=(1, order + 4))
        codes = [int(np.ravel_multi_index(x[i : i + order - 1], (3,) * (order - 1))) for i in range(5)]
        table = math.prod(language.transition[code, x[i + order - 1]] for i, code in enumerate(codes))
        hidden = ngram_as_hmm(language).log_prob(torch.from_numpy(x).unsqueeze(0))
        yield float(hidden.exp()), bound(float(language.initial[codes[0]] * table), "exact")


@checks("c8-ngram")
def plain_markov(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """The rebuttal: an n-gram with n = l has the same distribution, if symbols include their position."""
    for width in (2, 3):
        language = Interval(width)
        plain = as_ngram(language)
        rows = language.sample(max(cases // 2, 1), 3 * width, seed=1)
        placed = rows + language.vocabulary * (torch.arange(rows.shape[1]) % width)
        for one, other in zip(language.log_prob(rows), plain.log_prob(placed), strict=True):
            yield float(other), bound(float(one), "exact")
        yield plain.order, bound(width, "exact")


@checks("c9")
def half(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """Up to the steps of Theorem 4.4 the SER of the interval language is at least 1/2, by any schedule."""
    for _ in range(cases):
        length = 5 * int(random.integers(2, 200))
        most = int(correctness.theorem_4_4(length).value)
        delta = shares(random, int(random.integers(1, most + 1)))
        yield Interval(5).closed_form.ser(length, delta), bound(0.5, "lower")
