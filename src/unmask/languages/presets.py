"""The standard languages by name: Table 1 of the paper, its interval language, and others that it lacks.

Random presets have two options: "sparse-hmm(seed=3, pruned=False)". With pruned=True some strings are impossible, which
a sequence error rate needs; with pruned=False every string is possible, as in the paper's token error rates.
"""

from __future__ import annotations

from typing import Any

from unmask.core.registry import Registry, parse
from unmask.languages.base import Language
from unmask.languages.brackets import Brackets
from unmask.languages.interval import Interval
from unmask.languages.modular_sum import ModularSum
from unmask.languages.random import random_hmm, random_ngram, sparse_hmm

PRESETS: Registry[Language] = Registry("language")


@PRESETS.register("paper-2gram")
def paper_2gram(seed: int = 0, pruned: bool = True) -> Language:
    """Table 1: V 8, temperature 2, threshold 0.008"""
    return random_ngram(2, threshold=0.008 * pruned, seed=seed)


@PRESETS.register("paper-3gram")
def paper_3gram(seed: int = 0, pruned: bool = True) -> Language:
    """Table 1: V 8, temperature 2, threshold 0.008"""
    return random_ngram(3, threshold=0.008 * pruned, seed=seed)


@PRESETS.register("paper-4gram")
def paper_4gram(seed: int = 0, pruned: bool = True) -> Language:
    """Table 1: V 8, temperature 2, threshold 0.005"""
    return random_ngram(4, threshold=0.005 * pruned, seed=seed)


@PRESETS.register("paper-hmm")
def paper_hmm(seed: int = 0, pruned: bool = True) -> Language:
    """Table 1 as printed: S 32, V 8; accepts nearly every string: fluency only, see sparse-hmm for SER"""
    return random_hmm(threshold=0.003 * pruned, seed=seed)


@PRESETS.register("sparse-hmm")
def standard_sparse_hmm(seed: int = 0, pruned: bool = True) -> Language:
    """S 32, V 8, four successors a state, symbol s mod 8: the HMM for SER"""
    return sparse_hmm(successors=4 if pruned else None, seed=seed)


@PRESETS.register("interval-5")
def interval_5() -> Language:
    """Theorem 4.4 with l = 5: V 16, exact in closed form"""
    return Interval(5)


PRESETS.register("modular-sum")(ModularSum)  # a kind of language too, with the same options
PRESETS.register("brackets")(Brackets)


def is_random(preset: str) -> bool:
    """Whether a preset has a seed; the others are one language each."""
    return preset in PRESETS.makers and "seed" in PRESETS.entry(preset).options


def varied(spec: str, **options: Any) -> str:
    """The spec with these options if its preset is random: varied("paper-2gram", seed=3) is "paper-2gram(seed=3)".

    Options that have their default, or that the spec sets itself, are left out.
    """
    name, own = parse("language", spec)
    if not is_random(name):
        return spec
    defaults = PRESETS.entry(name).options
    every = {option: value for option, value in (options | own).items() if value != defaults.get(option)}
    return f"{name}({', '.join(f'{option}={value!r}' for option, value in every.items())})" if every else name
