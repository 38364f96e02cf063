"""Stored state of a training, checked against schema, shape and recipe before it is used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import msgspec
import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.core.reading import from_json
from unmask.languages import Language, from_dict
from unmask.networks.model.checkpoints import (
    MODEL_TYPE,
    STATE,
    Label,
    check_fits,
    read_metadata,
    read_tensors,
)
from unmask.networks.model.shape import Shape
from unmask.networks.model.trunk import Trunk
from unmask.networks.training.learner import parts_of
from unmask.networks.training.recipe import Recipe
from unmask.text import Text, tokenizers
from unmask.text import read as read_text
from unmask.text.tokenizer import FILE

Seconds = Annotated[float, msgspec.Meta(ge=0)]
Step = Annotated[int, msgspec.Meta(ge=0)]


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    """One entry of the journal, written by `Journal.add`."""

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
