"""What a training says while it runs: one entry at each validation; TensorBoard where it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.core.errors import UnmaskError
from unmask.networks.training.validation import Validation

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class Journal:
    """Entries of plain values, in the order of their steps."""

    def __init__(self, directory: Path, tensorboard: bool, say: Callable[[str], None] | None) -> None:
        self.entries: list[dict[str, Any]] = []
        self.say = say
        self.writer = _writer(directory) if tensorboard else None

    def add(self, step: int, seconds: float, rate: float, loss: float, found: Validation) -> None:
        validation, excess = found.loss.value, found.excess_percent.value
        entry = {"step": step, "seconds": seconds, "rate": rate, "loss": loss}
        entry |= {"validation": validation, "excess_percent": excess}
        self.entries.append(entry)
        if self.writer is not None:
            for name in ("rate", "loss", "validation", "excess_percent"):
                self.writer.add_scalar(name, entry[name], step)
            self.writer.flush()
        if self.say is not None:
            numbers = f"loss {loss:.4f}, validation {validation:.4f} nats a token, {excess:.2f}% above the entropy"
            self.say(f"step {step}, {seconds:.0f} s: {numbers}")

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
