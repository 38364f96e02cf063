"""The metric `training`, with a checkpoint at every step, and a line in the log of trivial.py for each step."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from tests.experiments.sweeps.trivial import note
from unmask.experiments.cell import Place
from unmask.experiments.jobs import training as jobs
from unmask.models.trained.loop import Training


def careful(*, language: str, training_steps: int, seconds: float = 0.0, place: Place) -> list[dict[str, Any]]:
    """seconds: that each step takes at least."""
    learn = Training._learn

    def noted(self: Training, batch: Any) -> None:
        note(f"step {self.step}")
        time.sleep(seconds)
        learn(self, batch)

    Training._learn = noted  # type: ignore[method-assign]
    jobs.Conditions = partial(jobs.Conditions, save_seconds=0.0)  # type: ignore[assignment,misc]
    student = jobs.Student(language, length=8, layers=1, training_steps=training_steps, device="cpu")
    return jobs.training(student, jobs.Teaching(), place)
