"""The metric of lemmas: what one says, held against the truth of many small cases, by enumeration or in closed form.

    lemma    cases, violations among them, and tightest: the truth nearest to its bound, as a share of it

A check is a generator of (truth, Statement) in CHECKS, under the paper's name of the lemma; a name that ends in a step
of a proof is about that step. Cases are random laws, languages of three symbols, all of their orders, and schedules.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from unmask.core.errors import unknown
from unmask.experiments.measures.catalogue import Arguments, Record, metric
from unmask.experiments.measures.sources import record

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from unmask.denoisers import Denoiser
    from unmask.languages.ngram import NGram
    from unmask.theory.statements import Statement

Case = tuple[float, "Statement"]
Check = Callable[[int, "np.random.Generator"], Iterator[Case]]
CHECKS: dict[str, Check] = {}
SLACK = 1e-9  # rounding, of what is allowed
LEAST = 1e-6  # of a bound, below which its share is rounding


def checks(name: str) -> Callable[[Check], Check]:
    def add(check: Check) -> Check:
        CHECKS[name] = check
        return check

    return add


def _known(cells: Sequence[Arguments]) -> None:
    for cell in cells:
        if cell["lemma"] not in CHECKS:
            raise unknown("lemma", cell["lemma"], CHECKS)


@metric("lemma", check=_known)
def lemma(*, lemma: str, cases: int = 200, seed: int = 0) -> list[Record]:
    """How many cases there were, how many were otherwise, and how near the truth came to what is said."""
    import numpy as np

    from unmask.core.estimates import exactly

    count = violations = 0
    tightest = 0.0
    for truth, said in CHECKS[lemma](cases, np.random.default_rng(seed)):
        count += 1
        violations += not said.allows(truth, SLACK)
        tightest = max(tightest, _share(truth, said))
    found = {"cases": float(count), "violations": float(violations), "tightest": tightest}
    return [record(name, exactly(value, "exact: counted"), None) for name, value in found.items()]


def _share(truth: float, said: Statement) -> float:
    """Of an upper bound truth / bound, of a lower one the other way round; 1 is the bound itself."""
    small, large = (truth, said.value) if said.kind != "lower" else (said.value, truth)
    return small / large if large > LEAST and math.isfinite(large) else 0.0


def _says(value: float, kind: Any = "upper") -> Statement:
    from unmask.theory.statements import Statement

    return Statement(float(value), kind, "", "", "reconstructed", "")


def _law(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Random laws over the last axis, some of them very uneven."""
    drawn = random.dirichlet([0.4] * math.prod(shape[-1:]), size=shape[:-1] or None)
    return (drawn + 1e-9) / (drawn + 1e-9).sum(-1, keepdims=True)


def _delta(random: np.random.Generator, rounds: int) -> Tensor:
    import torch

    return torch.from_numpy(random.dirichlet([random.choice([0.3, 1.0, 10.0])] * rounds))


def _small(random: np.random.Generator) -> NGram:
    """Three symbols, of which about half may follow each other; n = 2 or 3."""
    from unmask.languages import random_ngram

    order, seed = int(random.integers(2, 4)), int(random.integers(2**31))
    return random_ngram(order, 3, temperature=2.0, threshold=0.15 * int(random.integers(2)), seed=seed)


def divergence(p: np.ndarray, q: np.ndarray) -> float:
    """KL(p || q) in nats."""
    import numpy as np

    there = p > 0
    return float((p[there] * np.log(p[there] / q[there])).sum())


@checks("a1")
def tokens_apart(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """KL(X || Y) <= (k-1) log|V| + k delta: X any law of k tokens, Y independent, delta the worst of the marginals."""
    from unmask.theory.fluency import lemma_a1

    for _ in range(cases):
        k, v = int(random.integers(2, 5)), int(random.integers(2, 4))
        joint = _law(random, v**k).reshape((v,) * k)
        own = [joint.sum(tuple(i for i in range(k) if i != j)) for j in range(k)]
        apart = [0.9 * one + 0.1 * _law(random, v) for one in own]
        product = math.prod(one.reshape([-1 if i == j else 1 for i in range(k)]) for j, one in enumerate(apart))
        worst = max(divergence(one, other) for one, other in zip(own, apart, strict=True))
        yield divergence(joint, product), lemma_a1(v, k, worst)


@checks("a2")
def chernoff(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """P(X >= (1+d) mu) <= exp(-d^2 mu / (2+d)) and P(X <= (1-d) mu) <= exp(-d^2 mu / 2) of binomials, exactly."""
    from scipy.stats import binom

    for _ in range(cases):
        n, p, d = int(random.integers(1, 200)), random.uniform(0.01, 0.99), random.uniform(0.05, 3)
        mu = n * p
        yield float(binom.sf(math.ceil((1 + d) * mu - 1e-9) - 1, n, p)), _says(math.exp(-d * d * mu / (2 + d)))
        d = min(d, 1.0)
        yield float(binom.cdf(math.floor((1 - d) * mu + 1e-9), n, p)), _says(math.exp(-d * d * mu / 2))


@checks("a3")
def pinsker(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """||p - q||_1 <= sqrt(2 KL(p || q))."""
    for _ in range(cases):
        size = int(random.integers(2, 9))
        p = _law(random, size)
        q = p + random.uniform(0, 1) * (_law(random, size) - p)
        yield float(abs(p - q).sum()), _says(math.sqrt(2 * max(divergence(p, q), 0.0)))


@checks("b2")
def mixture(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """KL(q || p) <= E KL(q || p_order), both by ordered set partitions."""
    from unmask.theory.partitions import partitions

    for _ in range(max(cases // 10, 1)):
        every = partitions(_small(random), 4)
        for rounds in (1, 2, 3, 5):
            delta = _delta(random, rounds)
            yield every.divergence(delta), _says(every.information_curve().divergence(delta).value)


@checks("b3")
def by_rounds(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """KL(q || p_order) = sum_k E KL(q(x_k | x_<k) || prod_j q(x_j | x_<k)), each side from the law of all strings."""
    from unmask.theory.derandomised import law_of
    from unmask.theory.partitions import partitions

    for _ in range(max(cases // 10, 1)):
        every = partitions(_small(random), 4)
        for _ in range(10):
            order = random.integers(0, 3, size=4).astype(float)
            parts = 0.0
            for k in sorted(set(order.tolist())):
                earlier = sum(1 << i for i, other in enumerate(order) if other < k)
                mine = [j for j, other in enumerate(order) if other == k]
                joint = every.shown[earlier | sum(1 << j for j in mine)] / every.shown[earlier]
                apart = math.prod(every.shown[earlier | 1 << j] / every.shown[earlier] for j in mine)
                parts += divergence(every.q, every.q * apart / joint)
            yield divergence(every.q, law_of(every, order)), _says(parts, "exact")


@checks("b6")
def example(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """Example B.6: of ten positions, n = 4, {2,3,4,6,7} revealed and {1,5,9} new: one separator, dep = 2."""
    import torch

    from unmask.theory.separators import dependencies, separators

    revealed, new = torch.zeros(10, dtype=torch.bool), torch.zeros(10, dtype=torch.bool)
    revealed[[1, 2, 3, 5, 6]] = True
    new[[0, 4, 8]] = True
    yield separators(4, revealed), _says(1, "exact")
    yield dependencies(4, new, revealed), _says(2, "exact")


@checks("b8")
def one_order(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """KL(q || p_order) <= log|V| sum_k (|M_k| - dep_n), of random orders."""
    import torch

    from unmask.theory.derandomised import law_of
    from unmask.theory.partitions import partitions
    from unmask.theory.separators import lemma_b8

    for _ in range(max(cases // 10, 1)):
        language = _small(random)
        every, order_of = partitions(language, 5), language.order
        for _ in range(10):
            order = random.integers(0, 4, size=5).astype(float)
            said = lemma_b8(order_of, 3, torch.from_numpy(order).long() + 1)
            yield divergence(every.q, law_of(every, order)), said


@checks("b9")
def all_orders(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """KL(q || p) <= log|V| sum_k E[|M_k| - dep_n], with the exact expectation."""
    from unmask.theory.partitions import partitions
    from unmask.theory.separators import lemma_b9

    for _ in range(max(cases // 10, 1)):
        language = _small(random)
        every = partitions(language, 5)
        for rounds in (1, 2, 4, 8):
            delta = _delta(random, rounds)
            yield every.divergence(delta), lemma_b9(language.order, 3, 5, delta)


@checks("b10")
def few_separators(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """P(Sep_n <= mu/2) <= exp(-mu/8) over all sets of revealed positions; P(|M_k| >= 2 L delta) <= exp(-L delta/3)."""
    import torch
    from scipy.stats import binom

    from unmask.theory.separators import lemma_b10, separators

    length = 12
    sets = torch.tensor(list(itertools.product([False, True], repeat=length)))
    sizes = sets.sum(1).numpy()
    found = {n: [separators(n, one) for one in sets] for n in (2, 3, 4)}
    for _ in range(max(cases // 4, 1)):
        n, p = int(random.integers(2, 5)), random.uniform(0.05, 0.95)
        delta = random.uniform(0.01, 1 - p)
        few, many = lemma_b10(n, length, delta, p)
        mu = length // (n - 1) * p ** (n - 1)
        chance = p**sizes * (1 - p) ** (length - sizes)
        yield float(sum(c for c, s in zip(chance, found[n], strict=True) if s <= mu / 2)), few
        yield float(binom.sf(math.ceil(2 * length * delta - 1e-9) - 1, length, delta)), many


@checks("b11")
def three_cases(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """E[|M_k| - dep_n] <= (9 + 24 (n-1) L delta^2) / p^(n-1) where L delta > 1, against the exact expectation."""
    import torch

    from unmask.theory.separators import expected_excess, lemma_b11

    for _ in range(cases):
        n, length = int(random.integers(2, 6)), int(random.integers(8, 600))
        p = random.uniform(0.02, 0.95)
        delta = random.uniform(min(1.0 / length, 1 - p), 1 - p)
        if length * delta <= 1:
            continue
        shares = torch.tensor([p, delta, max(1 - p - delta, 0.0)], dtype=torch.float64)
        yield float(expected_excess(n, length, shares)[1]), lemma_b11(n, length, delta, p)


@checks("b12")
def schedule(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """The bound of lemma B.9 by the schedule of Theorem 4.2 is at most 4 eps log|V| a token, at every length."""
    from unmask.schedules import deltas
    from unmask.theory.fluency import explicit_rounds, theorem_4_2
    from unmask.theory.separators import lemma_b9

    for n, eps, length in itertools.product((2, 3, 4), (0.5, 0.35, 0.25, 0.2), (8, 64, 512)):
        delta = deltas(f"theorem-4.2(order={n})", explicit_rounds(n, eps))
        yield lemma_b9(n, 8, length, delta).value, theorem_4_2(n, 8, length, eps)


@checks("c1")
def collision(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """P(two positions share a round) <= C(L,2) sum_k delta_k^2, of random schedules."""
    from unmask.theory.correctness import all_distinct, lemma_c1

    for _ in range(cases):
        length, delta = int(random.integers(2, 12)), _delta(random, int(random.integers(1, 60)))
        yield 1 - all_distinct(length, delta).value, lemma_c1(length, delta)


def _walk(denoiser: Denoiser, length: int, order: Sequence[int]) -> np.ndarray:
    """(V^L) p_order(x) of one position after another."""
    import torch

    from unmask.metrics.enumeration import sequences

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
    from unmask.ideal import Perturbed
    from unmask.metrics.enumeration import sequences
    from unmask.theory.correctness import lemma_c2

    for _ in range(max(cases // 10, 1)):
        language, eps = _small(random), 10 ** random.uniform(-4, -0.5)
        valid = language.log_prob(sequences(3, 4)).isfinite().numpy()
        law = _walk(Perturbed(language, "leak", eps), 4, random.permutation(4).tolist())
        yield float(law[valid].sum()), lemma_c2(4, eps)


@checks("c3")
def enough_rounds(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """SER <= 1 - P(distinct) exp(-L eps) of ancestral sampling by a denoiser that errs by eps, by enumeration."""
    from unmask.ideal import Perturbed
    from unmask.metrics.enumeration import output_law, sequences
    from unmask.schedules import deltas
    from unmask.theory.correctness import theorem_4_3

    for _ in range(max(cases // 20, 1)):
        language, eps = _small(random), 10 ** random.uniform(-4, -1)
        valid = language.log_prob(sequences(3, 4)).isfinite()
        for rounds in (4, 32):
            delta = deltas("linear", rounds)
            law = output_law(Perturbed(language, "leak", eps), 4, delta)
            yield float(law[~valid].sum()), theorem_4_3(4, delta, eps)


@checks("c5")
def different_rounds(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """P(l positions in different rounds) <= (1 - 1/N)^(l-1), exactly, of random schedules."""
    from unmask.theory.correctness import all_distinct, lemma_c5

    for _ in range(cases):
        width, delta = int(random.integers(2, 7)), _delta(random, int(random.integers(2, 20)))
        yield all_distinct(width, delta).value, lemma_c5(width, delta)


@checks("c5-jensen")
def jensen(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """The step sum_k delta_k (1 - delta_k)^(l-1) <= (1 - 1/N)^(l-1), with l = 5; (.2, .8) is the first schedule."""
    import torch

    from unmask.theory.correctness import lemma_c5

    for number in range(cases):
        delta = _delta(random, int(random.integers(2, 20))) if number else torch.tensor([0.2, 0.8]).double()
        yield float((delta * (1 - delta) ** 4).sum()), lemma_c5(5, delta)


@checks("c6")
def intervals(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """SER of the interval language >= 1 - (1 - p_e (1 - (1-1/N)^(l-1)))^(L/l), against its closed form."""
    from unmask.languages import Interval
    from unmask.theory.correctness import lemma_c6

    for _ in range(cases):
        width, delta = int(random.integers(2, 7)), _delta(random, int(random.integers(1, 80)))
        length = width * int(random.integers(1, 40))
        yield Interval(width).closed_form.ser(length, delta), lemma_c6(length, len(delta), width)


@checks("c6-half")
def mismatch(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """Two bits that are each fair up to Pinsker's sqrt(eps/2) disagree with probability at least 1/2 - eps."""
    from unmask.theory.correctness import error_chance

    for _ in range(cases):
        eps = random.uniform(0, 1 / 128)
        ones = [_half(eps, random) for _ in range(2)]
        yield ones[0] * (1 - ones[1]) + ones[1] * (1 - ones[0]), _says(error_chance(eps), "lower")


def _half(eps: float, random: np.random.Generator) -> float:
    """P(1) of a bit whose divergence from a fair one, KL(fair || bit), is eps at most."""
    from scipy.optimize import brentq

    far = brentq(lambda b: -0.5 * math.log1p(-4 * b * b) - eps, 0, 0.5 - 1e-12)
    return 0.5 + float(random.choice([-1, 1])) * far * random.uniform(0.5, 1)


@checks("c7")
def interval_law(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """Example C.7: an interval of l positions over 2^(l-1) symbols has 2^C(l,2) equally likely strings."""
    from unmask.languages import Interval
    from unmask.metrics.enumeration import sequences

    for width in (2, 3):
        language = Interval(width)
        said = language.log_prob(sequences(language.vocabulary, width))
        valid = said[said.isfinite()]
        yield len(valid), _says(2 ** math.comb(width, 2), "exact")
        yield float(valid.min()), _says(-math.comb(width, 2) * math.log(2), "exact")
        yield float(valid.max()), _says(-math.comb(width, 2) * math.log(2), "exact")
    yield Interval(5).vocabulary, _says(16, "exact")


@checks("c8")
def hidden_markov(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """Note C.8: as a hidden Markov language it is the same law; 544 states are enough at l = 5, of the note's 5120."""
    import torch

    from unmask.languages import Interval

    for width in (2, 3, 4):
        language = Interval(width)
        hidden, rows = language.as_hmm(), language.sample(max(cases // 3, 1), 2 * width + 1, seed=1)
        drawn = torch.randint(language.vocabulary, rows.shape, generator=torch.Generator().manual_seed(2))
        for x in (rows, drawn):
            for one, other in zip(language.log_prob(x).exp(), hidden.log_prob(x).exp(), strict=True):
                yield float(other), _says(float(one), "exact")
    yield Interval(5).as_machine().states, _says(544, "exact")


@checks("c8-ngram")
def plain_markov(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """The rebuttal: with symbols that also say where they stand it is an n-gram, n = l; the same law."""
    from unmask.languages import Interval

    for width in (2, 3):
        language = Interval(width)
        plain = language.as_ngram()
        rows = language.sample(max(cases // 2, 1), 3 * width, seed=1)
        placed = rows + language.vocabulary * (_places(rows.shape[1]) % width)
        for one, other in zip(language.log_prob(rows), plain.log_prob(placed), strict=True):
            yield float(other), _says(float(one), "exact")
        yield plain.order, _says(width, "exact")


def _places(length: int) -> Tensor:
    import torch

    return torch.arange(length)


@checks("c9")
def half(cases: int, random: np.random.Generator) -> Iterator[Case]:
    """Up to the rounds of Theorem 4.4 the SER of the interval language is at least 1/2, by any schedule."""
    from unmask.languages import Interval
    from unmask.theory.correctness import theorem_4_4

    for _ in range(cases):
        length = 5 * int(random.integers(2, 200))
        most = int(theorem_4_4(length).value)
        delta = _delta(random, int(random.integers(1, most + 1)))
        yield Interval(5).closed_form.ser(length, delta), _says(0.5, "lower")
