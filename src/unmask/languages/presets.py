"""The standard languages by name: Table 1 of the paper, its interval language, and additional ones.

Random presets have two options: "sparse-hmm(seed=3, pruned=False)". With pruned=True some strings are impossible, which
a sequence error rate needs. With pruned=False every string is possible, as for the paper's token error rates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unmask.core.registry import Registry, parse, written
from unmask.languages.base import Language
from unmask.languages.brackets import Brackets
from unmask.languages.interval import Interval
from unmask.languages.modular_sum import ModularSum
from unmask.languages.random import random_hmm, random_ngram, sparse_hmm

PRESETS: Registry[Language] = Registry("language")


@PRESETS.register("paper-2gram")
def paper_2gram(seed: int = 0, pruned: bool = True) -> Language:
    """random 2-gram over 8 symbols (paper, Table 1)"""
    return random_ngram(2, threshold=0.008 * pruned, seed=seed)


@PRESETS.register("paper-3gram")
def paper_3gram(seed: int = 0, pruned: bool = True) -> Language:
    """random 3-gram over 8 symbols (paper, Table 1)"""
    return random_ngram(3, threshold=0.008 * pruned, seed=seed)


@PRESETS.register("paper-4gram")
def paper_4gram(seed: int = 0, pruned: bool = True) -> Language:
    """random 4-gram over 8 symbols (paper, Table 1)"""
    return random_ngram(4, threshold=0.005 * pruned, seed=seed)


@PRESETS.register("paper-hmm")
def paper_hmm(seed: int = 0, pruned: bool = True) -> Language:
    """random HMM with 32 states over 8 symbols (paper, Table 1); nearly every string is possible: for fluency only"""
    return random_hmm(threshold=0.003 * pruned, seed=seed)


@PRESETS.register("sparse-hmm")
def standard_sparse_hmm(seed: int = 0, pruned: bool = True) -> Language:
    """random HMM with 32 states over 8 symbols and four successors per state; has impossible strings, for SER"""
    return sparse_hmm(successors=4 if pruned else None, seed=seed)


@PRESETS.register("interval-5")
def interval_5() -> Language:
    """16 symbols; each two positions of a block of 5 share a bit (proof of Theorem 4.4, l = 5); exact formulas"""
    return Interval(5)


PRESETS.register("modular-sum")(ModularSum)  # also a kind of language, with the same options
PRESETS.register("brackets")(Brackets)


def is_random(spec: str) -> bool:
    """Whether the preset of a spec has a seed; presets without one are a single language each."""
    name = spec.partition("(")[0].strip()
    return name in PRESETS.makers and "seed" in PRESETS.entry(name).options


def varied(spec: str, **options: Any) -> str:
    """The spec with these options if its preset is random: varied("paper-2gram", seed=3) is "paper-2gram(seed=3)".

    Options with their default value are omitted; options in the spec take precedence.
    """
    return _with(spec, lambda own: options | own)


def unseeded(spec: str) -> str:
    """The spec without its seed: languages that differ in nothing else are pooled."""
    return _with(spec, lambda own: {option: value for option, value in own.items() if option != "seed"})


def _with(spec: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> str:
    """A random preset's spec with changed options, in the preset's order; every other spec as it is."""
    if not is_random(spec):
        return spec
    name, own = parse("language", spec)
    defaults, chosen = PRESETS.entry(name).options, change(own)
    chosen = {option: chosen[option] for option in dict.fromkeys((*defaults, *chosen)) if option in chosen}
    return written(name, {option: value for option, value in chosen.items() if value != defaults.get(option)})
