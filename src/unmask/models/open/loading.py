"""Load a published checkpoint: its files, its card, its network with the weights, and its tokenizer."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from unmask.core import arguments, entries, progress
from unmask.core.errors import UnmaskError, needed, shown
from unmask.models.open import card as cards
from unmask.models.open import native, own, weights
from unmask.models.open.card import FAMILIES, Card
from unmask.models.open.chat import Message, template
from unmask.models.open.model import OpenModel
from unmask.models.open.probing import probe
from unmask.models.text import published
from unmask.models.text.published import Published
from unmask.models.trained.checkpoints import choose_device

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}
REPOSITORY = re.compile(r"(?!.*(--|\.\.|\.git$))\b[\w.-]+\b/\b[\w.-]{1,96}\b")  # names of repositories in the hub
PATTERNS = ("*.safetensors", "*.json", "*.model", "vocab.txt", "merges.txt")
OLD = "pytorch_model*.bin"  # weights where there are no safetensors


def load_model(
    source: str | Path,
    *,
    card: str | None = None,
    device: str = "auto",
    dtype: str | torch.dtype | None = None,
    batch: int | None = None,
    causal_model: str | Path | None = None,
) -> OpenModel:
    """Load a checkpoint from a directory, or by the name of its card or repository; or make the model of module:Name.

    card: a name or a JSON file, for directories that do not identify their model. dtype: type of the weights, such as
    "bfloat16" or torch.bfloat16 (default: as in the checkpoint). The behaviour is compared with the card (probing.py).
    """
    if own.is_named(source):
        return _named_open(str(source))

    kind = None if dtype is None else DTYPES[arguments.word("dtype", str(dtype).removeprefix("torch."), DTYPES)]
    directory, named = locate(source, card)
    fitting, config = card_of(directory, named)
    place = choose_device(device)

    # before the weights are read: a model may be larger than the memory
    weights.check_room(directory, place)
    body = FAMILIES[fitting.family].read(directory, fitting, config, kind).to(place)
    about = {"revision": fitting.revision, "weights": weights.digest(body)}
    tokenizer = tokenizer_of(directory, fitting, body.vocabulary)

    causal = entries.perhaps(partial(load_model, device=device, dtype=dtype, batch=batch), causal_model)
    model = OpenModel(fitting, body, tokenizer=tokenizer, about=about, batch=batch, causal=causal)

    if named is not None or FAMILIES[fitting.family].types:  # a card made from the files fits them
        for problem in token_problems(fitting, config, tokenizer):
            raise UnmaskError(
                f"{directory} does not fit its card ({problem})", "Use another card, or your own (--card FILE.json)"
            )

    model.found = probe(model)
    if fitting.family == "masked":
        progress.tell(f"{model.name}, read without a card: {model.found}")
    return model


def _named_open(source: str) -> OpenModel:
    model = own.named(source)
    if not isinstance(model, OpenModel):
        raise UnmaskError(
            f"{source} is a denoiser without a tokenizer, and this needs text",
            "expected a function that returns unmask.models.masked(.., tokenizer=DIR)",
        )
    return model


def locate(source: str | Path, card: str | None = None) -> tuple[Path, Card | None]:
    """The directory of a checkpoint, and its card if it is named; missing files are downloaded."""
    directory, named = _named(source, card)
    return directory or _fetched(*_origin(source, named)), named


def here(source: str | Path, card: str | None = None) -> tuple[Path | None, Card | None]:
    """The same without a download: None if the files are missing, or for module:Name."""
    if own.is_named(source):
        return None, None
    directory, named = _named(source, card)
    return directory or _cached(*_origin(source, named)), named


def _named(source: str | Path, card: str | None) -> tuple[Path | None, Card | None]:
    """The directory if it is one, and the card if it is named."""
    arguments.path("model", source)
    named = entries.perhaps(cards.find, card)
    if os.path.isdir(source):
        return Path(source), named
    with_cards = {card.repository.lower() for card in cards.CARDS.values()}
    if named is None and (not REPOSITORY.fullmatch(str(source)) or str(source).lower() in with_cards):
        named = cards.find(str(source))
    return None, named


def _origin(source: str | Path, named: Card | None) -> tuple[str, str | None]:
    """(repository, revision)."""
    if named is None:
        return str(source), None
    return named.repository, named.revision


def _cached(repository: str, revision: str | None) -> Path | None:
    """The directory of a repository in the cache of huggingface_hub."""
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None

    path = try_to_load_from_cache(repository, "config.json", revision=revision)
    return Path(path).parent if isinstance(path, str) else None


def _fetched(repository: str, revision: str | None) -> Path:
    by_hand = f"download https://huggingface.co/{repository} elsewhere, and pass its directory: --model DIR"
    with needed("open", f"{repository} is not a directory; its download", by_hand):
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        place = Path(snapshot_download(repository, revision=revision, allow_patterns=list(PATTERNS)))
        if not any(place.glob("*.safetensors")):
            snapshot_download(repository, revision=revision, allow_patterns=[OLD])
        return place
    except LocalEntryNotFoundError as error:
        raise UnmaskError(
            f"{repository} is neither a directory nor in the cache of the hub, and the hub cannot be reached",
            f"You can {by_hand}",
        ) from error
    except (HfHubHTTPError, OSError) as error:
        why = (str(error).strip() or repr(error)).splitlines()[0]
        raise UnmaskError(f"cannot download {repository}: {why}. You can {by_hand}") from error


def card_of(directory: Path, named: Card | None) -> tuple[Card, dict[str, Any]]:
    """The card of a directory, or the named one, and its config.json; an error if they do not fit."""
    config = weights.read_config(directory)
    fitting = named or cards.recognised(config, directory) or native.card_of(config, directory)
    if not FAMILIES[fitting.family].accepts(config):
        kind = shown(config.get("model_type"))
        raise UnmaskError(f"{directory} contains a model of type {kind}; expected one of {fitting.name}'s family")
    return fitting, config


def described(source: str) -> Card:
    """The card of a name, a file, a directory or module:Name."""
    if own.is_named(source):
        return _named_open(source).card
    return card_of(Path(source), None)[0] if os.path.isdir(source) else cards.find(source)


def tokenizer_of(directory: Path, card: Card, rows: int | None = None) -> Published | None:
    """The tokenizer of a model whose head has `rows` rows; None if the directory has no tokenizer."""
    if not published.has_tokenizer(directory):
        return None
    tokenizer = published.read(directory)
    if rows is not None:
        tokenizer.check_fits(rows, card.tokens.mask)
    return tokenizer


def token_problems(card: Card, config: Mapping[str, Any], tokenizer: Published | None) -> Iterator[str]:
    """Each difference between the special tokens in the files and in the card, which would cause no error."""
    tokens = card.tokens
    where = "the tokenizer"
    values: list[tuple[str, Any, set[int | None]]] = [
        (f"{weights.CONFIG}: mask_token_id", config.get("mask_token_id"), {tokens.mask}),
        (f"{weights.CONFIG}: eos_token_id", config.get("eos_token_id"), {tokens.eos}),
    ]
    if tokenizer is not None:
        if not card.causal:
            values.append((f"{where}: mask_token", tokenizer.mask, {tokens.mask}))
        values.append((f"{where}: eos_token", tokenizer.eos, {tokens.eos, tokens.end_of_turn, tokens.pad}))

    if tokenizer is not None and card.template is not None:
        try:
            chat = template(card.template)
            chat.tokens(tokenizer, [Message("user", "x")])
            values.append((f"{where}: {chat.end}", tokenizer.control(chat.end), {tokens.end_of_turn}))
        except UnmaskError as error:
            yield f"its chat template is {card.template!r}: {error}"

    for name, value, expected in values:
        numbers = sorted(entries.present(expected))
        if value is not None and numbers and set(entries.several(value)).isdisjoint(numbers):
            yield f"{name} is {shown(value)}; expected {' or '.join(map(str, numbers))}, as in the card {card.name}"
