"""A published checkpoint as a denoiser.

    p(x_j | x_R) = softmax(logits_j); the mask and the banned tokens of the card have probability zero

With prediction "shifted", the logits of position j are at j - 1. V is the number of rows of the head, so tokens are
those of the tokenizer. Hidden positions, V in a sequence, become the model's mask token. Logits are computed in the
type of the weights; samplers use them in float32 (denoisers/scan.py). Forward passes, by attention and cache:

    bidirectional    each model call computes all columns, which attend to each other
    block-causal     a column attends to its own block and earlier ones. The cache of completed blocks is exact, so the
                     distribution is the same. The last completed block is computed once more with the next one, when
                     all its tokens are known

B rows, L positions; R rows, W columns and A answers of one forward.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

import msgspec
import torch
from torch import Tensor

from unmask.core import arguments, entries
from unmask.core.errors import UnmaskError
from unmask.denoisers import Causal, Denoiser, Engine, Logits, Marginals, Table
from unmask.denoisers.contracts import Cost
from unmask.denoisers.denoiser import followed
from unmask.denoisers.scan import FLOAT32
from unmask.models.open.body import Body
from unmask.models.open.card import Card
from unmask.models.text import Tokenizer
from unmask.models.trained.memory import Reach
from unmask.models.trained.running import FEW, fitted, probabilities


class OpenModel(Denoiser):
    """An open model. causal: an AR model with the same tokenizer, for autoregression and speculation."""

    def __init__(
        self,
        card: Card,
        body: Body,
        *,
        tokenizer: Tokenizer | None = None,
        about: dict[str, Any] | None = None,
        batch: int | None = None,
        causal: OpenModel | None = None,
    ) -> None:
        if batch is not None:
            arguments.whole("batch", batch)
        self.card, self.body, self.tokenizer = card, body, tokenizer
        self.batch, self.reader = batch, causal

        if body.symbols is not None:
            card.check_fits(body.symbols)

        if body.block is not None and card.block != body.block < body.context:
            raise UnmaskError(
                f"config.json of {card.name} has blocks of {body.block}, its card {card.block or 'none'}",
                "Use the card of that block length, or your own (--card FILE.json)",
            )

        if causal is not None and causal.vocabulary != body.vocabulary:
            raise UnmaskError(
                f"{card.name} has {body.vocabulary} tokens, {causal.card.name} {causal.vocabulary}",
                "expected the same tokenizer for both models",
            )

        self.vocabulary = body.vocabulary
        self.length = min(card.context, body.context)
        self.grid = None if card.causal else card.block
        self.shift = int(card.prediction == "shifted")
        self._about = about or {}
        self.found = ""  # the findings of its probe

        # the mask and these tokens have probability 0 at every position
        banned = {card.tokens.mask, *card.banned}
        never = sorted(token for token in banned if token is not None and token < body.vocabulary)
        self._banned = torch.tensor(never, dtype=torch.int64, device=body.device)

    @property
    def name(self) -> str:
        return self.card.name

    @property
    def mask(self) -> int:
        """The mask token; for an AR model, which has none, the start token."""
        return entries.chosen(self.card.tokens.mask, self.start)

    @property
    def begins(self) -> bool:
        """Whether texts begin with a symbol that all tokens attend to."""
        return self.card.tokens.bos is not None or self.body.sizes is None

    @property
    def start(self) -> int:
        """The first input token of an AR model."""
        tokens = self.card.tokens
        return entries.present([tokens.bos, tokens.start, tokens.eos, 0])[0]

    def source(self) -> dict[str, Any]:
        about = {"denoiser": "open model", "card": self.card.name, "repository": self.card.repository} | self._about
        about |= {"dtype": str(self.body.dtype).removeprefix("torch.")}
        if self.reader is not None:
            about["causal"] = self.reader.source()
        return about

    def engine(self, tokens: Tensor, given: Tensor | None = None, valid: Tensor | None = None) -> Engine:
        self._check_length(tokens.shape[1])
        if self.card.causal:
            raise UnmaskError(
                f"{self.name} is an AR model, which writes one token per step and loses nothing by it",
                "expected a masked model",
                "Generate with --sampler autoregressive",
            )
        return OpenEngine(self, tokens, valid)

    def causal(self, rows: int, length: int, valid: Tensor | None = None) -> Causal:
        self._check_length(length)
        if self.card.causal:
            return OpenReader(self, rows, length, valid)
        if self.reader is None:
            raise UnmaskError(
                f"autoregression and speculation with {self.name} need an AR model",
                "Pass one with the same tokenizer: --causal-model",
            )
        return self.reader.causal(rows, length, valid)

    def rows_at_once(self, length: int) -> int | None:
        return self.batch

    def without(self, tokens: Collection[int]) -> OpenModel:
        """The same model with these tokens banned, too."""
        card = msgspec.structs.replace(self.card, banned=tuple(sorted({*self.card.banned, *tokens})))
        about = self._about | {"banned": sorted(tokens)}
        options: dict[str, Any] = {"batch": self.batch, "causal": self.reader}
        return OpenModel(card, self.body, tokenizer=self.tokenizer, about=about, **options)

    def marginals(self, states: Tensor) -> Marginals:
        """Marginals at states (K, hidden)."""
        if self.vocabulary > FEW:
            return Logits(states, self.logits, self.vocabulary)
        return Table(probabilities(self.logits(states)).cpu(), FLOAT32)

    @torch.no_grad()
    def logits(self, states: Tensor) -> Tensor:
        """Logits (.., V) of states (.., hidden), -inf for banned tokens."""
        return self.body.logits(states).index_fill_(-1, self._banned, -torch.inf)

    def _check_length(self, length: int) -> None:
        if length > self.length:
            raise UnmaskError(f"length is {length}; expected at most {self.length} for {self.name}")


class Computer:
    """States of rows, from tokens (B, L) of its owner; V is hidden."""

    def __init__(self, model: OpenModel, rows: int, length: int, ends: Tensor, block: int | None) -> None:
        self.model, self.body = model, model.body
        self.block, self.ends, self.length = block, ends, length
        self.apart = model.card.causal and not model.begins  # column 0 is a substitute, which others do not attend to

        body, device, dtype = self.body, self.body.device, self.body.dtype
        self.states = torch.zeros((rows, length + 1, body.hidden), device=device, dtype=dtype)
        self.memory: Tensor | None = None

        if block is not None and body.sizes is not None:
            layers, heads, width = body.sizes

            def memory(count: int) -> Tensor:  # the last column is for padding
                return torch.zeros((layers, 2, count, heads, length + 1, width), device=device, dtype=dtype)

            self.memory = fitted(memory, rows, f"of {length} tokens in the cache", device)

    @torch.no_grad()
    def compute(self, tokens: Tensor, rows: Tensor, first: Tensor, last: Tensor) -> Cost:
        """Update the states of columns first..last-1 (R) in rows (R)."""
        cost = Cost()
        for part in torch.arange(len(rows)).split(self.model.batch or max(len(rows), 1)):
            batch, begin, end = rows[part], first[part], last[part]
            width = int((end - begin).max())
            forward = partial(self._forward, tokens, batch, begin, end)
            fitted(forward, len(batch), f"of {width} tokens", self.body.device)
            number = int((end - begin).sum())
            keys = int(self.ends[batch].max()) if self.memory is not None else width
            cost = cost + Cost(1, len(batch), number, self.body.flops(number, keys))
        return cost

    def _forward(self, tokens: Tensor, rows: Tensor, first: Tensor, last: Tensor, count: int) -> bool:
        """One forward pass of the first `count` rows."""
        rows, first, last = rows[:count], first[:count], last[:count]
        device = self.body.device

        columns = first.unsqueeze(1) + torch.arange(int((last - first).max()))
        columns = torch.where(columns < last.unsqueeze(1), columns, self.length)  # padding, which no column attends to
        read = tokens[rows.unsqueeze(1), columns.clamp(max=self.length - 1)]
        read = torch.where(read == self.model.vocabulary, self.model.mask, read).to(device)

        seen = self._seen(columns, rows)
        places, numbers = columns.to(device), rows.to(device)
        positions = None
        if self.memory is not None or bool((first > 0).any()):
            positions = (places - int(self.apart)).clamp(min=0)

        # with a cache only these columns are computed, and their keys and values kept
        reach = None
        if self.memory is not None:
            whole = len(rows) == self.memory.shape[2]
            reach = Reach(self.memory, None if whole else numbers, 0, places, self.length, None, False)

        states = self.body.states(read, positions, seen, reach)
        self.states[numbers.unsqueeze(1), places] = states
        return True

    def _seen(self, columns: Tensor, rows: Tensor) -> Tensor | None:
        """The keys that each column attends to, (R, 1, 1 or W, T); None: all."""
        keys = columns.shape[1] if self.memory is None else self.length
        key = torch.arange(keys)
        inside = key < self.ends[rows].view(-1, 1, 1, 1)
        if self.block is None:
            return None if bool(inside.all()) else inside.to(self.body.device)
        before = self.block * (columns // self.block + 1)
        seen = (key < before.unsqueeze(-1)).unsqueeze(1) & (inside | (columns == self.length)[:, None, :, None])
        if self.apart:
            seen[..., 0] = (columns == 0).unsqueeze(1)
        return seen.to(self.body.device)


class OpenEngine(Engine):
    """An engine that computes changed rows when their marginals are requested."""

    def __init__(self, model: OpenModel, tokens: Tensor, valid: Tensor | None) -> None:
        super().__init__(tokens)
        self.model, self.vocabulary = model, model.vocabulary
        rows, length = tokens.shape
        ends = entries.chosen(valid, torch.ones(rows, length, dtype=torch.bool)).sum(1)
        self.block = model.card.block
        self.computer = Computer(model, rows, length, ends, self.block)
        self.ends = ends
        self.stale = torch.ones(rows, dtype=torch.bool)
        self.settled = torch.zeros(rows, dtype=torch.int64)  # columns with valid cache entries, for block-causal models
        self.reached = torch.zeros(rows, dtype=torch.int64)  # columns computed since the last change
        self._positions = torch.zeros(rows, dtype=torch.int64)

    @property
    def positions(self) -> Tensor:
        return self._positions

    def renew(self, rows: Tensor, positions: Tensor) -> None:
        self.stale[rows] = True
        if self.block is not None:
            begins = positions // self.block * self.block
            self.settled.scatter_reduce_(0, rows, begins, "amin")

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Marginals:
        columns = (positions - self.model.shift).clamp(min=0)
        distinct, index = rows.unique_consecutive(return_inverse=True)
        furthest = torch.zeros(len(distinct), dtype=torch.int64).scatter_reduce_(0, index, columns, "amax")
        new = self.stale[distinct] | (self.reached[distinct] <= furthest)
        if bool(new.any()):
            self._compute(distinct[new], furthest[new])
        states = self.computer.states[rows.to(self.model.body.device), columns.to(self.model.body.device)]
        return self.model.marginals(states)

    def _compute(self, rows: Tensor, furthest: Tensor) -> None:
        ends = self.ends[rows]
        hidden = (self.tokens[rows] == self.vocabulary) & (torch.arange(self.tokens.shape[1]) < ends.unsqueeze(1))
        leftmost = torch.where(hidden.any(1), hidden.int().argmax(1), ends)

        first, last = torch.zeros_like(ends), ends
        if self.computer.memory is not None:
            first = self.settled[rows]
        if self.block is not None:
            last = torch.minimum((torch.maximum(furthest, leftmost) // self.block + 1) * self.block, ends)
            self.settled[rows] = torch.minimum(leftmost // self.block * self.block, last)

        self._account += self.computer.compute(self.tokens, rows, first, last)
        self._positions[rows] += last - first
        self.stale[rows] = False
        self.reached[rows] = last


class OpenReader(Causal):
    """An AR model: column 0 has the start token, and column j predicts the next token.

    For models without a start symbol, a substitute at column 0 predicts the first token. Other columns do not attend to
    it, so a text is read as without it; a model without our cache attends to it, and reads each prefix again.
    """

    def __init__(self, model: OpenModel, rows: int, length: int, valid: Tensor | None) -> None:
        super().__init__(rows)
        self.model = model
        ends = entries.chosen(valid, torch.ones(rows, length, dtype=torch.bool)).sum(1) + 1
        self.tokens = torch.full((rows, length + 1), model.start)
        self.computer = Computer(model, rows, length + 1, ends, 1)
        self.lengths = torch.zeros(rows, dtype=torch.int64)  # tokens read, with the start token
        self.places = length
        self._positions = torch.zeros(rows, dtype=torch.int64)

    @property
    def positions(self) -> Tensor:
        return self._positions

    def extend(self, tokens: Tensor, counts: Tensor | None = None, selected: Tensor | None = None) -> Marginals:
        counts = entries.chosen(counts, torch.full((len(tokens),), tokens.shape[1]))
        answered = followed(self.lengths - 1, counts, tokens.shape[1], self.places, selected)

        columns = self.lengths.unsqueeze(1) + torch.arange(tokens.shape[1])
        read = torch.arange(tokens.shape[1]) < counts.unsqueeze(1)
        rows = torch.arange(len(tokens)).unsqueeze(1).expand_as(columns)
        inputs = torch.where(tokens == self.model.vocabulary, self.model.start, tokens)
        self.tokens[rows[read], columns[read]] = inputs[read]

        reading = (counts > 0).nonzero().squeeze(1)
        if len(reading):
            last = self.lengths[reading] + counts[reading]
            first = torch.zeros_like(last)
            if self.computer.memory is not None:
                first = self.lengths[reading]
            self._account += self.computer.compute(self.tokens, reading, first, last)

        self.lengths = self.lengths + counts
        self._positions = self._positions + counts
        self.need(counts > 0)
        device = self.model.body.device
        return self.model.marginals(self.computer.states[rows[answered].to(device), columns[answered].to(device)])

    def rewind(self, lengths: Tensor) -> None:
        self.lengths = torch.minimum(self.lengths, lengths + 1)
