"""What a network's directory and the options beside it name together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from unmask.languages import Language
    from unmask.networks import Trunk


class Model(NamedTuple):
    """A trained network, and the language that it is held against."""

    trunk: Trunk
    language: Language
    label: str
    length: int


def read(model: Path, device: str, language: str | None, length: int | None) -> Model:
    """The language, unless it is named, is the one that the network was trained on; the length what it was made for."""
    from unmask import languages
    from unmask.core import arguments
    from unmask.networks import load
    from unmask.networks.model.checkpoints import check_fits, read_language

    if length is not None:
        arguments.length(length, "--length")
    trunk = load(model, device)
    if language is None:
        found, label = read_language(model)
    else:
        found, label = languages.load(language), language
    check_fits(trunk.shape, model, found.vocabulary, length)
    return Model(trunk, found, label, trunk.shape.length if length is None else length)
