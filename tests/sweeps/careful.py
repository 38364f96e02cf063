"""The metric `training`, with a checkpoint at every step, and a line in the log of trivial.py for each step."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

from tests.sweeps.trivial import note
from unmask.experiments.measures.training import training
from unmask.networks.training import loop as networks


def careful(*, language: str, training_steps: int, seconds: float = 0.0, place: Path) -> list[dict[str, Any]]:
    """seconds: that each step takes at least."""
    learn = networks.Training._learn

    def noted(self: networks.Training, batch: Any) -> None:
        note(f"step {self.step}")
        time.sleep(seconds)
        learn(self, batch)

    networks.Training._learn = noted  # type: ignore[method-assign]
    networks.Conditions = partial(networks.Conditions, save_seconds=0.0)  # type: ignore[assignment,misc]
    return training(language=language, length=8, training_steps=training_steps, device="cpu", place=place)
