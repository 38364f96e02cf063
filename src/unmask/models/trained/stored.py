"""The directory of a training: one process writes it; its state is checked before it is used; losses as a CSV."""

from __future__ import annotations

import csv
import fcntl
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.core.files import atomic, check_writable, make_directory
from unmask.core.reading import from_json
from unmask.languages import Language, from_dict
from unmask.models.text import Text, tokenizers
from unmask.models.text import read as read_text
from unmask.models.text.tokenizer import FILE
from unmask.models.trained.checkpoints import (
    CONFIG,
    FILES,
    LOSSES,
    MODEL_TYPE,
    STATE,
    Label,
    check_fits,
    read_metadata,
    read_tensors,
)
from unmask.models.trained.learner import parts_of
from unmask.models.trained.recipe import Recipe
from unmask.models.trained.shape import Shape
from unmask.models.trained.trunk import Trunk

Seconds = Annotated[float, msgspec.Meta(ge=0)]
Step = Annotated[int, msgspec.Meta(ge=0)]


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    """The losses at one validation."""

    step: Step
    seconds: Seconds
    rate: float
    loss: float
    validation: float
    excess_percent: float | msgspec.UnsetType = msgspec.UNSET  # for a language
    bits_per_character: float | msgspec.UnsetType = msgspec.UNSET  # for a text
    bits_per_byte: float | msgspec.UnsetType = msgspec.UNSET


class Read(msgspec.Struct, forbid_unknown_fields=True):
    """Path and digests of the text: `Text.facts`."""

    source: Annotated[str, msgspec.Meta(max_length=2**12)]
    digest: str
    tokenizer: Label
    tokenizer_digest: str


class Facts(msgspec.Struct, forbid_unknown_fields=True):
    """Metadata of a state, without its tensors."""

    shape: dict[str, Any]
    recipe: dict[str, Any]
    label: Label
    step: Step
    seconds: Seconds
    loss: float
    journal: list[Entry]
    language: dict[str, Any] | None = None
    text: Read | None = None


class State(msgspec.Struct):
    """A consistent state."""

    source: Language | Text
    label: str
    shape: Shape
    recipe: Recipe
    step: int
    seconds: float
    loss: float
    journal: list[dict[str, Any]]
    tensors: dict[str, Tensor]


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Lock a writable directory, or raise an error if another process trains in it. The lock ends with the process.

    A new directory is removed if it stays empty.
    """
    existed = os.path.isdir(directory)
    handle = os.open(make_directory(directory), os.O_RDONLY)
    try:
        for name in FILES:
            check_writable(directory / name)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise UnmaskError(f"another process trains in {directory}. Wait for it, or pass another --out") from error
    finally:
        os.close(handle)
        if not existed:
            with suppress(OSError):  # not empty
                directory.rmdir()


def check_unused(directory: Path) -> None:
    for name in (STATE, CONFIG):
        if os.path.exists(directory / name):
            raise UnmaskError(f"{directory} already holds a network ({name}). Pass --resume, or another --out")


def write_losses(directory: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    """Write one row per validation; entries are those of `Entry`."""
    text = io.StringIO(newline="")
    if entries:
        rows = csv.DictWriter(text, list(entries[0]))
        rows.writeheader()
        rows.writerows(entries)
    with atomic(directory / LOSSES) as file:
        file.write(text.getvalue().encode())


def facts(directory: str | Path) -> Facts:
    """Metadata of the state in a directory; the tensors are not read."""
    path = Path(directory) / STATE
    if not os.path.exists(path):
        raise UnmaskError(f"{directory} holds nothing to resume ({STATE} is missing). Leave --resume out")
    metadata = read_metadata(path)
    if MODEL_TYPE not in metadata:
        raise UnmaskError(f"{path} has no metadata of a training; expected a state written by `unmask train`")
    metadata_read: Facts = from_json(metadata[MODEL_TYPE], Facts, str(path))
    return metadata_read


def read(directory: str | Path) -> State:
    """Read the state of an interrupted training."""
    stored, path = facts(directory), Path(directory) / STATE
    try:
        source = _source(stored, Path(directory))
        shape, recipe = Shape.from_dict(stored.shape), Recipe.from_dict(stored.recipe)
    except UnmaskError as error:
        raise UnmaskError(f"{path}: {error}") from error
    check_fits(shape, path, source.vocabulary)
    if stored.step > recipe.steps:
        raise UnmaskError(f"{path}: step is {stored.step}; expected at most {recipe.steps}")
    with torch.device("meta"):
        sizes = {name: weight.shape for name, weight in Trunk(shape).named_parameters()}
    parts = {name: parts_of(recipe, stored.step, name, len(size)) for name, size in sizes.items()}
    expected = {f"{part}/{name}": sizes[name] for name in sizes for part in parts[name]}
    return State(
        source,
        stored.label,
        shape,
        recipe,
        stored.step,
        stored.seconds,
        stored.loss,
        [msgspec.to_builtins(entry) for entry in stored.journal],
        read_tensors(path, expected, "this training"),
    )


def _source(stored: Facts, directory: Path) -> Language | Text:
    """The language, or the text if neither it nor its tokenizer has changed."""
    if stored.language is not None:
        return from_dict(stored.language)
    if stored.text is None:
        raise UnmaskError("the state has neither a language nor a text")
    tokenizer = tokenizers.load(directory)
    if tokenizer is None or tokenizer.digest != stored.text.tokenizer_digest:
        raise UnmaskError(f"{directory} does not hold the tokenizer of this training. Restore {FILE}")
    corpus = read_text(stored.text.source)
    if corpus.digest != stored.text.digest:
        remedy = "Restore the text, or start another training"
        raise UnmaskError(f"the text {stored.text.source} has changed since the start of this training. {remedy}")
    return Text(corpus, tokenizer)
