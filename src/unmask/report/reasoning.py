"""The paper's second figure, right, with a known truth: networks learn sums, and each step of an answer is checked.

    questions   1+2+3+4= is given, 3+3+4=6+4=0 is the answer: it follows, so that the exact denoiser needs one step
    chains      4+9=3;3+5=8;.. from nothing, which takes many steps with any network

An MDM and an AR model of the same size learn each. Answers and steps are counted against the number of sampling steps,
in random order, by confidence and from left to right. A sweep like that of figure 1, with times at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from unmask.core import arguments
from unmask.experiments.jobs.recipe import Recipe, from_dict
from unmask.experiments.jobs.run import Sweep
from unmask.networks.model.shape import KINDS
from unmask.report.publishing import Page, check_settings
from unmask.report.view import View
from unmask.report.whole import viewed

TASKS: dict[str, dict[str, Any]] = {
    "questions": {"language": "modular-sum(terms=4)", "length": 19, "preset": "questions", "prompt_length": 8},
    "chains": {"language": "modular-sum", "length": 65, "preset": "sums", "prompt_length": 0},
}
ORDERS = ("ancestral", "low-confidence", "left-to-right")
VIEW = View(
    "reasoning",
    (
        "answer-error-by-sampler",
        "ser-by-sampler",
        "lucky-answers-by-sampler",
        "answer-error-by-network",
        "front",
        "headroom",
        "training",
    ),
    {"metric": "answer_error", "model": "trained"},
)


@dataclass(frozen=True)
class Settings:
    """Both tasks, in a quarter of an hour of two cores; `quick` is the questions alone."""

    tasks: tuple[str, ...] = tuple(TASKS)
    steps: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    rows: int = 1000
    batch: int = 16  # rows that are timed together
    training_steps: int | None = None  # None: the presets'
    seed: int = 0  # of networks and samples

    def __post_init__(self) -> None:
        check_settings(self)
        for task in self.tasks:
            arguments.word("task", task, TASKS)


def quick(**changes: Any) -> Settings:
    return replace(Settings(("questions",), rows=500), **changes)


def recipe(settings: Settings, device: str = "auto") -> Recipe:
    """The sweep, trainings first, and times last, when nothing else is left to do."""
    s = settings
    tasks = [TASKS[task] for task in s.tasks]
    of_each = {"zip": {name: [task[name] for task in tasks] for name in TASKS["chains"]}}
    rounds = {"grid": {"sampler": list(ORDERS), "steps": list(s.steps)}}
    parts: list[dict[str, Any]] = [
        {"metrics": ["training"], "grid": {"kind": list(KINDS)}} | of_each,
        {"metrics": ["learned"]} | rounds | of_each,
        {"metrics": ["learned(sampler=autoregressive)"]} | of_each,
    ]
    if "questions" in s.tasks:
        parts.append({"metrics": ["samples"], "fixed": TASKS["questions"] | {"steps": 1}})
    if "chains" in s.tasks:
        parts.append({"metrics": ["samples"], "fixed": TASKS["chains"]} | rounds)
    parts.append({"metrics": ["clock"], "grid": {"kind": list(KINDS)}} | of_each)
    network = {"training_steps": s.training_steps, "device": device, "batch": s.batch}
    return from_dict({"name": "reasoning", "fixed": network, "rows": s.rows, "seeds": [s.seed], "parts": parts})


def page(device: str = "auto") -> Page[Settings, Sweep]:
    """device: where networks train; no number depends on it, so it is no setting."""
    return viewed(VIEW, partial(recipe, device=device))
