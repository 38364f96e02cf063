"""The journal of a training: one entry per validation, optionally also for TensorBoard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.core.errors import UnmaskError
from unmask.networks.training.validation import Validation

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


NOTHING: Mapping[str, float] = {}


class Journal:
    """Entries of plain values, ordered by step."""

    def __init__(self, directory: Path, tensorboard: bool, say: Callable[[str], None] | None) -> None:
        self.entries: list[dict[str, Any]] = []
        self.say = say
        self.writer = _writer(directory) if tensorboard else None

    def add(
        self,
        step: int,
        seconds: float,
        rate: float,
        loss: float,
        held_out: Validation,
        bits: Mapping[str, float] = NOTHING,
    ) -> None:
        """Add an entry; `bits` is the validation loss of a text in other units."""
        validation = held_out.loss.value
        numbers = {"rate": rate, "loss": loss, "validation": validation}
        line = f"loss {loss:.4f}, validation {validation:.4f} nats per token"
        if held_out.excess_percent is not None:
            numbers["excess_percent"] = held_out.excess_percent.value
            line += f", {numbers['excess_percent']:.2f}% above the entropy"
        for name, value in bits.items():
            numbers[name] = value
            line += f", {value:.4f} {name.replace('_', ' ')}"
        self.entries.append({"step": step, "seconds": seconds} | numbers)
        if self.writer is not None:
            for name, value in numbers.items():
                self.writer.add_scalar(name, value, step)
            self.writer.flush()
        if self.say is not None:
            self.say(f"step {step}, {seconds:.0f} s: {line}")

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


def check_tensorboard() -> None:
    """Raise an error if TensorBoard is missing, before the training starts."""
    if find_spec("tensorboard") is None:
        raise UnmaskError("TensorBoard is not installed. Run pip install tensorboard, or leave --tensorboard out")


def _writer(directory: Path) -> SummaryWriter:
    check_tensorboard()
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(directory / "tensorboard"))
