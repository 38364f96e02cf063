"""Whether an MDM and an AR model are twins: same layers and same training, so that only their attention differs.

Twins have the same layers, except that an MDM has an additional vector for each position, and were trained on the same
examples in the same order. A step takes 6 FLOP per weight and token, forward and backward (theory.md 9). The count
ignores that an AR model attends to half of the positions on average, and that the last block and the head of an MDM
compute hidden positions only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import torch

from unmask.core.errors import UnmaskError, shown
from unmask.networks.model.shape import Shape
from unmask.networks.model.trunk import Trunk
from unmask.networks.training import stored
from unmask.networks.training.recipe import Recipe

STEP = 6.0  # FLOP per weight and token


class Twins(NamedTuple):
    parameters: int  # of each
    places: int  # additional parameters of the MDM: a vector for each position
    tokens: int  # on which each was trained
    flop: float  # of the matrices of each, in the whole training


def twins(mdm: str | Path, ar: str | Path) -> Twins:
    """Common figures of two directories; raise an error if they differ in more than their kind."""
    ours, theirs = (_facts(directory) for directory in (mdm, ar))
    for name in ours | theirs:
        if ours.get(name) != theirs.get(name):
            values = f"{name} is {shown(ours.get(name))} in one and {shown(theirs.get(name))} in the other"
            raise UnmaskError(f"{mdm} and {ar} are not twins: {values}. Train both with the same options")
    kinds = [stored.facts(directory).shape["kind"] for directory in (mdm, ar)]
    if kinds != ["mdm", "ar"]:
        raise UnmaskError(f"expected an MDM and an AR model; {mdm} and {ar} are of kinds {' and '.join(kinds)}")
    facts = stored.facts(ar)
    shape, recipe = Shape.from_dict(facts.shape), Recipe.from_dict(facts.recipe)
    with torch.device("meta"):
        sizes = {name: weight.numel() for name, weight in Trunk(shape).named_parameters()}
    tokens = recipe.batch * facts.step * shape.length
    matrices = sum(sizes.values()) - sizes["embed.weight"]
    return Twins(sum(sizes.values()), shape.length * shape.hidden, tokens, STEP * matrices * tokens)


def _facts(directory: str | Path) -> dict[str, Any]:
    """Everything that determines the trained weights, except the kind, by dotted names."""
    whole = msgspec.to_builtins(stored.facts(directory))
    facts: dict[str, Any] = {"step": whole["step"], "language": whole["language"]}
    for part in ("shape", "recipe", "text"):
        facts |= {f"{part}.{name}": value for name, value in (whole[part] or {}).items()}
    facts.pop("shape.kind")
    return facts
