"""The paper's central result: fluency and correctness of sampling with the exact denoiser, against N and L.

The cells are those of recipes/demo.yaml, with any settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.experiments.jobs.recipe import Recipe, from_dict
from unmask.experiments.measures.rounds import predictable
from unmask.experiments.measures.sources import ground_truth
from unmask.languages.presets import is_random
from unmask.report.view import View
from unmask.report.whole import viewed

Part = dict[str, Any]
SEEDS = 2  # of a comparison of samplers
LARGE = ("paper-3gram", "paper-4gram")  # where a sequence is expensive
VIEW = View(
    "demo",
    (
        "ser-by-language",
        "ter-by-language",
        "lengths",
        "front",
        "headroom",
        "generative-perplexity-by-language",
        "diversity-by-language",
        "schedule",
    ),
)


@dataclass(frozen=True)
class Settings:
    """How much is measured; the defaults are the demo's, and those of recipes/demo.yaml."""

    rows: int = 2000
    small_rows: int = 500  # of the larger languages, and of each point of the length panel
    seed: int = 0  # of the random numbers
    language_seed: int = 0
    generative_perplexity: bool = False
    lengths: tuple[str, ...] = ()  # languages of the length panel besides the standard two
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
            arguments.whole(name, getattr(self, name), 1, arguments.MOST_ROWS)

    @property
    def panel(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.panel_languages + self.lengths))


def recipe(settings: Settings) -> Recipe:
    """The cheap languages first; fails on a language that the demo cannot show."""
    cheap = [name for name in settings.languages if name not in LARGE]
    large = [name for name in settings.languages if name in LARGE]
    parts = [
        *([_errors(settings, cheap)] if cheap else []),
        *_curves(settings),
        *([_errors(settings, large)] if large else []),
        *_perplexity(settings),
        _lengths(settings),
        *_samplers(settings),
    ]
    return _recipe(settings, parts)


def _recipe(s: Settings, parts: list[Part]) -> Recipe:
    for name in dict.fromkeys((*s.languages, *s.panel, *s.sampler_languages)):
        if ground_truth(name, s.language_seed).end is not None:
            what = "its sequences vary in length, and the demo compares fixed lengths"
            raise UnmaskError(f"cannot show {name}: {what}; name another language")
    seeds = {"language_seed": s.language_seed, "seed": s.seed}  # of parts without seeds of their own
    own = [part if "seed" in part.get("zip", {}) else part | {"fixed": part.get("fixed", {}) | seeds} for part in parts]
    return from_dict({"name": "demo", "parts": own})


def _errors(s: Settings, languages: Sequence[str]) -> Part:
    """SER and TER against N, and AR."""
    rows = [s.small_rows if name in LARGE else s.rows for name in languages]
    return {
        "metrics": ["samples", f"ter_upper(rows={s.profile_rows})", "autoregressive"],
        "zip": {"language": list(languages), "rows": rows},
        "grid": {"steps": list(s.steps)},
        "fixed": {"length": s.length},
    }


def _curves(s: Settings) -> list[Part]:
    """The exact curves of the languages that have one."""
    known = [name for name in s.languages if predictable(ground_truth(name, s.language_seed), s.length)]
    fixed = {"length": s.length, "least": min(s.steps), "most": max(s.steps)}
    return [{"metrics": ["prediction"], "grid": {"language": known}, "fixed": fixed}] if known else []


def _perplexity(s: Settings) -> list[Part]:
    """The paper's TER, on request: generative perplexity of languages without impossible strings."""
    names = [name for name in s.languages if is_random(name)]
    if not names or not s.generative_perplexity:
        return []
    fixed = {"length": s.length, "pruned": False}
    grid = {"language": names, "steps": list(s.steps)}
    return [{"metrics": ["samples", "autoregressive"], "grid": grid, "fixed": fixed, "rows": s.perplexity_rows}]


def _lengths(s: Settings) -> Part:
    """The steps that SER and TER take, by length."""
    fluency = f"steps_for_ter(rows={s.profile_rows}, excess={s.excess})"
    grid = {"language": list(s.panel), "length": list(s.panel_lengths)}
    return {"metrics": [fluency, f"steps_for_ser(ser={s.ser})"], "grid": grid, "rows": s.small_rows}


def _samplers(s: Settings) -> list[Part]:
    """A small board."""
    if not s.samplers:
        return []
    first_of = (("language_seed", s.language_seed), ("seed", s.seed))
    return [
        {
            "metrics": ["curve"],
            "grid": {"language": list(s.sampler_languages), "sampler": list(s.samplers)},
            "zip": {name: [first + i for i in range(SEEDS)] for name, first in first_of},
            "fixed": {"length": s.sampler_length, "quick": True, "ter_rows": 0},
            "rows": max(s.sampler_rows // SEEDS, 1),
        }
    ]


PAGE = viewed(VIEW, recipe, early=2)  # after the cheap languages and the exact curves
