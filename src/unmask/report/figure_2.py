"""The paper's second figure, left, on a text: an MDM and an AR model learn it, judges score what they write.

A sweep like that of figure 1: its store holds both networks, the same command continues a stopped run, and other
numbers of steps or rows train nothing again. Times are measured last, on one thread.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from unmask.experiments.jobs.recipe import Recipe, from_dict
from unmask.experiments.jobs.run import Sweep
from unmask.networks.model.shape import KINDS
from unmask.report.publishing import Page, check_settings
from unmask.report.view import View
from unmask.report.whole import viewed

VIEW = View(
    "figure-2",
    (
        "generative-perplexity-by-language",
        "unknown-words-by-language",
        "generative-perplexity-absolute-by-language",
        "ngram-perplexity-by-language",
        "smollm2-perplexity-by-language",
        "token-entropy-by-language",
        "training",
    ),
    {"metric": "generative_perplexity"},
)


@dataclass(frozen=True)
class Settings:
    """What half an hour of two cores can do; `quick` is one for five minutes."""

    text: str = "kjv"
    tokenizer: str = "bpe:1024"
    preset: str = "text"
    length: int | None = None  # None: the preset's
    layers: int | None = None
    hidden: int | None = None
    training_steps: int | None = None  # None: the recipe's
    steps: tuple[int, ...] = (4, 8, 16, 32, 64, 128, 256, 512)
    rows: int = 200
    batch: int = 16  # rows that are timed together
    smollm2: bool = False
    seed: int = 0  # of networks and samples

    def __post_init__(self) -> None:
        check_settings(self)


def quick(**changes: Any) -> Settings:
    return replace(Settings(training_steps=700, length=64, rows=128), **changes)


def recipe(settings: Settings, device: str = "auto") -> Recipe:
    """The sweep, trainings first, and times last, when nothing else is left to do."""
    s = settings
    network = {name: getattr(s, name) for name in ("text", "tokenizer", "preset", "length", "layers", "hidden")}
    network |= {"training_steps": s.training_steps, "device": device, "smollm2": s.smollm2, "batch": s.batch}
    steps = {"steps": list(s.steps)}
    return from_dict(
        {
            "name": "figure-2",
            "fixed": network,
            "rows": s.rows,
            "seeds": [s.seed],
            "parts": [
                {"metrics": ["text_training"], "grid": {"kind": list(KINDS)}},
                {"metrics": ["written"], "grid": steps},
                {"metrics": ["written(sampler=autoregressive)", "original"]},
                {"metrics": ["text_clock"], "grid": steps},
                {"metrics": ["text_clock(kind=ar)"]},
            ],
        }
    )


def page(device: str = "auto") -> Page[Settings, Sweep]:
    """device: where networks train; no number depends on it, so it is no setting."""
    return viewed(VIEW, partial(recipe, device=device))
