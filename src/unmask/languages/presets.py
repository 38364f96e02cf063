"""The standard languages by name: Table 1 of the paper, its interval language, and ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from unmask.core import arguments
from unmask.core.chance import check_seed
from unmask.core.errors import UnmaskError
from unmask.languages.base import Language
from unmask.languages.brackets import Brackets
from unmask.languages.interval import Interval
from unmask.languages.modular_sum import ModularSum
from unmask.languages.random import random_hmm, random_ngram, sparse_hmm


class Preset(NamedTuple):
    about: str
    make: Callable[[int, bool], Language]
    random: bool = True  # whether the seed and pruning mean anything


PRESETS: dict[str, Preset] = {
    "paper-2gram": Preset(
        "Table 1: V 8, temperature 2, threshold 0.008",
        lambda seed, pruned: random_ngram(2, threshold=0.008 * pruned, seed=seed),
    ),
    "paper-3gram": Preset(
        "Table 1: V 8, temperature 2, threshold 0.008",
        lambda seed, pruned: random_ngram(3, threshold=0.008 * pruned, seed=seed),
    ),
    "paper-4gram": Preset(
        "Table 1: V 8, temperature 2, threshold 0.005",
        lambda seed, pruned: random_ngram(4, threshold=0.005 * pruned, seed=seed),
    ),
    "paper-hmm": Preset(
        "Table 1 as printed: S 32, V 8; accepts nearly every string: fluency only, see sparse-hmm for SER",
        lambda seed, pruned: random_hmm(threshold=0.003 * pruned, seed=seed),
    ),
    "sparse-hmm": Preset(
        "S 32, V 8, four successors a state, symbol s mod 8: the HMM for SER",
        lambda seed, pruned: sparse_hmm(successors=4 if pruned else None, seed=seed),
    ),
    "interval-5": Preset("Theorem 4.4 with l = 5: V 16, exact in closed form", lambda *_: Interval(5), False),
    "modular-sum": Preset("chained sums modulo 10: 4+9=3;3+5=8", lambda *_: ModularSum(), False),
    "brackets": Preset("balanced brackets, two kinds to depth 4, all equally likely", lambda *_: Brackets(), False),
}


def preset(name: str, seed: int = 0, pruned: bool = True) -> Language:
    """A standard language. pruned=True has impossible strings (for SER), pruned=False has none (as the paper's TER)."""
    entry = PRESETS[arguments.word("preset", name, PRESETS)]
    check_seed(seed)
    arguments.flag("pruned", pruned)
    if not entry.random and not pruned:
        raise UnmaskError(f"{name} is its support: there is nothing to prune; drop pruned=False (--no-pruned)")
    return entry.make(seed, pruned)
