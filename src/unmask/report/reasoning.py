"""The paper's second figure, right, with a known truth: sums that are learned, asked and judged step by step.

    questions   1+2+3+4= is given, and 3+3+4=6+4=0 is asked: it follows, so that the ideal denoiser needs one round
    chains      4+9=3;3+5=8;.. from nothing, which needs many rounds whatever a network has learned

An MDM and its AR twin learn each; answers, and what the language says of their steps, are counted by the number of
rounds, in random order, by confidence and from left to right. A sweep like that of figure 1, with times at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate
from unmask.experiments.jobs.recipe import Recipe, from_dict
from unmask.experiments.jobs.run import Sweep
from unmask.experiments.jobs.store import FILES
from unmask.experiments.measures.catalogue import Record
from unmask.networks.model.shape import KINDS
from unmask.report.results import STORE

TASKS: dict[str, dict[str, Any]] = {
    "questions": {"language": "modular-sum(terms=4)", "length": 19, "preset": "questions", "prompt_length": 8},
    "chains": {"language": "modular-sum", "length": 65, "preset": "sums", "prompt_length": 0},
}
ORDERS = ("ancestral", "low-confidence", "left-to-right")
MEASURES = ("answer", "steps", "lucky_answers", "wrong_steps")
RIGHT = {"answer_error": "answer", "ser": "steps"}  # of which the share without is shown
MILLISECONDS = "milliseconds"
EXCESS = "excess_percent"


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
        if not self.tasks:
            raise UnmaskError("expected at least one task")
        for task in self.tasks:
            arguments.word("task", task, TASKS)
        if not self.steps:
            raise UnmaskError("expected numbers of sampling steps")
        for count in self.steps:
            arguments.steps(count)
        arguments.whole("rows", self.rows, 1, arguments.MOST_ROWS)


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


def measured(made: Sweep, settings: Settings) -> list[Record]:
    """What the page shows of the cells: of each task both networks, what their rows are like, and times."""
    names = {task["language"]: name for name, task in TASKS.items()}
    found = []
    for row in made.whole().rows():
        measure, estimate = row["measure"], Estimate.of_record(row)
        ar = "ar" in (row.get("kind"), *(["ar"] if row.get("sampler") == "autoregressive" else []))
        about: Record = {"task": names[row["language"]], "kind": "ar" if ar else "mdm"}
        about |= {"model": "exact" if row["metric"] == "samples" else "trained"}
        about |= {"sampler": row.get("sampler"), "steps": None if ar else row.get("steps")}
        about |= {"measure": RIGHT.get(measure, measure), "evaluations": row["evaluations"]}
        if measure in RIGHT:
            found.append(about | asdict(rest(estimate)))
        elif measure in (*MEASURES, MILLISECONDS):
            found.append(about | asdict(estimate))
        elif measure == EXCESS:
            found.append(about | asdict(estimate) | {"network": f"{STORE}/{FILES}/{row['key']}"})
    return found


def rest(share: Estimate) -> Estimate:
    """1 - a share."""
    return replace(share, value=1 - share.value, low=1 - share.high, high=1 - share.low)


def seconds(records: Sequence[Record], settings: Settings) -> dict[tuple[str, str], float]:
    """Of one evaluation of an MDM, or one token of an AR model, of a row of the batch: by task and kind."""
    return {
        (record["task"], record["kind"]): record["value"] / 1000 / settings.batch
        for record in records
        if record["measure"] == MILLISECONDS
    }
