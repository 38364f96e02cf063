"""One record a sample: what was asked, what was written and how, what it cost, and what became of it.

Records are the result; every table is a reduction of them. A file of them is JSON Lines.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from unmask.core.files import atomic
from unmask.core.reading import fit, read_lines

MOST = 2**32  # bytes of a file
TOO_LONG = "prompt too long"


class Sample(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    item: str
    number: int  # which of the item's samples
    row: int  # of the luck
    about: dict[str, Any]  # the task, its data, the model, its settings, the machine: of all samples of a cell
    prompt: str
    prompt_sha256: str  # of its tokens
    prompt_tokens: int
    tokens: list[int]  # that were written, up to where the row has ended
    order: list[int]  # the round of each
    reason: str  # why nothing more was written
    evaluations: dict[str, int]  # that the row needed, of each denoiser
    forwards: int  # batched calls of its batch
    flops: float  # of its batch, divided by its rows; 0 where nobody knows
    seconds: float  # likewise, synchronised; what a model does once, when it is first asked, is left out
    memory: int | None  # bytes at most, of the device, or of the process
    batch: int  # rows
    text: str
    answer: str | None = None
    right: bool | None = None  # None where nobody has said
    why: str = ""  # it is wrong
    values: dict[str, float] = {}  # what else there is to say of it
    sandbox: str = ""  # what a program was run in

    @property
    def needed(self) -> int:
        return sum(self.evaluations.values())


class Model(msgspec.Struct):
    card: str
    dtype: str
    cache: str
    revision: str | None = None
    quantize: str | None = None


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
    """What all readers of `about` rely on; it may hold more."""

    task: str
    data: str
    model: Model
    how: How


class Within(msgspec.Struct):
    about: About


def read(path: str | Path) -> list[Sample]:
    """The samples of a file, whose `about` is checked once for those that have the same."""
    found: list[Sample] = []
    for number, sample in read_lines(path, Sample, MOST):
        if not found or sample.about != found[-1].about:
            fit({"about": sample.about}, Within, f"{path}, line {number}")
        found.append(sample)
    return found


def lines(samples: Iterable[Sample]) -> bytes:
    return b"".join(msgspec.json.encode(sample) + b"\n" for sample in samples)


def write(path: str | Path, samples: Iterable[Sample]) -> None:
    with atomic(path) as file:
        file.writelines(msgspec.json.encode(sample) + b"\n" for sample in samples)
