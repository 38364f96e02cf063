"""What a demo measures: the cells of recipes/demo.yaml, of any settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unmask.core.errors import UnmaskError
from unmask.experiments.jobs.recipe import Recipe, from_dict
from unmask.experiments.measures.rounds import predictable
from unmask.experiments.measures.sources import ground_truth
from unmask.languages.presets import is_random
from unmask.report.demo.settings import LARGE, Settings

Part = dict[str, Any]

SEEDS = 2  # of a comparison of samplers


def recipe(settings: Settings) -> Recipe:
    """All of it; fails where a language is none that can be shown."""
    dear = [name for name in settings.languages if name not in _cheap(settings)]
    parts = [
        *_first(settings),
        *([_errors(settings, dear)] if dear else []),
        *_perplexity(settings),
        _lengths(settings),
    ]
    return _recipe(settings, [*parts, *_samplers(settings)])


def first(settings: Settings) -> Recipe:
    """What is soon there: the errors of the languages where a row is cheap, and what theory says of them."""
    return _recipe(settings, _first(settings))


def _first(settings: Settings) -> list[Part]:
    return [_errors(settings, _cheap(settings)), *_curves(settings)]


def _cheap(settings: Settings) -> list[str]:
    return [name for name in settings.languages if name not in LARGE] or list(settings.languages)


def _recipe(s: Settings, parts: list[Part]) -> Recipe:
    for name in dict.fromkeys((*s.shown, *s.sampler_languages)):
        if ground_truth(name, s.language_seed).end is not None:
            what = "its sequences vary in length, and the demo compares fixed lengths"
            raise UnmaskError(f"cannot show {name}: {what}; name another language")
    seeds = {"language_seed": s.language_seed, "seed": s.seed}  # of those that do not have their own
    own = [part if "seed" in part.get("zip", {}) else part | {"fixed": part.get("fixed", {}) | seeds} for part in parts]
    return from_dict({"name": "demo", "parts": own})


def _errors(s: Settings, languages: Sequence[str]) -> Part:
    """SER and TER against N, with AR beside them."""
    rows = [s.small_rows if name in LARGE else s.rows for name in languages]
    return {
        "metrics": ["samples", f"ter_upper(rows={s.profile_rows})", "autoregressive"],
        "zip": {"language": list(languages), "rows": rows},
        "grid": {"steps": list(s.steps)},
        "fixed": {"length": s.length},
    }


def _curves(s: Settings) -> list[Part]:
    """What theory draws behind the points of the languages that it knows."""
    known = [name for name in s.languages if predictable(ground_truth(name, s.language_seed), s.length)]
    fixed = {"length": s.length, "least": min(s.steps), "most": max(s.steps)}
    return [{"metrics": ["prediction"], "grid": {"language": known}, "fixed": fixed}] if known else []


def _perplexity(s: Settings) -> list[Part]:
    """What the paper plots as TER, where it is asked for: of languages that can be had without impossible strings."""
    names = [name for name in s.languages if is_random(name)]
    if not names or not s.generative_perplexity:
        return []
    fixed = {"length": s.length, "pruned": False}
    grid = {"language": names, "steps": list(s.steps)}
    return [{"metrics": ["samples", "autoregressive"], "grid": grid, "fixed": fixed, "rows": s.perplexity_rows}]


def _lengths(s: Settings) -> Part:
    """The rounds that each yardstick takes, as sequences grow."""
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
