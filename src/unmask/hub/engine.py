"""What computes for canvases and readers on an open model: which columns, what they see, and what is remembered.

    bidirectional    every evaluation computes all columns, which see each other
      prefix(b)      columns from the begin of the row's current block on; keys and values of those before it are those
                     of the evaluation in which the block began: another law, and a cheaper one (Fast-dLLM)
      dual(b)        columns of the current block alone, those on both sides being remembered
    block-causal     a column sees its own block and those before it. What is remembered of blocks that are settled is
                     what would be computed again, so it is the same law; the last of them is computed once more with
                     the block that follows, when its tokens are known
      causal past    columns of settled blocks, those before the first that has a hidden place, see only what stands
                     before them: what is known is read from left to right, what is written sees its block (Nemotron)

B rows, L positions; R rows, W columns and A answers of one forward.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.registry import parse
from unmask.denoisers import Causal, Engine, Marginals
from unmask.denoisers.contracts import Cost
from unmask.denoisers.stateless import followed
from unmask.hub.body import Body
from unmask.hub.card import Card
from unmask.networks.model.cache import Reach
from unmask.networks.running.evaluation import fitted

CACHES = ("prefix", "dual")


@dataclass(frozen=True)
class Cache:
    """prefix and dual of a block length: approximations, which results name."""

    kind: str
    block: int

    def __str__(self) -> str:
        return f"{self.kind}(block={self.block})"


def cache_of(said: str | None) -> Cache | None:
    """ "prefix", or "dual(block=16)"; none and None are none."""
    if said is None or said == "none":
        return None
    kind, options = parse("cache", said)
    arguments.word("cache", kind, CACHES)  # or none, which has no options
    for option in options:
        if option != "block":
            raise UnmaskError(f"cache {kind!r} has no option {option!r}; write {kind}(block=32)")
    return Cache(kind, arguments.whole("block of the cache", options.get("block", 32), 1, arguments.MOST_LENGTH))


class Computed(Protocol):
    """The part of an open model that its engine uses."""

    card: Card
    body: Body
    vocabulary: int
    shift: int
    batch: int | None
    cache: Cache | None
    before: Callable[[], None] | None

    @property
    def name(self) -> str: ...
    @property
    def mask(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def begins(self) -> bool: ...
    def said(self, states: Tensor) -> Marginals: ...


class Computer:
    """States of rows, from tokens (B, L) that somebody else owns, V being hidden."""

    def __init__(self, model: Computed, rows: int, length: int, ends: Tensor, block: int | None, keep: bool) -> None:
        self.model, self.body, self.block, self.ends, self.length = model, model.body, block, ends, length
        body = self.body
        self.states = torch.zeros((rows, length + 1, body.hidden), device=body.device, dtype=body.dtype)
        self.past = torch.zeros(rows, dtype=torch.int64)  # columns that see only what stands before them
        self.kept: Tensor | None = None
        if keep:
            if body.sizes is None:
                raise UnmaskError(f"{model.name} keeps no keys and values, so it has no cache; leave --cache out")
            layers, heads, width = body.sizes
            size = (layers, 2, rows, heads, length + 1, width)  # the last column is where padding goes
            what, place = f"of {length} tokens remembered", (body.device, body.dtype)
            self.kept = fitted(
                lambda count: torch.zeros((*size[:2], count, *size[3:]), device=place[0], dtype=place[1]),
                rows,
                what,
                body.device,
            )

    @torch.no_grad()
    def compute(self, tokens: Tensor, rows: Tensor, first: Tensor, last: Tensor) -> Cost:
        """Columns first..last-1 (R) of rows (R), whose states are then new."""
        cost = Cost()
        for part in torch.arange(len(rows)).split(self.model.batch or max(len(rows), 1)):
            if self.model.before is not None:
                self.model.before()
            mine, begin, end = rows[part], first[part], last[part]
            width = int((end - begin).max())
            forward = partial(self._forward, tokens, mine, begin, end)
            fitted(forward, len(mine), f"of {width} tokens", self.body.device)
            number = int((end - begin).sum())
            keys = int(self.ends[mine].max()) if self.kept is not None else width
            cost = cost + Cost(1, len(mine), number, self.body.flops(number, keys))
        return cost

    def _forward(self, tokens: Tensor, rows: Tensor, first: Tensor, last: Tensor, count: int) -> bool:
        """Of the first so many rows; whether it could be done is for `fitted` to find."""
        rows, first, last = rows[:count], first[:count], last[:count]
        device = self.body.device
        columns = first.unsqueeze(1) + torch.arange(int((last - first).max()))
        columns = torch.where(columns < last.unsqueeze(1), columns, self.length)  # padding, seen by nobody
        read = tokens[rows.unsqueeze(1), columns.clamp(max=self.length - 1)]
        read = torch.where(read == self.model.vocabulary, self.model.mask, read).to(device)
        seen = self._seen(columns, rows)
        plain = self.kept is None and not bool((first > 0).any())
        places, mine = columns.to(device), rows.to(device)
        reach = None
        if self.kept is not None:
            whole = len(rows) == self.kept.shape[2]
            reach = Reach(self.kept, None if whole else mine, 0, places, self.length, None, False)
        states = self.body.states(read, None if plain else self._told(places), seen, reach)
        self.states[mine.unsqueeze(1), places] = states
        return True

    def _told(self, columns: Tensor) -> Tensor:
        """What the body is told of where columns stand."""
        return columns

    def _seen(self, columns: Tensor, rows: Tensor) -> Tensor | None:
        """Which keys each column sees: (R, 1, 1 or W, T), or None: all."""
        keys = columns.shape[1] if self.kept is None else self.length
        key = torch.arange(keys)
        inside = key < self.ends[rows].view(-1, 1, 1, 1)
        if self.block is None:
            return None if bool(inside.all()) else inside.to(self.body.device)
        before = torch.where(
            columns < self.past[rows].unsqueeze(1), columns + 1, self.block * (columns // self.block + 1)
        )
        seen = (key < before.unsqueeze(-1)).unsqueeze(1)
        return (seen & (inside | (columns == self.length)[:, None, :, None])).to(self.body.device)


class OpenEngine(Engine):
    """Evaluates rows that have changed when they are asked for."""

    def __init__(self, model: Computed, tokens: Tensor, given: Tensor, valid: Tensor | None) -> None:
        super().__init__(tokens)
        self.model, self.vocabulary = model, model.vocabulary
        rows, length = tokens.shape
        ends = torch.full((rows,), length) if valid is None else valid.sum(1)
        self.block, self.cache = model.card.block, model.cache
        keep = (self.block is not None and model.body.sizes is not None) or self.cache is not None
        self.computer = Computer(model, rows, length, ends, self.block, keep)
        self.begins = ((given == self.vocabulary) & (torch.arange(length) < ends.unsqueeze(1))).int().argmax(1)
        self.ends = ends
        self.stale = torch.ones(rows, dtype=torch.bool)
        self.settled = torch.zeros(rows, dtype=torch.int64)  # columns whose keys and values stand, of block-causal rows
        self.reached = torch.zeros(rows, dtype=torch.int64)  # columns that have been computed since the last change
        self.current = torch.full((rows,), -1)  # the begin of the block that the cache was made for

    def renew(self, rows: Tensor, positions: Tensor) -> None:
        self.stale[rows] = True
        if self.block is not None:
            begins = positions // self.block * self.block
            self.settled.scatter_reduce_(0, rows, begins, "amin")

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Marginals:
        columns = (positions - self.model.shift).clamp(min=0)
        which, index = rows.unique_consecutive(return_inverse=True)
        furthest = torch.zeros(len(which), dtype=torch.int64).scatter_reduce_(0, index, columns, "amax")
        new = self.stale[which] | (self.reached[which] <= furthest)
        if bool(new.any()):
            self._compute(which[new], furthest[new])
        states = self.computer.states[rows.to(self.model.body.device), columns.to(self.model.body.device)]
        return self.model.said(states)

    def _compute(self, rows: Tensor, furthest: Tensor) -> None:
        ends = self.ends[rows]
        hidden = (self.tokens[rows] == self.vocabulary) & (torch.arange(self.tokens.shape[1]) < ends.unsqueeze(1))
        leftmost = torch.where(hidden.any(1), hidden.int().argmax(1), ends)
        if self.block is not None:
            first = self.settled[rows] if self.computer.kept is not None else torch.zeros_like(ends)
            last = torch.minimum((furthest // self.block + 1) * self.block, ends)
            last = torch.maximum(last, torch.minimum((leftmost // self.block + 1) * self.block, ends))
            self.settled[rows] = torch.minimum(leftmost // self.block * self.block, last)
            if self.model.card.past == "causal":
                self.computer.past[rows] = leftmost // self.block * self.block
        elif self.cache is not None:
            begin = self.begins[rows]
            begin = begin + (leftmost - begin) // self.cache.block * self.cache.block
            same = self.current[rows] == begin
            last = torch.minimum(begin + self.cache.block, ends) if self.cache.kind == "dual" else ends
            first, last = torch.where(same, begin, 0), torch.where(same, last, ends)
            self.current[rows] = begin
        else:
            first, last = torch.zeros_like(ends), ends
        self.spend(self.computer.compute(self.tokens, rows, first, last))
        self.stale[rows] = False
        self.reached[rows] = last if self.block is not None else ends


class OpenReader(Causal):
    """An AR model read from left to right: column 0 is the start, and what stands at column j says what follows.

    Where the model has no symbol that a text begins with, what stands in its place says the first token, and is not
    seen by others: a text then reads as it does without it.
    """

    def __init__(self, model: Computed, rows: int, length: int, valid: Tensor | None) -> None:
        super().__init__(rows)
        self.model = model
        ends = torch.full((rows,), length + 1) if valid is None else valid.sum(1) + 1
        self.tokens = torch.full((rows, length + 1), model.start)
        self.computer = ReaderComputer(model, rows, length + 1, ends, 1, True)
        self.lengths = torch.zeros(rows, dtype=torch.int64)  # read, the start included
        self.places = length

    def extend(self, tokens: Tensor, counts: Tensor | None = None, asked: Tensor | None = None) -> Marginals:
        counts = torch.full((len(tokens),), tokens.shape[1]) if counts is None else counts
        answered = followed(self.lengths - 1, counts, tokens.shape[1], self.places, asked)
        columns = self.lengths.unsqueeze(1) + torch.arange(tokens.shape[1])
        read = torch.arange(tokens.shape[1]) < counts.unsqueeze(1)
        rows = torch.arange(len(tokens)).unsqueeze(1).expand_as(columns)
        said = torch.where(tokens == self.model.vocabulary, self.model.start, tokens)
        self.tokens[rows[read], columns[read]] = said[read]
        reading = (counts > 0).nonzero().squeeze(1)
        if len(reading):
            first = self.lengths[reading]
            self.spend(self.computer.compute(self.tokens, reading, first, first + counts[reading]))
        self.lengths = self.lengths + counts
        self.need(counts > 0)
        device = self.model.body.device
        return self.model.said(self.computer.states[rows[answered].to(device), columns[answered].to(device)])

    def rewind(self, lengths: Tensor) -> None:
        self.lengths = torch.minimum(self.lengths, lengths + 1)


class ReaderComputer(Computer):
    """Columns see themselves and those before them; the start only where a text begins with it."""

    def _told(self, columns: Tensor) -> Tensor:
        return columns if self.model.begins else (columns - 1).clamp(min=0)

    def _seen(self, columns: Tensor, rows: Tensor) -> Tensor | None:
        seen = super()._seen(columns, rows)
        if seen is not None and not self.model.begins:
            seen[..., 0] = (columns == 0).unsqueeze(1).to(seen.device)
        return seen
