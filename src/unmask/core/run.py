"""Options of a run as records: their fields are arguments of functions, and flags of commands with help texts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sampling:
    """How sequences are sampled.

    Args:
        sampler: Sampler, with options in brackets: a name of `unmask list samplers`, or package.module:Name.
        schedule: How much each step reveals: a name of `unmask list schedules`, or a list of fractions.
        steps: Number of sampling steps N. (default: 64, in `unmask play` 8)
        temperature: Sampling temperature; 0 means greedy.
        top_k: Keep at most this many tokens.
    """

    sampler: str = "ancestral"
    schedule: str = "linear"
    steps: int | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    guidance: float = 0.0


@dataclass(frozen=True)
class Loading:
    """How a model is loaded.

    Args:
        card: Model card, if the directory does not identify its model: a name, or your own JSON file.
        device: Device: auto, cpu or cuda.
        dtype: Data type of an open model's weights: float32, bfloat16 or float16. (default: as published)
        cache: KV cache of an open model: prefix or dual, "prefix(block=32)". Faster, but changes the distribution.
    """

    card: str | None = None
    device: str = "auto"
    dtype: str | None = None
    cache: str | None = None


@dataclass(frozen=True)
class Answering:
    """How an open model answers a task; None: the usual of the model (hub/answering.py) or of the task."""

    length: int | None = None  # tokens of an answer
    sampler: str | None = None
    schedule: str = "linear"
    steps: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    guidance: float = 0.0
    eos: str = "stop"
    until: bool = True  # whether the strings that end the task's answers stop a row
    chat: bool = False  # whether a question is a user's message in the model's chat template
    system: str | None = None
