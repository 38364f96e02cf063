"""An open model as a denoiser: a published checkpoint behind the contract that all samplers speak.

    p(x_j | x_R) = softmax(logits_j), the mask and what its card bans having none; where the card says "shifted" the
    answer for j stands at j - 1

V is the number of rows of its head, so that tokens are those of its tokenizer; the canvas's mask V becomes the model's.
Logits are computed in the type of the weights, and decided upon in float32 (denoisers/scan.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import msgspec
import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.denoisers import Causal, Denoiser, Engine, Logits, Marginals, Table
from unmask.denoisers.scan import FLOAT32
from unmask.hub.body import Body
from unmask.hub.card import Card
from unmask.hub.engine import OpenEngine, OpenReader, cache_of
from unmask.networks.running.evaluation import FEW, probabilities
from unmask.text import Tokenizer
from unmask.text.published import Published


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
