"""Whether an MDM and an AR model are twins: made alike, and taught alike, so that only what they may look at differs.

They have the same layers, but for a vector for each place that an MDM has besides, and have read the same examples in
the same order. A step is 6 FLOP a weight and token for both, forwards and backwards (theory.md 9). What that leaves
out: an AR model looks at half of the places, and the last block and the head of an MDM answer only where it is asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import torch

from unmask.core.errors import UnmaskError, shown
from unmask.networks.model.shape import Shape
from unmask.networks.model.trunk import Trunk
from unmask.networks.training import standing
from unmask.networks.training.recipe import Recipe

STEP = 6.0  # FLOP a weight and token


class Twins(NamedTuple):
    parameters: int  # that each has
    places: int  # parameters that the MDM has besides: a vector for each place
    tokens: int  # that each has been trained on
    flop: float  # of the matrices of each, in all of its training


def twins(mdm: str | Path, ar: str | Path) -> Twins:
    """What two directories have in common, or an error that says in what else than their kind they differ."""
    ours, theirs = (_facts(directory) for directory in (mdm, ar))
    for name in ours | theirs:
        if ours.get(name) != theirs.get(name):
            what = f"{name} is {shown(ours.get(name))} of one and {shown(theirs.get(name))} of the other"
            raise UnmaskError(f"{mdm} and {ar} are no twins: {what}")
    kinds = [standing.facts(directory).shape["kind"] for directory in (mdm, ar)]
    if kinds != ["mdm", "ar"]:
        raise UnmaskError(f"expected an MDM and an AR model; {mdm} and {ar} are of kinds {' and '.join(kinds)}")
    said = standing.facts(ar)
    shape, recipe = Shape.from_dict(said.shape), Recipe.from_dict(said.recipe)
    with torch.device("meta"):
        sizes = {name: weight.numel() for name, weight in Trunk(shape).named_parameters()}
    tokens = recipe.batch * said.step * shape.length
    matrices = sum(sizes.values()) - sizes["embed.weight"]
    return Twins(sum(sizes.values()), shape.length * shape.hidden, tokens, STEP * matrices * tokens)


def _facts(directory: str | Path) -> dict[str, Any]:
    """All that decides what a network has become, but for its kind, by dotted names."""
    said = msgspec.to_builtins(standing.facts(directory))
    found: dict[str, Any] = {"step": said["step"], "language": said["language"]}
    for part in ("shape", "recipe", "text"):
        found |= {f"{part}.{name}": value for name, value in (said[part] or {}).items()}
    found.pop("shape.kind")
    return found
