"""A trunk at work: on its device, in batches that fit, with a KV cache, and with as few waits of the host as possible.

`Evaluator` gives probabilities at the requested positions. `fill` follows a whole order in one call: steps, rows and
columns follow from the order, and uniforms from the random seed, so all are known before the first model call. Rows are
sorted by their number of steps, largest first: the rows that have a step r are then the first rows, and no row has to
be moved. `NetworkCausal` reads and samples an AR network from left to right.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from unmask.core.chance import BLOCK, Randomness, Stream, categorical
from unmask.core.entries import chosen, taken
from unmask.core.errors import UnmaskError
from unmask.denoisers import Causal, Logits, Marginals, Table
from unmask.denoisers.contracts import Cost
from unmask.denoisers.denoiser import followed, layout
from unmask.denoisers.scan import FLOAT32
from unmask.models.trained.memory import Memory, sent
from unmask.models.trained.trunk import Trunk
from unmask.samplers import orders

FEW = 4 * BLOCK  # symbols up to which probabilities are float64; of more, such a tensor (.., V) would be too large
TOKENS = 1024  # evaluated at once on the CPU: activations between two layers then stay in its caches
Result = TypeVar("Result")


class Evaluator:
    """`below` evaluates rows up to the last block; `states` applies the last block at some columns."""

    def __init__(self, trunk: Trunk, batch: int | None = None) -> None:
        self.trunk, self.batch = trunk, batch
        self.device, self.vocabulary = trunk.device, trunk.shape.vocabulary

    @torch.no_grad()
    def below(self, tokens: Tensor, time: Tensor | None = None) -> Tensor:
        """(R, L, hidden) from contexts (R, L)."""
        return self._in_batches(self.trunk.below, tokens.to(self.device, non_blocking=True), time)

    @torch.no_grad()
    def states(self, below: Tensor, columns: Tensor | None, time: Tensor | None = None) -> Tensor:
        """Input of the head, (R, A, hidden) at columns (R, A), or everywhere."""
        return self._in_batches(self.trunk.top, below, columns, time)

    @torch.no_grad()
    def head(self, states: Tensor) -> Tensor:
        """Logits (.., V) from states (.., hidden)."""
        return self.trunk.head(states)

    def marginals(self, states: Tensor) -> Marginals:
        """Marginals from states (K, hidden): a table on the host, unless there are many symbols."""
        if self.vocabulary > FEW:
            return Logits(states, self.head, self.vocabulary)
        return Table(probabilities(self.head(states)).cpu(), FLOAT32)

    def _in_batches(self, compute: Callable[..., Tensor], x: Tensor, *rest: Tensor | None) -> Tensor:
        """Apply `compute` to (R, ..) each, one batch of rows at a time."""
        rows, length = x.shape[:2]
        moved = [sent(part, self.device) for part in rest]

        def from_row(first: int, count: int) -> Tensor:
            part = slice(first, first + count)
            return compute(x[part], *(taken(one, part) for one in moved))

        batch = self.batch or (max(TOKENS // length, 1) if self.device.type == "cpu" else rows)
        parts = [
            fitted(partial(from_row, first), min(batch, rows - first), f"of {length} tokens", self.device)
            for first in range(0, rows, batch)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def probabilities(logits: Tensor) -> Tensor:
    """(.., V) in float64, unless there are many symbols."""
    return torch.softmax(logits.to(torch.float64 if logits.shape[-1] <= FEW else torch.float32), -1)


def fitted(compute: Callable[[int], Result], rows: int, what: str, device: torch.device) -> Result:
    """compute(rows); an error of one line if memory is too small."""
    try:
        return compute(rows)
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and "can't allocate memory" not in str(error):
            raise
        remedy = f"Pass batch={rows // 2}" if rows > 1 else "Use a smaller network or a shorter length"
        raise UnmaskError(f"out of memory on {device}: {rows} rows {what} at once do not fit. {remedy}") from error


class Step(NamedTuple):
    """One step of the first R rows: K positions."""

    columns: Tensor  # (R, A): columns, padded
    valid: Tensor  # (K): indices in R x A that are not padding
    places: Tensor  # (K): in R x L


class Steps(NamedTuple):
    """An order (B, L), on the device."""

    rows: Tensor  # (R) of B: rows with at least one step, most steps first
    counts: Tensor  # (B): number of steps of each row
    uniforms: Tensor  # (R L)
    each: list[Step]

    @classmethod
    def of(cls, order: Tensor, rng: Randomness, visits: Tensor, device: torch.device) -> Steps:
        """Prepare an order; the visits (B, L) of revealed positions are increased."""
        labels = order.sort(dim=1).values
        counts = (labels[:, :1] > 0).sum(1) + (labels[:, 1:] != labels[:, :-1]).sum(1)  # different ones, without 0

        rows = counts.argsort(descending=True, stable=True)[: int((counts > 0).sum())]
        if not len(rows):
            return cls(rows, counts, torch.empty(0), [])

        uniforms = rng.uniform(Stream.TOKEN, rows.unsqueeze(1), torch.arange(order.shape[1]), visits[rows])
        visits += order > 0
        numbers: list[Tensor] = []
        for row, position in orders.steps(order[rows]):
            numbers += *layout(row, position), row * order.shape[1] + position

        moved = torch.cat(list(map(torch.flatten, numbers))).to(device, non_blocking=True)  # in one transfer
        parts = iter(moved.split(list(map(torch.numel, numbers))))
        each = [Step(next(parts).view_as(columns), next(parts), next(parts)) for columns in numbers[::3]]
        return cls(rows, counts, uniforms.flatten().to(device, non_blocking=True), each)


def fill(evaluator: Evaluator, steps: Steps, tokens: Tensor, below: Tensor) -> tuple[Tensor, Tensor]:
    """Filled tokens (R, L) and their probabilities (R, L), 1 elsewhere; `below` is that of the first step."""
    filled = tokens.to(evaluator.device, copy=True)
    flat = filled.view(-1)
    probability = torch.ones_like(flat, dtype=torch.float64)
    for index, (columns, valid, places) in enumerate(steps.each):
        if index:
            below = evaluator.below(filled[: len(columns)])
        states = evaluator.states(below, columns).flatten(0, 1).index_select(0, valid)
        chances = probabilities(evaluator.head(states))
        new = categorical(chances, steps.uniforms.index_select(0, places))
        flat.index_copy_(0, places, new)
        probability.index_copy_(0, places, chances.gather(1, new.unsqueeze(1)).squeeze(1).double())
    return filled.to(tokens.device), probability.view_as(filled).to(tokens.device)


class NetworkCausal(Causal):
    """p(x_j | x_<j) of rows whose keys and values are cached; each row begins with the start symbol V."""

    def __init__(self, evaluator: Evaluator, rows: int, length: int) -> None:
        super().__init__(rows)
        self.evaluator, self.trunk, self.length = evaluator, evaluator.trunk, length
        device, dtype = self.trunk.device, self.trunk.dtype
        memory = partial(Memory, self.trunk.shape, length=length, device=device, dtype=dtype)
        self.memory = fitted(memory, rows, f"of {length} tokens in a KV cache", device)

    @torch.no_grad()
    def extend(self, tokens: Tensor, counts: Tensor | None = None, selected: Tensor | None = None) -> Marginals:
        counts = chosen(counts, torch.full((len(tokens),), tokens.shape[1]))
        answered = followed(self.memory.lengths - 1, counts, tokens.shape[1], self.length, selected)
        read = (counts > 0).nonzero().squeeze(1)
        states = [self.trunk.embed.weight.new_empty((0, self.trunk.shape.width))]

        for rows in read.split(self.evaluator.batch or max(len(read), 1)):
            width = int(counts[rows].max())
            given = tokens[rows, :width].to(self.trunk.device)
            computed = self.trunk.states(given, memory=self.memory, rows=None if len(rows) == len(tokens) else rows)
            states.append(computed[answered[rows, :width].to(self.trunk.device)])
            self._account += Cost(1, len(rows), int(counts[rows].sum()))

        self.memory.lengths = self.memory.lengths + counts
        self.need(counts > 0)
        return self.evaluator.marginals(torch.cat(states))

    def rewind(self, lengths: Tensor) -> None:
        self.memory.lengths = torch.minimum(self.memory.lengths, lengths + 1)

    @torch.no_grad()
    def finish(self, last: Tensor, tokens: Tensor, rng: Randomness) -> Tensor:
        """Sample one position of all rows after another; a row joins at the first position that it has not read.

        So all active rows are at the same position. Rows are sorted: the active rows come first.
        """
        read = self.memory.lengths
        rows = read.argsort(stable=True)
        begins = read[rows].tolist()
        even = begins[0] == begins[-1]

        cache = self.memory.cache if even else self.memory.cache[:, :, rows.to(self.trunk.device)]
        positions = torch.arange(begins[0], self.length)
        uniforms = rng.uniform(Stream.TOKEN, rows, positions.unsqueeze(1)).to(self.trunk.device)  # (positions, B)

        recent = self.memory.recent(last, rows)  # (B, R)
        filled = recent.new_zeros(uniforms.shape)
        chances = torch.zeros_like(uniforms)

        for index, place in enumerate(positions.tolist()):
            begun = bisect_right(begins, place)
            marginals = probabilities(self.trunk.step(recent[:begun], place, cache[:, :, :begun]))
            new = categorical(marginals, uniforms[index, :begun])
            filled[index, :begun] = new
            recent[:begun] = torch.cat([recent[:begun, 1:], new.unsqueeze(1)], 1)
            chances[index, :begun] = marginals.gather(1, new.unsqueeze(1)).squeeze(1)

        probability = torch.ones(tokens.shape, dtype=torch.float64)
        begun_here = positions >= read[rows].unsqueeze(1)
        for mine, values in ((tokens, filled), (probability, chances)):
            mine[rows, begins[0] :] = torch.where(begun_here, values.T.cpu(), mine[rows, begins[0] :])

        left = self.length - read
        self.need(left)
        total = int(left.sum())
        self._account += Cost(int(left.max()), total, total)
        return probability
