"""Options of a run as records: their fields are arguments of functions, and flags of commands with help texts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated


@dataclass(frozen=True)
class Sampling:
    """How sequences are sampled.

    Args:
        sampler: Sampler (options in brackets): a name of `unmask show sampler`, package.module:Name or file.py:Name.
        schedule: How much each step reveals: a name of `unmask show schedule`, or a list of fractions.
        steps: Number of sampling steps N. (default: 64, in `unmask play` 8)
        temperature: Sampling temperature; 0 means greedy.
        top_k: Keep at most this many tokens.
        draw: How the tokens of a step are drawn: product, each from its own marginal; or together, by fitted, alone,
            coupled or soft, "fitted(constraint=support, sweeps=3)".
    """

    sampler: str = "ancestral"
    schedule: str = "linear"
    steps: int | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    guidance: float = 0.0
    draw: str = "product"


@dataclass(frozen=True)
class Loading:
    """How a model is loaded.

    Args:
        card: Model card, if the directory does not identify its model: a name, or your own JSON file.
        device: Device: auto, cpu or cuda.
        dtype: Data type of an open model's weights: float32, bfloat16 or float16. (default: as published)
    """

    card: str | None = None
    device: str = "auto"
    dtype: str | None = None


@dataclass(frozen=True)
class Prompting:
    """The beginning and the end of sequences.

    Args:
        given: File with known tokens: one row for all sequences, or one for each. Masked positions are V (null in
            .jsonl).
        prompt: Text that each sequence begins with, for a model of text.
        prompts: File of prompts for an open model, one a line: a text in quotes, {"prompt": ..}, {"template": ..}, or
            a list of messages.
        template: Text with gaps, for an open model: ___ of --length tokens, ___{N} of N.
        chat: Format the prompt as a user message with the model's chat template.
        system: System message of each conversation.
        until: End a sequence where one of these texts is complete.
        stop: Ignore end-of-text tokens and fill the whole length.
    """

    given: Annotated[Path | None, "FILE"] = None
    prompt: Annotated[str | None, "TEXT"] = None
    prompts: Annotated[Path | None, "FILE"] = None
    template: Annotated[str | None, "TEXT"] = None
    chat: bool = False
    system: Annotated[str | None, "TEXT"] = None
    until: Annotated[tuple[str, ...], "TEXT"] = ()
    stop: bool = True


@dataclass(frozen=True)
class Amount:
    """How many sequences are made, how long, and which.

    Args:
        rows: Number of sequences. (default: 2000; for open models 1, or one for each prompt)
        length: Sequence length in tokens; for open models, new tokens per prompt or gap. (default: 512, or the
            network's or the given file's; 128 for open models)
        rows_per_prompt: Number of sequences for each prompt.
        prompt_length: Start each sequence with N tokens sampled from the language.
        seed: Random seed. Row r depends only on the seed and on first_row + r.
        first_row: Number of the first row, to generate a later block of the same run.
    """

    rows: int | None = None
    length: int | None = None
    rows_per_prompt: int = 1
    prompt_length: int | None = None
    seed: int = 0
    first_row: int = 0


@dataclass(frozen=True)
class Answering:
    """How an open model answers a task; None: the usual of the model (models/open/prompted.py) or of the task."""

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


@dataclass(frozen=True, kw_only=True)
class Evaluating(Loading):
    """Questions to models, and their way to answer; every combination of several values is measured.

    Args:
        task: Task: a name of `unmask show task`, with options: "lists(operation=copy)".
        model: Open model: a name of `unmask show model`, a repository, or a directory with its files.
        causal_model: AR model to measure in the same run; speculative samplers use it too.
        data: File of the items, for a task of your own that reads one.
        limit: Number of items, from the first. (default: all)
        each: Samples per item; more than one needs a temperature.
        sampler: Names of `unmask show sampler`. (default: llada; for AR models autoregressive)
        steps: Numbers of sampling steps N. (default: one for each token)
        length: Largest number of tokens in an answer. (default: the task's own)
        eos: Handling of end-of-text tokens: stop, fill, never or last (docs/evaluate.md).
        until: Do not end an answer at the task's stop strings, for example the next question.
        temperature: Sampling temperatures; 0 means greedy. (default: 0)
        top_k: Keep at most this many tokens.
        chat: Format the question as a user message with the model's chat template.
        system: System message before the question.
        batch: Batch size. An interruption loses at most one batch.
        causal_card: Model card of the AR model, if its directory does not identify it.
    """

    task: Annotated[str, "TASK"]
    model: Annotated[str, "MODEL"]
    causal_model: Annotated[str | None, "MODEL"] = None
    data: Annotated[str | None, "FILE"] = None
    limit: int | None = None
    each: int = 1
    sampler: tuple[str, ...] = ()
    schedule: str = "linear"
    steps: tuple[int, ...] = ()
    length: tuple[int, ...] = ()
    eos: tuple[str, ...] = ()
    until: bool = True
    temperature: tuple[float, ...] = ()
    top_p: float | None = None
    top_k: int | None = None
    guidance: float = 0.0
    chat: bool = False
    system: Annotated[str | None, "TEXT"] = None
    batch: int = 8
    causal_card: str | None = None
    seed: int = 0


@dataclass(frozen=True)
class Measuring:
    """Options to run a sweep, in every command that runs one.

    Args:
        engine: Where blocks are measured: local, processes of this machine; here, this process only; ray, a cluster; or
            your own module:Name. (default: local; here if networks run on a GPU)
        address: Address of the cluster of Ray: HOST:PORT, or auto. (default: one on this machine)
        workers: Number of processes. (default: number of cores)
        threads: Cores for each process.
        limit: Time limit of a block of sequences in seconds; its cell then fails.
        attempts: Lost processes after which a cell fails.
        allow_imports: Modules and files that a recipe or a store may import, for names as MODULE:Name and FILE.py:Name.
    """

    engine: Annotated[str | None, "ENGINE"] = None
    address: Annotated[str | None, "ADDRESS"] = None
    workers: int | None = None
    threads: int | None = None
    limit: float | None = None
    attempts: int = 3
    allow_imports: Annotated[tuple[str, ...], "MODULE"] = ()
