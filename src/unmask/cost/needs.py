"""Estimate the memory and time of an open model before anything of it is fetched or loaded.

    weights           parameters x bytes of their type, 1 or 1/2 if packed (hub/quantize.py)
    keys and values   2 x layers x heads x width x rows x (L + 1), with a cache
    states            rows x (L + 1) x hidden
    arithmetic        model calls x that of all columns; savings by caches and early ends are not subtracted

Without its files only the number of parameters is known, from the card.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unmask.core import arguments
from unmask.core.cores import count
from unmask.core.errors import UnmaskError
from unmask.core.memory import size
from unmask.cost.flops import flop_per_second
from unmask.hub import Card, OpenModel
from unmask.hub.fetch import here
from unmask.hub.loading import DTYPES, outline
from unmask.hub.quantize import HEAD
from unmask.networks.model.checkpoints import choose_device, free_on

USUAL = "bfloat16"  # of published weights
PACKED = {"int8": 1.0, "int4": 0.5}  # bytes of a weight of a layer


def look(source: str | Path, card: str | None, cache: str | None) -> tuple[Card, OpenModel | None]:
    """Return the card of a model and, if its files are here, the model without its weights."""
    directory, named = here(source, card)
    model = None if directory is None else outline(directory, named, cache)
    known = named if model is None else model.card
    if known is None:
        problem = "only transformers knows its shape. Load it, or pass a card"
        raise UnmaskError(f"cannot compute the memory and the FLOPs of {source}: {problem}")
    return known, model


def needs(
    card: Card,
    model: OpenModel | None,
    device: str,
    dtype: str | None,
    quantize: str | None,
    rows: int,
    length: int,
    model_calls: int,
) -> dict[str, Any]:
    """Return memory and time for `rows` sequences of `length` tokens with at most `model_calls` model calls each."""
    arguments.word("dtype", kind := dtype or USUAL, DTYPES)
    if quantize is not None:
        arguments.word("quantize", quantize, PACKED)
    place, each = choose_device(device), DTYPES[kind].itemsize
    parameters = _parameters(card) if model is None else sum(weight.numel() for weight in model.body.parameters())
    inner = parameters if model is None else sum(weight.numel() for weight in _packed(model))

    def weights(kind: str, quantize: str | None) -> int:
        usual = DTYPES[kind].itemsize
        return round(inner * PACKED.get(quantize or "", usual) + (parameters - inner) * usual)

    parts = {"weights": weights(kind, quantize)}
    if model is not None:
        if model.body.sizes is not None and (model.cache is not None or card.block is not None):
            layers, heads, width = model.body.sizes
            parts["keys_and_values"] = 2 * layers * heads * width * rows * (length + 1) * each
        parts["states"] = rows * (length + 1) * model.body.hidden * each
    room = free_on(place)
    total = sum(parts.values())
    about: dict[str, Any] = {"model": card.name, "files": "not here" if model is None else "here"}
    about |= {"parameters": parameters, "dtype": kind, "device": str(place)}
    about["memory"] = {name: size(number) for name, number in (parts | {"all": total}).items()}
    about |= {"there_is": size(room), "fits": "yes"}
    if total >= room:
        ways = {"--dtype bfloat16": weights(USUAL, None)} | {f"--quantize {way}": weights(kind, way) for way in PACKED}
        fitting = [way for way, less in ways.items() if total - max(parts["weights"] - less, 0) < room]
        about["fits"] = f"no; with {fitting[0]} it does" if fitting else "no; a smaller model, or fewer rows"
    about |= {"rows": rows, "length": length, "model_calls_at_most": model_calls}
    if model is not None:
        flops = float(model_calls * rows * model.body.flops(length, length))
        speed = flop_per_second(place, DTYPES[kind] if place.type == "cuda" else torch.float32, count())
        about |= {"flops_at_most": flops, "seconds_about": flops / speed}
    return about


def _parameters(card: Card) -> int:
    if card.billions is None:
        raise UnmaskError(f"the files of {card.name} are not here, and its card has no size")
    return round(card.billions * 1e9)


def _packed(model: OpenModel) -> Iterator[Tensor]:
    """Yield the weights that hub/quantize.py packs."""
    for name, module in model.body.named_modules():
        if isinstance(module, nn.Linear) and HEAD not in name:
            yield module.weight
