"""The result of a training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unmask.core.tables import as_table
from unmask.networks.model.shape import Shape
from unmask.networks.training.validation import Validation


@dataclass(frozen=True)
class Trained:
    """Losses, cost and conditions of a trained network."""

    directory: Path
    steps: int
    seconds: float
    loss: float  # nats per token, on the examples of the last steps
    validation: Validation
    parameters: int
    tokens_per_second: float
    shape: Shape
    device: str
    threads: int
    precision: str
    processes: int
    bits: Mapping[str, float]  # validation loss of a text in bits per character and per byte; empty for a language

    __repr__ = as_table

    def to_dict(self) -> dict[str, Any]:
        entries = {
            "directory": str(self.directory),
            "steps": self.steps,
            "seconds": self.seconds,
            "parameters": self.parameters,
            "tokens_per_second": self.tokens_per_second,
            "device": self.device,
            "threads": self.threads,
            "precision": self.precision,
            "loss_nats_per_token": self.loss,
            "validation_nats_per_token": self.validation.loss.to_dict(),
        }
        if self.validation.excess_percent is not None:
            entries["entropy_nats_per_token"] = self.validation.entropy
            entries["excess_percent"] = self.validation.excess_percent.to_dict()
        return entries | {f"validation_{name}": value for name, value in self.bits.items()}
