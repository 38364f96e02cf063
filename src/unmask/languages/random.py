"""Random languages: the paper's Algorithms 1 and 2, and the sparse HMM (theory.md 3)."""

from __future__ import annotations

import numpy as np
import torch

from unmask.core import arguments
from unmask.core.chance import Stream, check_seed, uniform
from unmask.core.errors import UnmaskError
from unmask.languages.hmm import HMM
from unmask.languages.kernels.machine import Floats
from unmask.languages.machine import primitive
from unmask.languages.ngram import NGram, check_size

MAX_SIZE = 2**12  # states, or symbols


def random_rows(rows: int, columns: int, temperature: float, threshold: float, seed: int, table: int) -> Floats:
    """(rows, columns): rows = softmax(temperature * N(0, 1)), entries below the threshold pruned, then renormalized.

    The bodies of the paper's algorithms are illegible; this is the reading under which its thresholds prune. A higher
    temperature makes the rows more peaked. The largest entry of a row is never pruned. `table` separates the tables of
    one seed.
    """
    u = uniform(check_seed(seed), Stream.PARAMETER, torch.arange(rows).unsqueeze(1), torch.arange(columns), table)
    drawn = torch.softmax(temperature * torch.special.ndtri(u), -1)
    drawn = drawn / drawn.sum(-1, keepdim=True)
    keep = (drawn >= threshold) & (drawn > 1e-20)
    keep.scatter_(-1, drawn.argmax(-1, keepdim=True), True)
    drawn = torch.where(keep, drawn, 0.0)
    return np.asarray(drawn / drawn.sum(-1, keepdim=True))


def random_ngram(
    order: int,
    vocabulary: int = 8,
    temperature: float = 2.0,
    threshold: float = 0.0,
    seed: int = 0,
) -> NGram:
    """Algorithm 1: an initial distribution over V^(n-1) contexts and one row per context."""
    _check(temperature, threshold, vocabulary=vocabulary)
    check_size(order, vocabulary)
    contexts = vocabulary ** (order - 1)
    initial = random_rows(1, contexts, temperature, threshold, seed, 0)[0]
    return NGram(order, initial, random_rows(contexts, vocabulary, temperature, threshold, seed, 1))


def random_hmm(
    states: int = 32,
    vocabulary: int = 8,
    temperature: float = 3.2,
    threshold: float = 0.0,
    seed: int = 0,
) -> HMM:
    """Algorithm 2: initial, transition and emission, all pruned: with a dense emission every string is possible."""
    _check(temperature, threshold, states=states, vocabulary=vocabulary)
    initial = random_rows(1, states, temperature, threshold, seed, 0)[0]
    transition = random_rows(states, states, temperature, threshold, seed, 1)
    return HMM(initial, transition, random_rows(states, vocabulary, temperature, threshold, seed, 2))


def sparse_hmm(states: int = 32, vocabulary: int = 8, successors: int | None = 4, seed: int = 0) -> HMM:
    """Rows softmax(N(0, 1)) with only their largest entries, symbol s mod V, uniform start, redrawn until primitive.

    With `successors=None` every entry remains, so every string is possible.
    """
    _check(1.0, 0.0, states=states, vocabulary=vocabulary)
    if successors is not None:
        arguments.whole("successors", successors, 1, states, ", or none for all")
    emission = np.eye(vocabulary)[np.arange(states) % vocabulary]
    for attempt in range(1000):
        drawn = torch.from_numpy(random_rows(states, states, 1.0, 0.0, seed, 3 + attempt))
        if successors is not None:
            drawn = drawn * (drawn >= drawn.topk(successors, -1).values[:, -1:])
        transition = np.asarray(drawn / drawn.sum(-1, keepdim=True))
        language = HMM(np.full(states, 1 / states), transition, emission)
        if primitive(language.machine):
            return language
    problem = f"1000 draws gave no primitive machine of {states} states and {successors} successors"
    raise UnmaskError(f"{problem}. Pass more successors.")


def _check(temperature: float, threshold: float, **sizes: int) -> None:
    for name, size in sizes.items():
        arguments.whole(name, size, 1, MAX_SIZE)
    arguments.number("temperature", temperature, above=True)
    arguments.share("threshold", threshold)
