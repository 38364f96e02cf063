"""What a training says while it runs: one entry at each validation; TensorBoard where it is asked for."""

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
    """Entries of plain values, in the order of their steps."""

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
        found: Validation,
        bits: Mapping[str, float] = NOTHING,
    ) -> None:
        """bits: what the validation loss is in other units, of a text."""
        validation = found.loss.value
        numbers = {"rate": rate, "loss": loss, "validation": validation}
        said = f"loss {loss:.4f}, validation {validation:.4f} nats a token"
        if found.excess_percent is not None:
            numbers["excess_percent"] = found.excess_percent.value
            said += f", {numbers['excess_percent']:.2f}% above the entropy"
        for name, value in bits.items():
            numbers[name] = value
            said += f", {value:.4f} {name.replace('_per_', ' a ')}"
        self.entries.append({"step": step, "seconds": seconds} | numbers)
        if self.writer is not None:
            for name, value in numbers.items():
                self.writer.add_scalar(name, value, step)
            self.writer.flush()
        if self.say is not None:
            self.say(f"step {step}, {seconds:.0f} s: {said}")

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


def check_tensorboard() -> None:
    """Fail before the work is done."""
    if find_spec("tensorboard") is None:
        raise UnmaskError("TensorBoard was asked for and is not installed; pip install tensorboard, or do without it")


def _writer(directory: Path) -> SummaryWriter:
    check_tensorboard()
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(directory / "tensorboard"))
