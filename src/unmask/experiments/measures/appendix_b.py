"""The checks of appendices A and B: what tokens that are drawn apart lose, and how separators bound it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import torch
from scipy.stats import binom

from unmask.experiments.measures.checks import Case, checks, divergence, law, says, shares, small
from unmask.schedules import deltas
from unmask.theory import fluency, separators
from unmask.theory.derandomised import law_of
from unmask.theory.partitions import partitions


@checks("a1")
def tokens_apart(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """KL(X || Y) <= (k-1) log|V| + k delta: X any law of k tokens, Y independent, delta the worst of the marginals."""
    for _ in range(cases):
        k, v = int(random.integers(2, 5)), int(random.integers(2, 4))
        joint = law(random, v**k).reshape((v,) * k)
        own = [joint.sum(tuple(i for i in range(k) if i != j)) for j in range(k)]
        apart = [0.9 * one + 0.1 * law(random, v) for one in own]
        product = math.prod(one.reshape([-1 if i == j else 1 for i in range(k)]) for j, one in enumerate(apart))
        worst = max(divergence(one, other) for one, other in zip(own, apart, strict=True))
        yield divergence(joint, product), fluency.lemma_a1(v, k, worst)


@checks("a2")
def chernoff(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """P(X >= (1+d) mu) <= exp(-d^2 mu / (2+d)) and P(X <= (1-d) mu) <= exp(-d^2 mu / 2) of binomials, exactly."""
    for _ in range(cases):
        n, p, d = int(random.integers(1, 200)), random.uniform(0.01, 0.99), random.uniform(0.05, 3)
        mu = n * p
        yield float(binom.sf(math.ceil((1 + d) * mu - 1e-9) - 1, n, p)), says(math.exp(-d * d * mu / (2 + d)))
        d = min(d, 1.0)
        yield float(binom.cdf(math.floor((1 - d) * mu + 1e-9), n, p)), says(math.exp(-d * d * mu / 2))


@checks("a3")
def pinsker(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """||p - q||_1 <= sqrt(2 KL(p || q))."""
    for _ in range(cases):
        size = int(random.integers(2, 9))
        p = law(random, size)
        q = p + random.uniform(0, 1) * (law(random, size) - p)
        yield float(abs(p - q).sum()), says(math.sqrt(2 * max(divergence(p, q), 0.0)))


@checks("b2")
def mixture(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """KL(q || p) <= E KL(q || p_order), both by ordered set partitions."""
    for _ in range(max(cases // 10, 1)):
        every = partitions(small(random), 4)
        for rounds in (1, 2, 3, 5):
            delta = shares(random, rounds)
            yield every.divergence(delta), says(every.information_curve().divergence(delta).value)


@checks("b3")
def by_rounds(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """KL(q || p_order) = sum_k E KL(q(x_k | x_<k) || prod_j q(x_j | x_<k)), each side from the law of all strings."""
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
            yield divergence(every.q, law_of(every, order)), says(parts, "exact")


@checks("b6")
def example(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """Example B.6: of ten positions, n = 4, {2,3,4,6,7} revealed and {1,5,9} new: one separator, dep = 2."""
    revealed, new = torch.zeros(10, dtype=torch.bool), torch.zeros(10, dtype=torch.bool)
    revealed[[1, 2, 3, 5, 6]] = True
    new[[0, 4, 8]] = True
    yield separators.separators(4, revealed), says(1, "exact")
    yield separators.dependencies(4, new, revealed), says(2, "exact")


@checks("b8")
def one_order(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """KL(q || p_order) <= log|V| sum_k (|M_k| - dep_n), of random orders."""
    for _ in range(max(cases // 10, 1)):
        language = small(random)
        every, order_of = partitions(language, 5), language.order
        for _ in range(10):
            order = random.integers(0, 4, size=5).astype(float)
            said = separators.lemma_b8(order_of, 3, torch.from_numpy(order).long() + 1)
            yield divergence(every.q, law_of(every, order)), said


@checks("b9")
def all_orders(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """KL(q || p) <= log|V| sum_k E[|M_k| - dep_n], with the exact expectation."""
    for _ in range(max(cases // 10, 1)):
        language = small(random)
        every = partitions(language, 5)
        for rounds in (1, 2, 4, 8):
            delta = shares(random, rounds)
            yield every.divergence(delta), separators.lemma_b9(language.order, 3, 5, delta)


@checks("b10")
def few_separators(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """P(Sep_n <= mu/2) <= exp(-mu/8) over all sets of revealed positions; P(|M_k| >= 2 L delta) <= exp(-L delta/3)."""
    length = 12
    sets = torch.tensor(list(itertools.product([False, True], repeat=length)))
    sizes = sets.sum(1).numpy()
    found = {n: [separators.separators(n, one) for one in sets] for n in (2, 3, 4)}
    for _ in range(max(cases // 4, 1)):
        n, p = int(random.integers(2, 5)), random.uniform(0.05, 0.95)
        delta = random.uniform(0.01, 1 - p)
        few, many = separators.lemma_b10(n, length, delta, p)
        mu = length // (n - 1) * p ** (n - 1)
        chance = p**sizes * (1 - p) ** (length - sizes)
        yield float(sum(c for c, s in zip(chance, found[n], strict=True) if s <= mu / 2)), few
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
    """The bound of lemma B.9 by the schedule of Theorem 4.2 is at most 4 eps log|V| a token, at every length."""
    for n, eps, length in itertools.product((2, 3, 4), (0.5, 0.35, 0.25, 0.2), (8, 64, 512)):
        delta = deltas(f"theorem-4.2(order={n})", fluency.explicit_rounds(n, eps))
        yield separators.lemma_b9(n, 8, length, delta).value, fluency.theorem_4_2(n, 8, length, eps)
