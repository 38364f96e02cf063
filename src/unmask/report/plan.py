"""What the demo measures: a sweep of four grids, each of which a figure shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unmask.core.errors import UnmaskError
from unmask.experiments.jobs.recipe import Recipe, from_dict
from unmask.experiments.measures.rounds import predictable
from unmask.experiments.measures.sources import ground_truth
from unmask.languages import Interval

LARGE = ("paper-3gram", "paper-4gram")  # where a row is dear
SEEDS = 2  # of a comparison of samplers


@dataclass(frozen=True)
class Settings:
    """How much is measured; the defaults are the demo's, and those of recipes/demo.yaml."""

    rows: int = 2000
    small_rows: int = 500  # of the larger languages, and of each point of the length panel
    seed: int = 0  # of the luck
    language_seed: int = 0
    generative_perplexity: bool = False
    lengths: tuple[str, ...] = ()  # languages of the length panel beside the standard two
    languages: tuple[str, ...] = ("paper-2gram", "paper-3gram", "paper-4gram", "sparse-hmm", "interval-5")
    steps: tuple[int, ...] = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
    length: int = 512
    panel_languages: tuple[str, ...] = ("paper-2gram", "interval-5")
    panel_lengths: tuple[int, ...] = (128, 256, 512, 1024, 2048)
    profile_rows: int = 100
    perplexity_rows: int = 200
    excess: float = 0.01  # of TER, in the length panel
    ser: float = 0.5
    samplers: tuple[str, ...] = (
        "ancestral",
        "low-confidence",
        "entropy",
        "strided",
        "clairvoyant",
        "gibbs(stride=8)",
        "speculative",
    )
    sampler_languages: tuple[str, ...] = ("paper-2gram", "sparse-hmm", "interval-5")
    sampler_length: int = 128
    sampler_rows: int = 100  # of all seeds together

    def __post_init__(self) -> None:
        for name in ("rows", "small_rows"):
            if getattr(self, name) < 1:
                raise UnmaskError(f"{name} is {getattr(self, name)}, but at least 1 row is needed")

    @property
    def panel(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.panel_languages + self.lengths))


def recipe(settings: Settings) -> Recipe:
    """The sweep of a demo; fails where a language is none that it can show."""
    s = settings
    for name in dict.fromkeys((*s.languages, *s.panel, *s.sampler_languages)):
        if ground_truth(name, s.language_seed).end is not None:
            what = "its sequences vary in length, and the demo compares fixed lengths"
            raise UnmaskError(f"cannot show {name}: {what}; name another language")
    parts = [_errors(s), _curves(s), _lengths(s)]
    if s.generative_perplexity:
        parts.append(_perplexity(s))
    seeds = {"language_seed": s.language_seed, "seed": s.seed}
    parts = [part | {"fixed": part.get("fixed", {}) | seeds} for part in parts if part]
    return from_dict({"name": "demo", "parts": [*parts, _samplers(s)]})


def _errors(s: Settings) -> dict[str, Any]:
    """SER and TER against N, with AR beside them."""
    return {
        "metrics": ["samples", f"ter_upper(rows={s.profile_rows})", "autoregressive"],
        "zip": {
            "language": list(s.languages),
            "rows": [s.small_rows if name in LARGE else s.rows for name in s.languages],
        },
        "grid": {"steps": list(s.steps)},
        "fixed": {"length": s.length},
    }


def _curves(s: Settings) -> dict[str, Any]:
    """What theory draws behind the points of the languages that it knows."""
    known = [name for name in s.languages if predictable(ground_truth(name, s.language_seed), s.length)]
    fixed = {"length": s.length, "least": min(s.steps), "most": max(s.steps)}
    return {"metrics": ["prediction"], "grid": {"language": known}, "fixed": fixed} if known else {}


def _perplexity(s: Settings) -> dict[str, Any]:
    """What the paper plots as TER, of languages without impossible strings."""
    names = [name for name in s.languages if not isinstance(ground_truth(name, s.language_seed), Interval)]
    if not names:
        return {}
    fixed = {"length": s.length, "pruned": False}
    grid = {"language": names, "steps": list(s.steps)}
    return {"metrics": ["samples", "autoregressive"], "grid": grid, "fixed": fixed, "rows": s.perplexity_rows}


def _lengths(s: Settings) -> dict[str, Any]:
    """The N that fluency and correctness need, against L."""
    fluency = f"steps_for_ter(rows={s.profile_rows}, excess={s.excess})"
    return {
        "metrics": [fluency, f"steps_for_ser(ser={s.ser})"],
        "grid": {"language": list(s.panel), "length": list(s.panel_lengths)},
        "rows": s.small_rows,
    }


def _samplers(s: Settings) -> dict[str, Any]:
    """Some samplers side by side at a few budgets, half of the rows from each of two seeds (unmask/board)."""
    seeds = {"language_seed": s.language_seed, "seed": s.seed}
    return {
        "metrics": ["curve"],
        "grid": {"language": list(s.sampler_languages), "sampler": list(s.samplers)},
        "fixed": {"length": s.sampler_length, "quick": True, "ter_rows": 0},
        "rows": max(s.sampler_rows // SEEDS, 1),
        "zip": {name: [first + i for i in range(SEEDS)] for name, first in seeds.items()},
    }
