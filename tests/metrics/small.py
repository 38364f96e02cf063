"""What the metrics are checked against: languages small enough to enumerate, and what every order pays on them."""

from __future__ import annotations

from functools import cache
from itertools import permutations

import numpy as np
import torch

from tests.brute import distribution, entropy, normalised, sequences, tiny_languages
from unmask.languages import HMM, random_hmm

MOST = 5  # positions
STRINGS = 1300


def shortened():
    """The tiny languages, each at its longest length of few positions and strings; none for one that is too large."""
    for name, (language, longest) in tiny_languages().items():
        possible = np.flatnonzero(language.possible_lengths(min(longest, MOST)))
        short = [int(length) for length in possible if language.vocabulary**length <= STRINGS]
        if short:
            yield name, (language, short[-1])


MACHINE = random_hmm(3, 3, temperature=2.0, seed=6)
ENDING = HMM(MACHINE.initial, MACHINE.transition, MACHINE.emission, end=2)  # anything may follow its end
SMALL = {**dict(shortened()), "hmm, end": (ENDING, 5)}
FIXED = {name: case for name, case in SMALL.items() if case[0].end is None}
VARYING = {name: case for name, case in SMALL.items() if case[0].end is not None}
SCHEDULES = ["linear", "cosine", "cosine-squared", "geometric(ratio=3)"]


def subsets(length):
    """(2^L, L): every set R of positions; the set number r holds position j where bit j of r is set."""
    return np.arange(2**length)[:, None] >> np.arange(length) & 1


@cache
def conditional_entropies(name):
    """(2^L, L): H(X_j | X_R) = H(X_R, X_j) - H(X_R), in nats."""
    language, length = SMALL[name]
    strings, q = sequences(language.vocabulary, length), distribution(language, length)
    joint = []
    for shown in subsets(length):
        codes = strings @ (language.vocabulary ** np.arange(length) * shown)
        joint.append(entropy(np.bincount(codes, q)))
    with_j = np.arange(2**length)[:, None] | 2 ** np.arange(length)
    return np.array(joint)[with_j] - np.array(joint)[:, None]


def cross_entropies(name, denoiser, weights=None):
    """(2^L, L): sum over x of weight(x) -log p(x_j | x_R), of q(x) itself unless told otherwise."""
    language, length = SMALL[name]
    weights = distribution(language, length) if weights is None else weights
    possible = weights > 0
    every = torch.from_numpy(sequences(language.vocabulary, length)[possible])
    rows = []
    for shown in subsets(length):
        context = torch.where(torch.from_numpy(shown == 1), every, language.vocabulary)
        distinct, which = context.unique(dim=0, return_inverse=True)
        fits = denoiser.posterior(distinct)[which[:, None], torch.arange(length), every]
        rows.append(-weights[possible] @ fits.log().numpy())
    return np.array(rows)


def by_rank(costs):
    """f(k): the mean over j and over |R| = k, R without j."""
    length = costs.shape[1]
    outside = subsets(length) == 0
    size = length - outside.sum(1)
    return np.array([costs[size == k][outside[size == k]].mean() for k in range(length)])


def paid(costs, orders):
    """What each order (B, L) pays in all: at j the cost of x_j given the positions of earlier steps."""
    length = costs.shape[1]
    earlier = (orders[:, None, :] < orders[:, :, None]) @ 2 ** np.arange(length)
    return costs[earlier, np.arange(length)].sum(1)


def average_over_labels(costs, delta):
    """E_tau over all N^L assignments of independent steps."""
    labels = sequences(len(delta), costs.shape[1])
    return float(delta.numpy()[labels].prod(1) @ paid(costs, labels))


def average_over_assignments(costs, counts):
    """The mean over all assignments that give counts[k] positions to step k."""
    base = [k for k, count in enumerate(counts) for _ in range(count)]
    return float(paid(costs, np.array(sorted(set(permutations(base))))).mean())


def sizes(language, length):
    """|x| of every string: up to and including the first end."""
    strings = sequences(language.vocabulary, length)
    if language.end is None:
        return np.full(len(strings), length)
    ended = strings == language.end
    return np.where(ended.any(1), ended.argmax(1) + 1, length)


def windows(language, length, size):
    """The distribution of windows by summation over all strings and positions."""
    strings, q = sequences(language.vocabulary, length), distribution(language, length)
    digits = language.vocabulary ** np.arange(size - 1, -1, -1)
    codes = np.stack([strings[:, j : j + size] @ digits for j in range(length - size + 1)])
    return normalised(np.bincount(codes.ravel(), np.tile(q, len(codes)), language.vocabulary**size))
