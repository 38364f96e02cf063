"""Types of options that commands share. The docstring of a command explains its options, except usual ones (ABOUT).

The text next to a type is its value in help: "FILE", "N".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from unmask.core.errors import UnmaskError

ABOUT = {  # the help of an option that a docstring does not explain
    "json": "Print one JSON object instead of text.",
    "language": 'Preset with options, "sparse-hmm(seed=3, pruned=False)", or a language file.',
    "length": "Sequence length in tokens.",
    "steps": "Number of steps N.",
    "schedule": "Schedule: how much each step reveals (see `unmask list schedules`).",
    "seed": "Random seed.",
    "top_p": "Keep the most likely tokens up to this total probability.",
    "guidance": "Classifier-free guidance scale; 0 is off. Doubles the number of model calls.",
    "samples": "Tokens (sequences, length): a .npy file of integers, or .jsonl with one list per line.",
    "records": "Directory of `unmask eval`, or its records.jsonl.",
    "store": "Directory of a sweep.",
    "open": "Open the page in the browser.",
}

Name = Annotated[str, "LANGUAGE"]
Switch = bool  # off by default
Count = int | None
Number = float | None
Word = Annotated[str | None, "NAME"]
Named = Annotated[str | None, "LANGUAGE"]
File = Annotated[Path | None, "FILE"]
Directory = Annotated[Path | None, "DIR"]
Counts = tuple[int, ...]
Languages = Annotated[tuple[str, ...], "LANGUAGE"]
Samples = Annotated[Path, "SAMPLES"]
Model = Annotated[str | None, "MODEL"]  # a directory, or the name of an open model
Text = Annotated[str | None, "TEXT"]
Texts = Annotated[tuple[str, ...], "TEXT"]

Printed = Sequence[tuple[str, str]] | Callable[[], object]


class Answer(NamedTuple):
    """The result of a command: a table for people, and JSON with --json. A command that declares `json` gets it too.

    text: lines in place of the table, or a function that prints them; failure: an error that follows the output;
    status: the exit code.
    """

    result: Mapping[str, Any]
    text: Printed | None = None
    failure: str = ""
    status: int = 0


class Portion(float):
    """A fraction, as 10% or 0.1."""

    def __new__(cls, word: str) -> Portion:
        return super().__new__(cls, float(word[:-1]) / 100 if word.endswith("%") else float(word))


Assignments = Annotated[tuple[str, ...], "NAME=VALUE"]
Engine = Literal["local", "ray", "here"] | None


@dataclass(frozen=True)
class Measuring:
    """Options to run a sweep, in every command that runs one.

    Args:
        engine: Processes on this machine (local), tasks on a Ray cluster (ray), or this process only (here).
            (default: local; here if networks run on a GPU)
        workers: Number of processes or tasks. (default: number of cores)
        threads: Cores for each process or task.
        address: Address of a running Ray cluster; "auto" finds it.
        limit: Time limit of a block of sequences in seconds; its cell then fails.
        attempts: Lost processes after which a cell fails.
        allow_imports: Modules and files that a recipe or a store may import, for names as MODULE:Name and FILE.py:Name.
    """

    engine: Engine = None
    workers: Count = None
    threads: Count = None
    address: Annotated[str, "HOST:PORT"] = ""
    limit: Number = None
    attempts: int = 3
    allow_imports: Annotated[tuple[str, ...], "MODULE"] = ()

    def options(self, device: str = "cpu") -> dict[str, Any]:
        """Return the options of `unmask.sweep`. device: the device of networks, if there are any."""
        return asdict(self) | {"address": self.address or None, "engine": engine_on(device, self.engine)}


def refuse(given: Mapping[str, object], why: str) -> None:
    """Raise an error for the first of these options that is given: its flag, and why it does not fit."""
    for name, value in given.items():
        if value is not None:
            raise UnmaskError(f"--{name.replace('_', '-')} {why}")


def engine_on(device: str, engine: Engine = None) -> Literal["local", "ray", "here"]:
    """Return the engine. By default, one process uses a GPU, as several would wait for it."""
    if engine is not None or device == "cpu":
        return engine or "local"
    from unmask.models.trained.checkpoints import choose_device

    return "local" if choose_device(device).type == "cpu" else "here"
