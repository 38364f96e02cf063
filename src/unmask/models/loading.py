"""load(): a language, a network or an open model, by its name, file or directory; begin(): with its first tokens."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.run import Amount, Loading, Prompting, changed

if TYPE_CHECKING:
    from unmask.languages import Language
    from unmask.models.open import OpenModel
    from unmask.models.text import Tokenizer
    from unmask.models.trained import Network, Trunk

NO_PROMPTS, USUAL = Prompting(), Loading()
CONFIG = "config.json"  # in the directory of a network
WEIGHTS = (".safetensors", ".bin", ".index.json")


def load(source: str | Path, **options: Any) -> Language | Network | OpenModel:
    """Load a language, a network or an open model.

    Options are those of `read_network` and `load_model`.
    """
    path = arguments.path("source", source)
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


def load_model(model: str, how: Loading, causal_model: str | None = None, batch: int | None = None) -> Any:
    """Load the model of a command: an open one, or the network of a directory."""
    if is_open(model):
        from unmask.models.open import load_model

        return load_model(model, **asdict(how), batch=batch, causal_model=causal_model)
    if replace(how, device="auto") != Loading():
        problem = "--card, --dtype and --cache are for open models only"
        raise UnmaskError(f"{problem}; this is a network of `unmask train`. Leave them out")
    from unmask.models.trained import read_network

    return read_network(model, causal_model, how.device, batch)


class Begun(NamedTuple):
    """The source of sequences, the beginnings and ends as arguments of `generate`, and its tokenizer."""

    source: Any
    start: dict[str, Any]
    tokenizer: Tokenizer | None = None


def begin(
    language: str | None,
    model: str | None,
    amount: Amount,
    prompting: Prompting = NO_PROMPTS,
    loading: Loading = USUAL,
    causal_model: str | None = None,
    batch: int | None = None,
    usual: tuple[int, int] | None = None,
) -> Begun:
    """Load the source of a command and read its prompts. usual: rows and length of a language in place of 2000 x 512;
    the length is then the nearest that the language has."""
    if (language is None) == (model is None):
        raise UnmaskError("expected either --language for an exact denoiser, or --model. Pass one of the two")
    if model is not None and is_open(model):
        from unmask.models.open.prompted import begun, queries_of

        queries = queries_of(prompting)  # before the model is loaded
        opened = load_model(model, loading, causal_model, batch)
        return Begun(opened, begun(opened, queries, prompting, amount), opened.tokenizer)
    from unmask.samplers.making import begun as started

    of_open = changed(prompting, given=prompting.given, prompt=prompting.prompt)
    of_open |= changed(loading, device=loading.device) if model is None else {}
    for name in of_open:
        raise UnmaskError(f"--{name.replace('_', '-')} needs an open model, --model NAME")
    if model is None:
        for name, value in {"causal-model": causal_model, "batch": batch}.items():
            if value is not None:
                raise UnmaskError(f"--{name} needs --model. Add it, or leave --{name} out")
        from unmask import languages

        known = languages.load(str(language))
        return Begun(known, started(known, prompting, amount, usual))
    from unmask.models.trained.checkpoints import read_tokenizer

    tokenizer = read_tokenizer(model)
    network = load_model(model, loading, causal_model, batch)
    network.tokenizer = tokenizer  # for constraints of joint draws
    return Begun(network, started(network, prompting, amount, usual, tokenizer), tokenizer)


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
    return Studied(trunk, known, label, trunk.shape.length if length is None else length)


def writes_text(model: str) -> bool:
    """Whether the tokens of a model are those of a text."""
    from unmask.models.trained.checkpoints import read_tokenizer

    return is_open(model) or read_tokenizer(model) is not None


def is_open(model: str | Path) -> bool:
    """Whether a model is an open one, that is, not a directory of `unmask train`."""
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
    from unmask.languages.reading import PRESETS

    if str(source).partition("(")[0] in PRESETS.makers:
        return False
    from unmask.models.open.card import CARDS

    return any(str(source).lower() in (card.name, card.repository.lower()) for card in CARDS.values())
