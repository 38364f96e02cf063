"""The record of one sample: its prompt, text, settings, cost and grade.

All tables are computed from records. A file of records is JSON Lines.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from unmask.core.files import atomic
from unmask.core.reading import fit, read_lines

if TYPE_CHECKING:
    from unmask.samplers import Generation

MOST = 2**32  # bytes of a file
TOO_LONG = "prompt too long"


class Sample(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    item: str
    number: int  # index among the samples of the item
    row: int  # number of the random stream
    about: dict[str, Any]  # task, data, model, settings and machine, shared by all samples of a cell
    prompt: str
    prompt_sha256: str  # of the prompt's tokens
    prompt_tokens: int
    tokens: list[int]  # the written tokens, up to the end of the sequence
    order: list[int]  # the step in which each token was written
    reason: str  # why the sequence ended
    model_calls: dict[str, int]  # model calls of the sequence, by denoiser
    forwards: int  # forward passes of the batch
    flops: float  # of the batch, divided by its rows; 0 if unknown
    seconds: float  # of the batch, divided by its rows, synchronised, without the warm-up
    memory: int | None  # peak memory of the device or process in bytes
    batch: int  # rows
    text: str
    answer: str | None = None
    right: bool | None = None  # None if it was not checked, or the prompt was too long
    why: str = ""  # the reason for right=False
    values: dict[str, float] = {}  # further numbers of the task
    positions: float | None = None  # computed positions of all model calls of the batch, divided by its rows

    @property
    def answered(self) -> bool:
        return self.reason != TOO_LONG

    @property
    def needed(self) -> int:
        return sum(self.model_calls.values())


def cost_of(result: Generation, at: int) -> dict[str, Any]:
    """The fields of the cost of row `at`; that of its batch is divided by the number of rows."""
    rows = len(result.tokens)
    return {
        "model_calls": {name: int(count[at]) for name, count in result.model_calls_of.items()},
        "forwards": result.spent.forwards,
        "flops": result.spent.flops / rows,
        "seconds": result.seconds / rows,
        "batch": rows,
        "positions": result.spent.tokens / rows,
    }


def too_long(count: int, of: int | str, context: int | None) -> str:
    """How many prompts did not fit, in words."""
    tokens = "" if context is None else f" ({context:,} tokens)"
    return f"{count} of {of} prompts too long for the context{tokens}"


class Model(msgspec.Struct):
    card: str
    dtype: str
    revision: str | None = None


class How(msgspec.Struct):
    length: int
    until: list[str]
    sampler: str
    chat: bool = False
    eos: str = "stop"
    system: str | None = None
    steps: int | None = None
    schedule: str | list[float] = "linear"
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    guidance: float = 0.0


class About(msgspec.Struct):
    """The fields of `about` that all readers rely on; it may have more."""

    task: str
    data: str
    model: Model
    how: How


class Within(msgspec.Struct):
    about: About


def read(path: str | Path) -> list[Sample]:
    """Read the samples of a file. Successive samples with the same `about` check it once."""
    samples: list[Sample] = []
    for number, sample in read_lines(path, Sample, MOST):
        if not samples or sample.about != samples[-1].about:
            fit({"about": sample.about}, Within, f"{path}, line {number}")
        samples.append(sample)
    return samples


def lines(samples: Iterable[Sample]) -> bytes:
    return msgspec.json.Encoder().encode_lines(samples)


def write(path: str | Path, samples: Iterable[Sample]) -> None:
    with atomic(path) as file:
        file.write(lines(samples))
