"""What the exact values are checked against: loops that follow the definitions, on languages that can be enumerated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np

from reproduction.intervals import as_ngram
from tests.brute import SHARP, distribution, posterior, sequences
from tests.metrics.small import SMALL
from unmask.languages import HMM, Interval, random_ngram
from unmask.theory.partitions import partitions


def relabelled(language):
    """The same chain with its states shown by other symbols: a hidden Markov language whose states are not hidden."""
    shift = np.roll(np.eye(language.vocabulary), 1, 1)
    return HMM(language.initial, language.transition, shift)


SPARSE = random_ngram(2, 3, **SHARP, seed=2)
CHAINS = {
    "2-gram": (random_ngram(2, 3, seed=1), 5),
    "2-gram, pruned": (SPARSE, 5),
    "2-gram, 2 tokens": (random_ngram(2, 2, temperature=2.0, seed=3), 6),
    "2-gram, 4 tokens": (random_ngram(2, 4, temperature=2.0, threshold=0.2, seed=4), 4),
    "pairs": (as_ngram(Interval(2)), 4),
    "relabelled": (relabelled(SPARSE), 5),
    "one token": (random_ngram(2, 3, **SHARP, seed=5), 1),
    "two tokens": (random_ngram(2, 3, **SHARP, seed=6), 2),
}
TINY = {**SMALL, **CHAINS}


@cache
def posteriors(name):
    """(2^L, V^L, L): q(x_j | x_R) for every set R (bit j) and every string x that q finds possible, by summation."""
    language, length = TINY[name]
    strings, q = sequences(language.vocabulary, length), distribution(language, length)
    at = np.arange(length)
    fits = np.zeros((2**length, len(strings), length))
    for number in range(2**length):
        shown = number >> at & 1
        context = np.where(shown == 1, strings, language.vocabulary)
        distinct, which = np.unique(context, axis=0, return_inverse=True)
        marginals = posterior(q, strings, distinct, language.vocabulary)
        fits[number] = marginals[which[:, None], at, strings]
    return np.where(q[:, None] > 0, fits, 0.0)


def by_order(name, order):
    """(V^L) p_order(x) of the strings that q finds possible, 0 for others; order[j] is the step of j."""
    language, length = TINY[name]
    p = (distribution(language, length) > 0).astype(float)
    for j in range(length):
        earlier = sum(1 << i for i in range(length) if order[i] < order[j])
        p *= posteriors(name)[earlier][:, j]
    return p


def by_labels(name, delta):
    """(V^L) p(x) = sum over all N^L labels of their probability times p_order(x)."""
    _, length = TINY[name]
    weights = delta.tolist()
    return sum(
        np.prod([weights[k] for k in order]) * by_order(name, order)
        for order in product(range(len(weights)), repeat=length)
    )


def contradictions(name):
    """(L-1): P(x_i, x_j drawn apart given x_R have q(x_i, x_j | x_R) = 0), averaged over i < j and |R| = k: g(k)."""
    language, length = TINY[name]
    v, q = language.vocabulary, distribution(language, length).reshape((language.vocabulary,) * length)
    found = [[] for _ in range(length - 1)]
    for number in range(2**length):
        shown = [j for j in range(length) if number >> j & 1]
        hidden = [j for j in range(length) if j not in shown]
        for a, i in enumerate(hidden):
            for j in hidden[a + 1 :]:
                others = tuple(k for k in hidden if k not in (i, j))
                joint = np.moveaxis(q.sum(others, keepdims=True), (i, j), (-2, -1)).reshape(-1, v, v)
                total = 0.0
                for table in joint:
                    mass = table.sum()
                    if mass > 0:
                        apart = np.outer(table.sum(1), table.sum(0)) / mass**2
                        total += mass * apart[table == 0].sum()
                found[len(shown)].append(total)
    return np.array([np.mean(values) for values in found])


@dataclass(frozen=True, eq=False)
class Orders:
    """Every order of N steps, its probability under a schedule, and its errors."""

    orders: np.ndarray  # (N^L, L) steps 0..N-1
    chance: np.ndarray  # (N^L)
    ser: np.ndarray  # (N^L)
    divergence: np.ndarray  # (N^L) KL(q || p_order) in nats
    mixture: float  # KL(q || p)

    @property
    def ser_ratio(self):
        """SER of the best order over that of a random one; 1 if no error is possible."""
        mean = float(self.chance @ self.ser)
        return float(self.ser.min()) / mean if mean > 1e-12 else 1.0

    @property
    def mixture_ratio(self):
        """KL of the mixture over that of its best order: below 1 if randomness helps."""
        least = float(self.divergence[self.chance > 0].min())
        return self.mixture / least if least > 1e-12 else 1.0


def every_order(language, length, delta):
    """All orders of a tiny language."""
    steps = len(delta)
    every = partitions(language, length)
    orders = np.array(list(product(range(steps), repeat=length)))
    distributions = np.array([every.of_order(order) for order in orders])
    divergence = np.log(every.q / distributions) @ every.q
    ser = np.maximum(1 - distributions.sum(1), 0.0)
    chance = delta.numpy()[orders].prod(1)
    return Orders(orders, chance, ser, divergence, float(every.q @ np.log(every.q / (chance @ distributions))))
