"""load(): a language or a model by its name, file, directory or module:Name."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from unmask.core import arguments, entries
from unmask.core.errors import UnmaskError, cut
from unmask.core.run import Loading

if TYPE_CHECKING:
    from unmask.denoisers import Denoiser
    from unmask.languages import Language
    from unmask.models.trained import Trunk

CONFIG = "config.json"  # in the directory of a network
WEIGHTS = (".safetensors", ".bin", ".index.json")


def load(source: str | Path, **options: Any) -> Language | Denoiser:
    """Load a language, a network, an open model, or your own model by module:Name.

    Options are those of `read_network` and `load_model`.
    """
    path = arguments.path("source", source)
    if is_own(source):
        from unmask.models.open.own import named

        return named(str(source))
    if (os.path.isdir(path) and is_open(path)) or (not path.exists() and _has_card(source)):
        from unmask.models.open import load_model

        return load_model(source, **options)
    if not os.path.isdir(path):
        from unmask import languages

        return languages.load(source, **options)
    if not os.path.exists(path / CONFIG):
        raise UnmaskError(f"the directory {path} contains no network; expected {CONFIG}, as written by `unmask train`")
    from unmask.models.trained import read_network

    return read_network(path, **options)


def of_command(model: str, how: Loading, causal_model: str | None = None, batch: int | None = None) -> Any:
    """Load the model of a command: your own by module:Name, an open one, or the network of a directory."""
    if is_own(model):
        from unmask.denoisers import as_denoiser
        from unmask.models.open.own import named

        for name, value in (arguments.changed(how) | {"causal_model": causal_model, "batch": batch}).items():
            if value is not None:
                raise UnmaskError(
                    f"--{name.replace('_', '-')} is for checkpoints, and {cut(model)} is your own model",
                    f"Write it as an option of its name: module:Name({name}=..)",
                )
        return as_denoiser(named(model))
    if is_open(model):
        from unmask.models.open import load_model

        return load_model(model, **asdict(how), batch=batch, causal_model=causal_model)
    if replace(how, device="auto") != Loading():
        raise UnmaskError(
            "--card and --dtype are for open models only; this is a network of `unmask train`", "Leave them out"
        )
    from unmask.models.trained import read_network

    return read_network(model, causal_model, how.device, batch)


class Studied(NamedTuple):
    """A trained network, the language to compare it with, the label of the language, and the length."""

    trunk: Trunk
    language: Language
    label: str
    length: int


def studied(model: Path, device: str, language: str | None = None, length: int | None = None) -> Studied:
    """Load a network. By default, the language and the length are those of its training."""
    from unmask import languages
    from unmask.models.trained import load
    from unmask.models.trained.checkpoints import check_fits, read_language

    if length is not None:
        arguments.length(length, "--length")
    trunk = load(model, device)
    known, label = read_language(model) if language is None else (languages.load(language), language)
    check_fits(trunk.shape, model, known.vocabulary, length)
    return Studied(trunk, known, label, entries.chosen(length, trunk.shape.length))


def writes_text(model: str) -> bool:
    """Whether the tokens of a model are those of a text."""
    from unmask.models.trained.checkpoints import read_tokenizer

    return is_open(model) or (not is_own(model) and read_tokenizer(model) is not None)


def is_own(model: str | Path) -> bool:
    """Whether a model is named as module:Name or file.py:Name, with its options in brackets."""
    return ":" in str(model).partition("(")[0] and not os.path.exists(model)


def is_trained(model: str | Path) -> bool:
    """Whether a model is a directory of `unmask train`."""
    return os.path.isdir(model) and not is_open(model)


def is_open(model: str | Path) -> bool:
    """Whether a model is an open one, that is, neither a directory of `unmask train` nor your own."""
    if is_own(model):
        return False
    from unmask.core.reading import read_json
    from unmask.models.trained.checkpoints import MODEL_TYPE

    if not os.path.isdir(model):
        return True
    config = Path(model) / CONFIG
    if not os.path.exists(config):
        return any(name.endswith(WEIGHTS) for name in os.listdir(model))
    content = read_json(config, most=2**22)
    return not isinstance(content, dict) or content.get("model_type") != MODEL_TYPE


def _has_card(source: str | Path) -> bool:
    from unmask.languages.presets import PRESETS

    if str(source).partition("(")[0] in PRESETS.makers:
        return False
    from unmask.models.open.card import CARDS

    return any(str(source).lower() in (card.name, card.repository.lower()) for card in CARDS.values())
