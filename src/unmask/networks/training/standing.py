"""Where a training stands, as its state says: held against schema, shape and recipe before anything is made of it."""

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
from unmask.networks.training.learner import kept
from unmask.networks.training.recipe import Recipe
from unmask.text import Text, tokenizers
from unmask.text import read as read_text
from unmask.text.tokenizer import FILE

Seconds = Annotated[float, msgspec.Meta(ge=0)]
Step = Annotated[int, msgspec.Meta(ge=0)]


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    """One line of the journal: what `Journal.add` keeps."""

    step: Step
    seconds: Seconds
    rate: float
    loss: float
    validation: float
    excess_percent: float | msgspec.UnsetType = msgspec.UNSET  # of a language
    bits_per_character: float | msgspec.UnsetType = msgspec.UNSET  # of a text
    bits_per_byte: float | msgspec.UnsetType = msgspec.UNSET


class Read(msgspec.Struct, forbid_unknown_fields=True):
    """Which text was read, and what it was: `Text.facts`."""

    source: Annotated[str, msgspec.Meta(max_length=2**12)]
    digest: str
    tokenizer: Label
    tokenizer_digest: str


class Facts(msgspec.Struct, forbid_unknown_fields=True):
    """What a state says beside its tensors."""

    shape: dict[str, Any]
    recipe: dict[str, Any]
    label: Label
    step: Step
    seconds: Seconds
    loss: float
    journal: list[Entry]
    language: dict[str, Any] | None = None
    text: Read | None = None


class Standing(msgspec.Struct):
    """A state that agrees with itself."""

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
    """What the state in a directory says beside its tensors, which are not read."""
    path = Path(directory) / STATE
    if not os.path.exists(path):
        raise UnmaskError(f"there is nothing to resume in {directory} ({STATE} is not there); leave --resume out")
    metadata = read_metadata(path)
    if MODEL_TYPE not in metadata:
        raise UnmaskError(f"{path} does not say where training stood; it is not a state of ours")
    found: Facts = from_json(metadata[MODEL_TYPE], Facts, str(path))
    return found


def read(directory: str | Path) -> Standing:
    """What a training that was stopped has left in its directory."""
    said, path = facts(directory), Path(directory) / STATE
    try:
        source = _source(said, Path(directory))
        shape, recipe = Shape.from_dict(said.shape), Recipe.from_dict(said.recipe)
    except UnmaskError as error:
        raise UnmaskError(f"{path}: {error}") from error
    check_fits(shape, path, source.vocabulary)
    if said.step > recipe.steps:
        raise UnmaskError(f"{path}: step is {said.step}, of a training of {recipe.steps}")
    with torch.device("meta"):
        sizes = {name: weight.shape for name, weight in Trunk(shape).named_parameters()}
    parts = {name: kept(recipe, said.step, name, len(size)) for name, size in sizes.items()}
    expected = {f"{part}/{name}": sizes[name] for name in sizes for part in parts[name]}
    return Standing(
        source,
        said.label,
        shape,
        recipe,
        said.step,
        said.seconds,
        said.loss,
        [msgspec.to_builtins(entry) for entry in said.journal],
        read_tensors(path, expected, "the training that it describes"),
    )


def _source(said: Facts, directory: Path) -> Language | Text:
    """What it was trained on: the same language, or a text that has not changed, in the symbols that it had."""
    if said.language is not None:
        return from_dict(said.language)
    if said.text is None:
        raise UnmaskError("it has neither a language nor a text")
    tokenizer = tokenizers.load(directory)
    if tokenizer is None or tokenizer.digest != said.text.tokenizer_digest:
        raise UnmaskError(f"{directory} does not hold the tokenizer that it was begun with; put {FILE} back")
    corpus = read_text(said.text.source)
    if corpus.digest != said.text.digest:
        what = "put back what it was, or begin another training"
        raise UnmaskError(f"the text {said.text.source} has changed since this training was begun; {what}")
    return Text(corpus, tokenizer)
