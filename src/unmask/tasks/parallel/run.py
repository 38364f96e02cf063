"""Measure a model on the tasks of parallel decoding, next to the exact denoiser of each task.

The tasks, samplers and settings are those of ParallelBench (Kang et al., arXiv 2510.04767). Each answer is a record of
`unmask eval`, in a store of `unmask sweep`, so an interrupted run resumes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import compress
from statistics import fmean
from typing import Any

from unmask.core import arguments
from unmask.core.run import Loading
from unmask.experiments.board.families import family, lists_budgets, with_steps
from unmask.experiments.recipe import Recipe
from unmask.tasks import TASKS, evaluation
from unmask.tasks.evaluation.run import plan
from unmask.tasks.exact import NAME, ideal, is_ideal
from unmask.tasks.lists import REQUESTS
from unmask.tasks.parallel.points import of_samples
from unmask.tasks.parallel.points import settings as grouped
from unmask.tasks.parallel.table import Suite, suites
from unmask.tasks.sample import Sample

K = (1, 2, 4, 8, 16, 32)  # tokens of a step
QUICK_K = (1, 2, 8, 32)
SETTINGS = {  # of samplers that choose their own number of steps
    "threshold": "threshold(threshold=[0.5, 0.6, 0.7, 0.8, 0.9, 1.0])",
    "factor": "factor(factor=[1.9, 1.6, 1.3, 1.0, 0.7])",
    "klass": "klass(threshold=[0.7, 0.8, 0.9, 0.95])",
    "wino": "wino(threshold=[0.5, 0.6, 0.7, 0.8, 0.9, 1.0])",
}
SAMPLERS = ("fixed-size", "left-to-right", "low-confidence", "margin", "entropy", *SETTINGS)
LISTS = tuple(f"lists(operation='{operation}')" for operation in REQUESTS)
EVERY = (*LISTS, "latin", "sudoku(empty=4, unique=False)")
BRIEF = (*(f"lists(operation='{name}')" for name in ("copy", "shuffle", "replace-random", "remove-random")), "latin")
MOST, QUICK_MOST = 100, 20  # items of a task
STORE = "sweep"  # in the directory of a page


@dataclass(frozen=True)
class Settings:
    """A model, tasks and samplers. The exact denoiser of each task is measured, too."""

    model: str = NAME
    tasks: tuple[str, ...] = ()
    samplers: tuple[str, ...] = ()
    tokens: str = "words"  # of the exact denoiser, or the tokenizer of the model
    items: int | None = None  # of a task
    each: int = 1  # samples of an item
    quick: bool = False
    temperature: float | None = None  # (default: 0 for open models, else 1)
    chat: bool = False
    seed: int = 0
    batch: int = 8
    loading: Loading = Loading()

    def __post_init__(self) -> None:
        for task in self.every_task:
            TASKS.make(task)
        arguments.whole("items", self.most, 1)

    @property
    def exact(self) -> bool:
        """Whether the exact denoiser is the only model."""
        return is_ideal(self.model)

    @property
    def every_task(self) -> tuple[str, ...]:
        return self.tasks or (BRIEF if self.quick else EVERY)

    @property
    def most(self) -> int:
        usual = QUICK_MOST if self.quick else MOST
        return usual if self.items is None else self.items

    @property
    def models(self) -> tuple[str, ...]:
        """The exact denoiser, then the model."""
        names = (self.model,) if self.exact else (f"{NAME}(tokens={self.tokens!r})", self.model)
        return tuple(name if (known := ideal(name)) is None else known.about["card"] for name in names)

    def of(self, model: str) -> list[evaluation.Settings]:
        """The settings of `unmask eval` for one model: each task, sampler and budget."""
        usual = 1.0 if self.exact else 0.0
        common: dict[str, Any] = {"model": model, "limit": self.most, "each": self.each, "seed": self.seed}
        common |= {"temperature": (usual if self.temperature is None else self.temperature,), "batch": self.batch}
        if not is_ideal(model):
            common |= {"chat": self.chat, "eos": ("fill",)} | asdict(self.loading)
        return [
            evaluation.Settings(task=task, sampler=(sampler,), steps=() if steps is None else (steps,), **common)
            for task in self.every_task
            for name in self.samplers or SAMPLERS
            for sampler, steps in budgets(name, TASKS.make(task).length, self.quick)
        ]


def budgets(sampler: str, length: int, quick: bool = False) -> list[tuple[str, int | None]]:
    """(sampler, N) of each setting: the published ones, or those that the specification lists."""
    usual = SETTINGS.get(sampler)
    sampler = usual or sampler
    steps = [math.ceil(length / k) for k in (QUICK_K if quick else K) if k <= length]
    member = family(sampler if lists_budgets(sampler) else with_steps(sampler, steps), length)
    return [member.at(value) for value in member.values[:: 2 if quick and usual else 1]]


def recipe(settings: Settings) -> Recipe:
    """The sweep of all answers."""
    return plan([one for model in settings.models for one in settings.of(model)])


def measured(samples: Sequence[Sample], settings: Settings) -> list[Suite]:
    """The results of the model, with the accuracies of the exact denoiser as its ceilings."""
    tasks = set(settings.every_task)
    own = [one for one in samples if one.about["task"] in tasks]
    cards = [one.about["model"]["card"] for one in own]  # an open model has another name in its card, so all count
    here = [card in settings.models or not (settings.exact or is_ideal(card)) for card in cards]
    own = list(compress(own, here))
    outcomes = of_samples(own)
    exact = [one for one in outcomes if is_ideal(one.model)]
    ceilings = {
        (task, one.sampler, one.setting): fmean(outcome.score for outcome in items)
        for one in grouped(exact)
        for task, items in one.tasks.items()
    }
    if settings.exact:
        return suites(outcomes)
    return suites([one for one in outcomes if not is_ideal(one.model)], ceilings=ceilings)
