"""An open model as a denoiser: a published checkpoint behind the contract that all samplers speak.

    p(x_j | x_R) = softmax(logits_j), the mask and what its card bans having none; where the card says "shifted" the
    answer for j stands at j - 1

V is the number of rows of its head, so that tokens are those of its tokenizer; the canvas's mask V becomes the model's.
Logits are computed in the type of the weights, and decided upon in float32 (denoisers/scan.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError, shown
from unmask.denoisers import Causal, Denoiser, Engine, Logits, Marginals, Table
from unmask.denoisers.scan import FLOAT32
from unmask.hub import card as cards
from unmask.hub import native, tokens, weights
from unmask.hub.body import Body
from unmask.hub.card import FAMILIES, Card
from unmask.hub.engine import OpenEngine, OpenReader, cache_of
from unmask.hub.probe import probe
from unmask.hub.quantize import quantize as quantized
from unmask.networks.model.checkpoints import choose_device
from unmask.networks.running.evaluation import FEW, probabilities
from unmask.text import Tokenizer, checkpoint
from unmask.text.published import Published

GPT2S = ("mdlm", "bd3lm")  # families that are published without a tokenizer: it is GPT-2's
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}


class OpenModel(Denoiser):
    """cache: none, or prefix and dual, which are other laws (engine.py). batch: rows that are evaluated at once.

    causal: an AR model of the same tokens, which reads for autoregression and speculation.
    """

    def __init__(
        self,
        card: Card,
        body: Body,
        *,
        tokenizer: Tokenizer | None = None,
        about: dict[str, Any] | None = None,
        cache: str | None = None,
        batch: int | None = None,
        causal: OpenModel | None = None,
    ) -> None:
        if batch is not None:
            arguments.whole("batch", batch)
        self.card, self.body, self.tokenizer, self.batch, self.reader = card, body, tokenizer, batch, causal
        self.cache = cache_of(cache)
        self.before: Callable[[], None] | None = None  # called before each evaluation of rows; by raising it ends them
        if self.cache is not None and card.block is not None:
            kind = "an AR model" if card.causal else f"block-causal ({card.block})"
            raise UnmaskError(f"{card.name} is {kind}, and remembers exactly without being told; leave --cache out")
        if body.block is not None and card.block != body.block < body.context:
            what = f"was taught in blocks of {body.block} by its config.json, and its card says {card.block or 'none'}"
            raise UnmaskError(
                f"{card.name} {what}; take the card of that length, or one of your own (--card FILE.json)"
            )
        if causal is not None and causal.vocabulary != body.vocabulary:
            sizes = f"{body.vocabulary} tokens, {causal.card.name} {causal.vocabulary}"
            raise UnmaskError(f"{card.name} knows {sizes}; a pair must have the same tokenizer")
        self.vocabulary, self.length = body.vocabulary, min(card.context, body.context)
        self.grid = None if card.causal else card.block
        self.shift = int(card.prediction == "shifted")
        self._about = about or {}
        self._banned = torch.tensor(sorted(self._never()), dtype=torch.int64, device=body.device)

    def _never(self) -> set[int]:
        """What is never written."""
        card, tokens = self.card, self.card.tokens
        never = {token for token in (tokens.mask, *card.banned) if token is not None}
        if card.plain and isinstance(self.tokenizer, Published):
            never |= {*self.tokenizer.controls.values(), *range(self.tokenizer.vocabulary, self.vocabulary)}
            never -= {tokens.eos, tokens.end_of_turn} - {tokens.mask}
        return {token for token in never if token < self.vocabulary}

    @property
    def name(self) -> str:
        return self.card.name

    @property
    def mask(self) -> int:
        """What stands where a canvas is hidden; of an AR model, which has none, what a text begins with."""
        return self.start if self.card.tokens.mask is None else self.card.tokens.mask

    @property
    def begins(self) -> bool:
        """Whether a text begins with a symbol that all of it sees."""
        return self.card.tokens.bos is not None

    @property
    def start(self) -> int:
        """What an AR model reads first."""
        tokens = self.card.tokens
        return next(token for token in (tokens.bos, tokens.start, tokens.eos, 0) if token is not None)

    def source(self) -> dict[str, Any]:
        about = {"denoiser": "open model", "card": self.card.name, "repository": self.card.repository} | self._about
        about |= {"dtype": str(self.body.dtype).removeprefix("torch."), "cache": str(self.cache or "none")}
        return about if self.reader is None else about | {"causal": self.reader.source()}

    def engine(self, tokens: Tensor, given: Tensor | None = None, valid: Tensor | None = None) -> Engine:
        self._check_length(tokens.shape[1])
        if self.card.causal:
            raise UnmaskError(f"{self.name} is an AR model, which cannot fill a canvas; take --sampler autoregressive")
        return OpenEngine(self, tokens, tokens.clone() if given is None else given, valid)

    def causal(self, rows: int, length: int, valid: Tensor | None = None) -> Causal:
        self._check_length(length)
        if self.card.causal:
            return OpenReader(self, rows, length, valid)
        if self.reader is None:
            what = "autoregression and speculation read with one; give an AR model of the same tokens, --causal-model"
            raise UnmaskError(f"{self.name} has no AR model beside it, and {what}")
        return self.reader.causal(rows, length, valid)

    def rows_at_once(self, length: int) -> int | None:
        return self.batch

    def without(self, tokens: Collection[int]) -> OpenModel:
        """The same model, which never writes these tokens either."""
        card = msgspec.structs.replace(self.card, banned=tuple(sorted({*self.card.banned, *tokens})))
        about = self._about | {"banned": sorted(tokens)}
        cache = None if self.cache is None else str(self.cache)
        how: dict[str, Any] = {"cache": cache, "batch": self.batch, "causal": self.reader}
        return OpenModel(card, self.body, tokenizer=self.tokenizer, about=about, **how)

    def said(self, states: Tensor) -> Marginals:
        """What the head makes of states (K, hidden)."""
        if self.vocabulary > FEW:
            return Logits(states, self.logits, self.vocabulary)
        return Table(probabilities(self.logits(states)).cpu(), FLOAT32)

    @torch.no_grad()
    def logits(self, states: Tensor) -> Tensor:
        """(.., V) of states (.., hidden), -inf for what is never written."""
        found = self.body.logits(states)
        return found.index_fill_(-1, self._banned, -torch.inf) if len(self._banned) else found

    def _check_length(self, length: int) -> None:
        if length > self.length:
            raise UnmaskError(
                f"{self.name} was made for up to {self.length} tokens, but length is {length}; ask for less"
            )


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
        return checkpoint.smollm2(str(directory))
    if checkpoint.lies_in(directory):
        made = checkpoint.read(directory)
        made.check_fits(rows, card.tokens.mask)
        return made
    return checkpoint.gpt2() if card.family in GPT2S and rows >= checkpoint.GPT2 else None


__all__ = ["OpenModel", "load_model"]
