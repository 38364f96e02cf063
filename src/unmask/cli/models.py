"""The network and the language that a command's options name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from unmask.languages import Language
    from unmask.models.trained import Trunk


class Model(NamedTuple):
    """A trained network, and the language to compare it with."""

    trunk: Trunk
    language: Language
    label: str
    length: int


def read(model: Path, device: str, language: str | None, length: int | None) -> Model:
    """Read a network. By default, the language and the length are those of its training."""
    from unmask import languages
    from unmask.core import arguments
    from unmask.models.trained import load
    from unmask.models.trained.checkpoints import check_fits, read_language

    if length is not None:
        arguments.length(length, "--length")
    trunk = load(model, device)
    if language is None:
        known, label = read_language(model)
    else:
        known, label = languages.load(language), language
    check_fits(trunk.shape, model, known.vocabulary, length)
    return Model(trunk, known, label, trunk.shape.length if length is None else length)
