"""Languages by name: random ones and presets with options.

Presets are Table 1 of the paper, its interval language, and additional ones. Random presets have two options:
"sparse-hmm(seed=3, pruned=False)". With pruned=True some strings are impossible, which a sequence error rate needs.
With pruned=False every string is possible, as for the paper's token error rates.

Random languages are the paper's Algorithms 1 and 2, and the sparse HMM (theory.md 3).
"""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from unmask.core import arguments, entries
from unmask.core.chance import Stream, check_seed, uniform
from unmask.core.errors import UnmaskError
from unmask.core.registry import Registry
from unmask.core.specs import parse, written
from unmask.languages.base import Language
from unmask.languages.grammars import Brackets, ModularSum
from unmask.languages.hmm import HMM
from unmask.languages.interval import Interval
from unmask.languages.kernels.machine import Floats
from unmask.languages.ngram import NGram, check_size
from unmask.languages.properties import primitive

PRESETS: Registry[Language] = Registry("language")
MAX_SIZE = 2**12  # states, or symbols
TAIL = 0.04  # probability of all rare symbols of long-tail
DRAWN = lru_cache(maxsize=4)  # seeds of each preset; a language never changes, so the same one serves everywhere


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
    for name, size in {"states": states, "vocabulary": vocabulary}.items():
        arguments.whole(name, size, 1, MAX_SIZE)
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

    raise UnmaskError(
        f"1000 draws gave no primitive machine of {states} states and {successors} successors", "Pass more successors."
    )


def _check(temperature: float, threshold: float, **sizes: int) -> None:
    for name, size in sizes.items():
        arguments.whole(name, size, 1, MAX_SIZE)
    arguments.number("temperature", temperature, above=True)
    arguments.share("threshold", threshold)


@PRESETS.register("paper-2gram")
@DRAWN
def paper_2gram(seed: int = 0, pruned: bool = True) -> Language:
    """random 2-gram over 8 symbols (paper, Table 1)"""
    return random_ngram(2, threshold=0.008 * pruned, seed=seed)


@PRESETS.register("paper-3gram")
@DRAWN
def paper_3gram(seed: int = 0, pruned: bool = True) -> Language:
    """random 3-gram over 8 symbols (paper, Table 1)"""
    return random_ngram(3, threshold=0.008 * pruned, seed=seed)


@PRESETS.register("paper-4gram")
@DRAWN
def paper_4gram(seed: int = 0, pruned: bool = True) -> Language:
    """random 4-gram over 8 symbols (paper, Table 1)"""
    return random_ngram(4, threshold=0.005 * pruned, seed=seed)


@PRESETS.register("paper-hmm")
@DRAWN
def paper_hmm(seed: int = 0, pruned: bool = True) -> Language:
    """random HMM with 32 states over 8 symbols (paper, Table 1); nearly every string is possible: for fluency only"""
    return random_hmm(threshold=0.003 * pruned, seed=seed)


@PRESETS.register("sparse-hmm")
@DRAWN
def standard_sparse_hmm(seed: int = 0, pruned: bool = True) -> Language:
    """random HMM with 32 states over 8 symbols and four successors per state; has impossible strings, for SER"""
    return sparse_hmm(successors=4 if pruned else None, seed=seed)


@PRESETS.register("long-tail")
@DRAWN
def long_tail(seed: int = 0, pruned: bool = True) -> Language:
    """paper-2gram, and 504 rare symbols: each token is one of them with probability .04; shows coarse noise"""
    chain = paper_2gram(seed, pruned)
    assert isinstance(chain, NGram)
    common = np.eye(chain.vocabulary, 512) * (1 - TAIL)
    rare = np.arange(512) >= chain.vocabulary
    return HMM(chain.initial, chain.transition, common + TAIL * rare / rare.sum())


@PRESETS.register("interval-5")
def interval_5() -> Language:
    """16 symbols; each two positions of a block of 5 share a bit (proof of Theorem 4.4, l = 5); exact formulas"""
    return Interval(5)


PRESETS.register("modular-sum")(ModularSum)  # also a kind of language, with the same options
PRESETS.register("brackets")(Brackets)


def is_random(spec: str) -> bool:
    """Whether the preset of a spec has a seed; presets without one are a single language each."""
    name = spec.partition("(")[0].strip()
    return name in PRESETS.makers and "seed" in inspect.signature(PRESETS.makers[name]).parameters


def varied(spec: str, **options: Any) -> str:
    """The spec with these options if its preset is random: varied("paper-2gram", seed=3) is "paper-2gram(seed=3)".

    Options with their default value are omitted, the others in the preset's order; those in the spec take precedence.
    """
    if not is_random(spec):
        return spec
    name, own = parse("language", spec)
    defaults = PRESETS.entry(name).options
    chosen = options | own
    chosen = entries.picked(chosen, dict.fromkeys((*defaults, *chosen)))
    return written(name, {option: value for option, value in chosen.items() if value != defaults.get(option)})


def unseeded(spec: str) -> str:
    """The spec without its seed: languages that differ in nothing else are pooled."""
    if not is_random(spec):
        return spec
    name, own = parse("language", spec)
    return varied(written(name, entries.without(own, ["seed"])))
