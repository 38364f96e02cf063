"""Load a published checkpoint: its card, its network with the weights, and its tokenizer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from unmask.core import arguments
from unmask.core.errors import UnmaskError, shown
from unmask.models.open import card as cards
from unmask.models.open import native, weights
from unmask.models.open.body import Body
from unmask.models.open.card import FAMILIES, Card
from unmask.models.open.chat import Message, template
from unmask.models.open.model import OpenModel
from unmask.models.open.probing import probe
from unmask.models.text import published
from unmask.models.text.published import Published
from unmask.models.trained.checkpoints import choose_device

TOKENIZER = "the tokenizer"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}


def load_model(
    source: str | Path,
    *,
    card: str | None = None,
    device: str = "auto",
    dtype: str | None = None,
    cache: str | None = None,
    batch: int | None = None,
    causal_model: str | Path | None = None,
    checked: bool = True,
) -> OpenModel:
    """Load a checkpoint from a directory, or by the name of its card or repository (see `unmask.models.open.fetch`).

    card: a name or a JSON file, for directories that do not identify their model. dtype: type of the weights (default:
    as in the checkpoint). checked: compare the behaviour with the card (probe.py).
    """
    from unmask.models.open.fetch import locate

    if dtype is not None:
        arguments.word("dtype", dtype, DTYPES)
    directory, named = locate(source, card)
    fitting, config = card_of(directory, named)
    place, kind = choose_device(device), None if dtype is None else DTYPES[dtype]
    body, about = _body(directory, fitting, config, place, kind)
    tokenizer = tokenizer_of(directory, fitting, body.vocabulary)
    causal = None if causal_model is None else load_model(causal_model, device=device, dtype=dtype, batch=batch)
    model = OpenModel(fitting, body, tokenizer=tokenizer, about=about, cache=cache, batch=batch, causal=causal)
    for problem in token_problems(fitting, config, tokenizer):
        raise UnmaskError(
            f"{directory} does not fit its card ({problem}). Use another card, or your own (--card FILE.json)"
        )
    if checked:
        probe(model)
    return model


def card_of(directory: Path, named: Card | None) -> tuple[Card, dict[str, Any]]:
    """The card of a directory, or the named one, and its config.json; an error if they do not fit."""
    config = weights.read_config(directory)
    fitting = named or cards.recognised(config, directory) or native.card_of(config, directory)
    if not FAMILIES[fitting.family].accepts(config):
        kind = shown(config.get("model_type"))
        raise UnmaskError(f"{directory} contains a model of type {kind}; expected one of {fitting.name}'s family")
    return fitting, config


def outline(directory: Path, named: Card | None, cache: str | None = None) -> OpenModel | None:
    """A model without its weights, for its shape; None if only a library defines it."""
    fitting, config = card_of(directory, named)
    body = shape_of(directory, fitting, config)
    if body is None:
        return None
    return OpenModel(fitting, body, tokenizer=tokenizer_of(directory, fitting, body.vocabulary), cache=cache)


def shape_of(directory: Path, card: Card, config: dict[str, Any]) -> Body | None:
    """A body on the meta device, without weights; None if only a library defines it."""
    family = FAMILIES[card.family]
    if family.body is None:
        return None
    with torch.device("meta"):
        return family.body(config, str(directory / weights.CONFIG))


def _body(
    directory: Path, card: Card, config: dict[str, Any], device: torch.device, dtype: torch.dtype | None
) -> tuple[Body, dict[str, Any]]:
    """The body of a checkpoint, and its entries in results."""
    family, body = FAMILIES[card.family], shape_of(directory, card, config)
    with weights.opened(directory) as files:
        if body is not None:
            weights.fill(body, family, files, device, dtype)
        else:
            assert family.read is not None
            body = family.read(directory, config, dtype).to(device)
        return body, {"revision": card.revision, "weights": weights.digest(files)}


def tokenizer_of(directory: Path, card: Card, rows: int) -> Published | None:
    """The tokenizer of a model whose head has `rows` rows; None if the directory has no tokenizer."""
    if not published.has_tokenizer(directory):
        return None
    tokenizer = published.read(directory)
    tokenizer.check_fits(rows, card.tokens.mask)
    return tokenizer


def token_problems(card: Card, config: Mapping[str, Any], tokenizer: Published | None) -> Iterator[str]:
    """Each difference between the special tokens in the files and in the card: an incorrect mask would cause no error.

    Missing entries are skipped.
    """
    tokens = card.tokens
    known = {tokens.eos, tokens.end_of_turn, tokens.pad}
    yield from _differ(f"{weights.CONFIG}: mask_token_id", config.get("mask_token_id"), {tokens.mask}, card)
    yield from _differ(f"{weights.CONFIG}: eos_token_id", config.get("eos_token_id"), {tokens.eos}, card)
    if tokenizer is None:
        return
    if not card.causal:
        yield from _differ(f"{TOKENIZER}: mask_token", tokenizer.mask, {tokens.mask}, card)
    yield from _differ(f"{TOKENIZER}: eos_token", tokenizer.eos, known, card)
    if card.template is None:
        return
    try:
        chat = template(card.template)
        chat.tokens(tokenizer, [Message("user", "x")])
        end = chat.ends(tokenizer)
    except UnmaskError as error:
        yield f"its chat template is {card.template!r}: {error}"
        return
    if isinstance(end, int):
        yield from _differ(f"{TOKENIZER}: {chat.end}", end, {tokens.end_of_turn}, card)


def _differ(name: str, value: Any, expected: set[int | None], card: Card) -> Iterator[str]:
    values = set(value) if isinstance(value, list) else {value}
    numbers = sorted(number for number in expected if number is not None)
    if value is not None and numbers and values.isdisjoint(numbers):
        yield f"{name} is {shown(value)}; expected {' or '.join(map(str, numbers))}, as in the card {card.name}"
