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
from unmask.networks.model.checkpoints import MODEL_TYPE, STATE, Label, check_fits, read_metadata, read_tensors
from unmask.networks.model.shape import Shape
from unmask.networks.model.trunk import Trunk
from unmask.networks.training.learner import kept
from unmask.networks.training.recipe import Recipe

Seconds = Annotated[float, msgspec.Meta(ge=0)]
Step = Annotated[int, msgspec.Meta(ge=0)]


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    """One line of the journal: what `Journal.add` keeps."""

    step: Step
    seconds: Seconds
    rate: float
    loss: float
    validation: float
    excess_percent: float


class Facts(msgspec.Struct, forbid_unknown_fields=True):
    """What a state says beside its tensors."""

    shape: dict[str, Any]
    recipe: dict[str, Any]
    language: dict[str, Any]
    label: Label
    step: Step
    seconds: Seconds
    loss: float
    journal: list[Entry]


class Standing(msgspec.Struct):
    """A state that agrees with itself."""

    language: Language
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
        language = from_dict(said.language)
        shape, recipe = Shape.from_dict(said.shape), Recipe.from_dict(said.recipe)
    except UnmaskError as error:
        raise UnmaskError(f"{path}: {error}") from error
    check_fits(shape, path, language.vocabulary)
    if said.step > recipe.steps:
        raise UnmaskError(f"{path}: step is {said.step}, of a training of {recipe.steps}")
    with torch.device("meta"):
        sizes = {name: weight.shape for name, weight in Trunk(shape).named_parameters()}
    parts = {name: kept(recipe, said.step, name, len(size)) for name, size in sizes.items()}
    expected = {f"{part}/{name}": sizes[name] for name in sizes for part in parts[name]}
    return Standing(
        language,
        said.label,
        shape,
        recipe,
        said.step,
        said.seconds,
        said.loss,
        [msgspec.structs.asdict(entry) for entry in said.journal],
        read_tensors(path, expected, "the training that it describes"),
    )
