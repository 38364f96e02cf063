"""The paper's first figure, exact and trained: networks that learn each language next to the exact denoiser.

A sweep trains an MDM and an AR model for each language, and measures what they and the exact denoiser generate. Its
store also holds the networks: the same command continues a stopped run, even within a training, and other numbers of
steps or rows train nothing again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from unmask.experiments.jobs.recipe import Recipe, from_dict
from unmask.experiments.jobs.run import Sweep
from unmask.languages import load
from unmask.languages.presets import varied
from unmask.networks.model.shape import KINDS, PRESETS
from unmask.report.publishing import Page, check_settings
from unmask.report.view import View
from unmask.report.whole import viewed

LAYERS = {("paper", "paper-4gram"): 10}  # its Table 3
HARD = {  # languages that the preset quick does not learn, and the preset that does
    "paper-3gram": "thorough",
    "paper-4gram": "thorough",
    "sparse-hmm": "thorough",
    "modular-sum": "sums",
}
VIEW = View(
    "figure-1",
    (
        "ser-by-network",
        "generative-perplexity-by-network",
        "learning",
        "training",
        "ser-by-language",
        "generative-perplexity-by-language",
    ),
    {"model": "trained"},
)


@dataclass(frozen=True)
class Settings:
    """The paper's setting; `quick` is one for two cores."""

    languages: tuple[str, ...] = ("paper-2gram", "paper-3gram", "paper-4gram", "sparse-hmm")
    preset: str = "paper"
    length: int | None = None  # at least; None: the preset's
    steps: tuple[int, ...] = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
    rows: int = 2000
    training_steps: int | None = None  # None: the recipe's
    seed: int = 0  # of networks and samples
    language_seed: int = 0

    def __post_init__(self) -> None:
        check_settings(self)

    @cached_property
    def lengths(self) -> dict[str, int]:
        """The nearest length that each language has."""
        wanted = PRESETS[self.preset]["length"] if self.length is None else self.length
        return {
            name: load(varied(name, seed=self.language_seed)).nearest_lengths(wanted)[-1] for name in self.languages
        }

    def preset_of(self, language: str) -> str:
        return HARD.get(language, self.preset) if self.preset == "quick" else self.preset


def quick(**changes: Any) -> Settings:
    """Six languages, 64 tokens and 200,000 parameters, for two cores."""
    own = Settings(preset="quick", steps=(2, 4, 8, 16, 32, 64, 128), rows=1000)
    own = replace(own, languages=(*own.languages, "interval-5", "modular-sum"))
    return replace(own, **changes)


def recipe(settings: Settings, device: str = "auto") -> Recipe:
    """The sweep, trainings first: they take longest, and the rest waits for them."""
    s = settings
    of_each = {
        "language": list(s.languages),
        "length": [s.lengths[name] for name in s.languages],
        "preset": [s.preset_of(name) for name in s.languages],
        "layers": [LAYERS.get((s.preset, name)) for name in s.languages],
    }
    network = {"training_steps": s.training_steps, "device": device}
    return from_dict(
        {
            "name": "figure-1",
            "zip": of_each,
            "fixed": {"language_seed": s.language_seed} | network,
            "rows": s.rows,
            "seeds": [s.seed],
            "parts": [
                {"metrics": ["training"], "grid": {"kind": list(KINDS)}},
                {"metrics": ["samples", "learned"], "grid": {"steps": list(s.steps)}},
                {"metrics": ["learned(sampler=autoregressive)", "autoregressive"]},
            ],
        }
    )


def page(device: str = "auto") -> Page[Settings, Sweep]:
    """device: where networks train; no number depends on it, so it is no setting."""
    return viewed(VIEW, partial(recipe, device=device))
