"""Published checkpoints as open models: their card, their body with its weights, and their tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from unmask.core import arguments
from unmask.core.errors import UnmaskError, shown
from unmask.hub import card as cards
from unmask.hub import native, tokens, weights
from unmask.hub.body import Body
from unmask.hub.card import FAMILIES, Card
from unmask.hub.model import OpenModel
from unmask.hub.probe import probe
from unmask.hub.quantize import quantize as quantized
from unmask.networks.model.checkpoints import choose_device
from unmask.text import bpe, checkpoint
from unmask.text.published import Published

GPT2S = ("mdlm", "bd3lm")  # families that are published without a tokenizer: it is GPT-2's
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
    quantize: str | None = None,
    checked: bool = True,
) -> OpenModel:
    """A checkpoint in a directory, or by the name of its card or its repository, as `unmask.hub.fetch` finds it.

    card: which one it is, by name or a JSON file, where the directory does not say. dtype: of the weights, unless told
    otherwise the checkpoint's own; quantize: "int8" or "int4" (quantize.py). checked: ask the probe whether it behaves
    as its card says.
    """
    from unmask.hub.fetch import locate

    if dtype is not None:
        arguments.word("dtype", dtype, DTYPES)
    directory, named = locate(source, card)
    place = choose_device(device)
    found, config = card_of(directory, named)
    body, about = _body(directory, found, config, place, None if dtype is None else DTYPES[dtype])
    about |= {"quantize": quantize or "none"}
    if quantize is not None:
        body = quantized(body, quantize)
    tokenizer = tokenizer_of(directory, found, body.vocabulary)
    beside = None if causal_model is None else load_model(causal_model, device=device, dtype=dtype, batch=batch)
    model = OpenModel(found, body, tokenizer=tokenizer, about=about, cache=cache, batch=batch, causal=beside)
    for problem in tokens.problems(found, config, tokenizer):
        what = "it is another model, or a card of your own must say so (--card FILE.json)"
        raise UnmaskError(f"{directory}: {problem}; {what}")
    if checked:
        probe(model)
    return model


def card_of(directory: Path, named: Card | None) -> tuple[Card, dict[str, Any]]:
    """The card of a directory, unless it has been named, and its config.json; an error where they do not fit."""
    config = weights.read_config(directory)
    found = named or cards.recognised(config, directory) or native.card_of(config, directory)
    if not FAMILIES[found.family].accepts(config):
        kind = shown(config.get("model_type"))
        raise UnmaskError(f"{directory} holds a model of type {kind}, which is none of {found.name}'s family")
    return found, config


def outline(directory: Path, named: Card | None, cache: str | None = None) -> OpenModel | None:
    """A model without its weights, for what its shape says; None where a library alone knows it."""
    found, config = card_of(directory, named)
    body = shape_of(directory, found, config)
    if body is None:
        return None
    return OpenModel(found, body, tokenizer=tokenizer_of(directory, found, body.vocabulary), cache=cache)


def shape_of(directory: Path, card: Card, config: dict[str, Any]) -> Body | None:
    """A body on the meta device, which has no weights; None where a library alone knows it."""
    family = FAMILIES[card.family]
    if family.body is None:
        return None
    with torch.device("meta"):
        return family.body(config, str(weights.config_of(directory)))


def _body(
    directory: Path, card: Card, config: dict[str, Any], device: torch.device, dtype: torch.dtype | None
) -> tuple[Body, dict[str, Any]]:
    """The body of a checkpoint, and what names it in results."""
    family = FAMILIES[card.family]
    if family.read is not None:
        body = family.read(directory, config, dtype).to(device)
        with weights.opened(directory) as files:
            return body, {"revision": card.revision, "weights": weights.digest(files)}
    shaped = shape_of(directory, card, config)
    assert shaped is not None
    with weights.opened(directory) as files:
        weights.fill(shaped, family, files, device, dtype)
        return shaped, {"revision": card.revision, "weights": weights.digest(files)}


def tokenizer_of(directory: Path, card: Card, rows: int) -> Published | None:
    """Of a model whose head has so many rows; None where there is none: tokens alone can still be written."""
    if weights.is_packed(directory):
        return bpe.smollm2(str(directory))
    if checkpoint.lies_in(directory):
        made = checkpoint.read(directory)
        made.check_fits(rows, card.tokens.mask)
        return made
    return bpe.gpt2() if card.family in GPT2S and rows >= checkpoint.GPT2 else None
