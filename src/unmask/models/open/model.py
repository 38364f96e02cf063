"""A published checkpoint as a denoiser.

    p(x_j | x_R) = softmax(logits_j); the mask and the banned tokens of the card have probability zero

With prediction "shifted", the logits of position j are at j - 1. V is the number of rows of the head, so tokens are
those of the tokenizer. Hidden positions, V in a sequence, become the model's mask token. Logits are computed in the
type of the weights; samplers use them in float32 (denoisers/scan.py).
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
from unmask.models.open.card import Card
from unmask.models.open.decoder import Body
from unmask.models.open.engine import OpenEngine, OpenReader, cache_of
from unmask.models.text import Tokenizer
from unmask.models.trained.running import FEW, probabilities


class OpenModel(Denoiser):
    """An open model.

    cache: none, or the approximations prefix and dual (engine.py), which change the distribution. batch: rows per
    forward pass. causal: an AR model with the same tokenizer, for autoregression and speculation.
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
        self.before: Callable[[], None] | None = None  # called before each model call; an exception ends the generation
        if self.cache is not None and card.block is not None:
            kind = "an AR model" if card.causal else f"block-causal ({card.block})"
            raise UnmaskError(f"{card.name} is {kind}, whose cache is exact and always on. Leave --cache out")
        if body.block is not None and card.block != body.block < body.context:
            problem = f"config.json of {card.name} has blocks of {body.block}, its card {card.block or 'none'}"
            raise UnmaskError(f"{problem}. Use the card of that block length, or your own (--card FILE.json)")
        if causal is not None and causal.vocabulary != body.vocabulary:
            sizes = f"{body.vocabulary} tokens, {causal.card.name} {causal.vocabulary}"
            raise UnmaskError(f"{card.name} has {sizes}; expected the same tokenizer for both models")
        self.vocabulary, self.length = body.vocabulary, min(card.context, body.context)
        self.grid = None if card.causal else card.block
        self.shift = int(card.prediction == "shifted")
        self._about = about or {}
        banned = {token for token in (card.tokens.mask, *card.banned) if token is not None}
        never = sorted(token for token in banned if token < body.vocabulary)
        self._banned = torch.tensor(never, dtype=torch.int64, device=body.device)

    @property
    def name(self) -> str:
        return self.card.name

    @property
    def mask(self) -> int:
        """The mask token; for an AR model, which has none, the start token."""
        return self.start if self.card.tokens.mask is None else self.card.tokens.mask

    @property
    def begins(self) -> bool:
        """Whether texts begin with a symbol that all tokens attend to."""
        return self.card.tokens.bos is not None

    @property
    def start(self) -> int:
        """The first input token of an AR model."""
        tokens = self.card.tokens
        return next(token for token in (tokens.bos, tokens.start, tokens.eos, 0) if token is not None)

    def source(self) -> dict[str, Any]:
        about = {"denoiser": "open model", "card": self.card.name, "repository": self.card.repository} | self._about
        about |= {"dtype": str(self.body.dtype).removeprefix("torch."), "cache": str(self.cache or "none")}
        return about if self.reader is None else about | {"causal": self.reader.source()}

    def engine(self, tokens: Tensor, given: Tensor | None = None, valid: Tensor | None = None) -> Engine:
        self._check_length(tokens.shape[1])
        if self.card.causal:
            raise UnmaskError(f"{self.name} is an AR model. Use --sampler autoregressive")
        return OpenEngine(self, tokens, tokens.clone() if given is None else given, valid)

    def causal(self, rows: int, length: int, valid: Tensor | None = None) -> Causal:
        self._check_length(length)
        if self.card.causal:
            return OpenReader(self, rows, length, valid)
        if self.reader is None:
            remedy = "Pass one with the same tokenizer: --causal-model"
            raise UnmaskError(f"autoregression and speculation with {self.name} need an AR model. {remedy}")
        return self.reader.causal(rows, length, valid)

    def rows_at_once(self, length: int) -> int | None:
        return self.batch

    def without(self, tokens: Collection[int]) -> OpenModel:
        """The same model with these tokens banned, too."""
        card = msgspec.structs.replace(self.card, banned=tuple(sorted({*self.card.banned, *tokens})))
        about = self._about | {"banned": sorted(tokens)}
        cache = None if self.cache is None else str(self.cache)
        options: dict[str, Any] = {"cache": cache, "batch": self.batch, "causal": self.reader}
        return OpenModel(card, self.body, tokenizer=self.tokenizer, about=about, **options)

    def marginals(self, states: Tensor) -> Marginals:
        """Marginals at states (K, hidden)."""
        if self.vocabulary > FEW:
            return Logits(states, self.logits, self.vocabulary)
        return Table(probabilities(self.logits(states)).cpu(), FLOAT32)

    @torch.no_grad()
    def logits(self, states: Tensor) -> Tensor:
        """Logits (.., V) of states (.., hidden), -inf for banned tokens."""
        logits = self.body.logits(states)
        return logits.index_fill_(-1, self._banned, -torch.inf) if len(self._banned) else logits

    def _check_length(self, length: int) -> None:
        if length > self.length:
            raise UnmaskError(f"length is {length}; expected at most {self.length} for {self.name}")
