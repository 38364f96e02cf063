"""The path of rows: the tokens that each step revealed, the context in which they were drawn, and a reader of it.

Its entries are the drawn tokens, sorted by step; a step is of one row. Tokens beyond the end of a row are not entries,
but they are in contexts. A reader asks a denoiser about contexts, in batches, and counts the model calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from unmask.core.entries import chosen, column
from unmask.core.errors import UnmaskError
from unmask.denoisers import Denoiser, Marginals, as_marginals
from unmask.samplers import Generation
from unmask.samplers.session import Taken
from unmask.samplers.starting import PADDING
from unmask.samplers.trace import Trace

NEVER = 2**62  # the step that hides a token that stays
CONTEXTS = 2**18  # tokens of contexts that are evaluated together
NUMBERS = 2**23  # probabilities that are held together
DENSE = 2**12  # symbols above which marginals are computed in pieces


@dataclass(frozen=True)
class Path:
    """M drawn tokens of K steps of B rows."""

    given: Tensor  # (B, L): the tokens at the start, V where hidden
    valid: Tensor  # Bool (B, L): False at padding
    vocabulary: int
    spells: Taken  # each token that was ever revealed, with the steps that revealed and hid it
    entries: Taken  # (M): the spells that count, sorted by row, step and position
    step: Tensor  # (M): the step of each entry, ascending
    row: Tensor  # (K): the row of each step
    number: Tensor  # (K): its number in the row, from 1

    @classmethod
    def of(cls, given: Tensor, valid: Tensor, vocabulary: int, spells: Taken, counted: Tensor) -> Path:
        """counted: Bool over spells, the drawn tokens that count."""
        last = int(spells.order.max()) + 1 if len(spells.order) else 1
        key = (spells.rows * last + spells.order) * given.shape[1] + spells.positions
        spells = spells.select(order := key.argsort(stable=True))
        entries = spells.select(counted[order])
        names, step = (entries.rows * last + entries.order).unique_consecutive(return_inverse=True)
        return cls(given, valid, vocabulary, spells, entries, step, names // last, names % last)

    @cached_property
    def size(self) -> Tensor:  # (K): number of tokens that each step drew
        return self.step.bincount(minlength=len(self.row))

    @cached_property
    def first(self) -> Tensor:  # (K): the first entry of each step
        return self.size.cumsum(0) - self.size

    @cached_property
    def written(self) -> Tensor:  # (B): number of drawn tokens of each row
        return self.entries.rows.bincount(minlength=len(self.given))

    @cached_property
    def drawn(self) -> Tensor:  # Bool (B, L): positions with drawn tokens
        out = torch.zeros(self.given.shape, dtype=torch.bool)
        out[self.entries.rows, self.entries.positions] = True
        return out

    @cached_property
    def steps(self) -> Tensor:  # (B): number of steps of each row
        return self.row.bincount(minlength=len(self.given))

    @cached_property
    def groups(self) -> Tensor:  # (B): rows of one prompt have one number; each row its own if no two prompts differ
        rows = torch.arange(len(self.given))
        if not bool(((self.given != self.vocabulary) & self.valid).any()):
            return rows
        numbers = self.given.masked_fill(~self.valid, -1).unique(dim=0, return_inverse=True)[1]
        return numbers if bool(numbers.any()) else rows

    @cached_property
    def time(self) -> Tensor:  # (K) float64: the time of each step, evenly from 1 down, for denoisers that use it
        last = torch.zeros(len(self.given), dtype=torch.int64).scatter_reduce_(0, self.row, self.number, "amax")
        return 1 - (self.number - 1).double() / last[self.row].clamp(min=1)

    def contexts(self, steps: Tensor) -> Tensor:
        """(C, L): the context in which the tokens of these steps (C) were drawn, V where hidden.

        It includes tokens that the step hid, but not those that it replaced."""
        context = self.given[self.row[steps]].clone()
        starts = self._begins[self.row[steps]]
        at, spell = spread(starts, self._begins[self.row[steps] + 1] - starts)
        number = self.number[steps][at]
        stands = (self.spells.order[spell] < number) & (number <= self.spells.hidden[spell])
        context[at[stands], self.spells.positions[spell[stands]]] = self.spells.tokens[spell[stands]]
        drawn = self.spells.order[spell] == number
        context[at[drawn], self.spells.positions[spell[drawn]]] = self.vocabulary
        return context

    @property
    def final(self) -> Tensor:  # (B, L): the tokens after the last step, V where hidden
        stays = self.spells.hidden == NEVER
        tokens = self.given.clone()
        tokens[self.spells.rows[stays], self.spells.positions[stays]] = self.spells.tokens[stays]
        return tokens

    @cached_property
    def _begins(self) -> Tensor:  # (B + 1): the first spell of each row
        counts = self.spells.rows.bincount(minlength=len(self.given))
        return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def spread(first: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """(owner, index), flat: the indices first .. first + count - 1 of each owner, one owner after another."""
    owner = torch.arange(len(count)).repeat_interleave(count)
    return owner, torch.arange(len(owner)) - (count.cumsum(0) - count)[owner] + first[owner]


def of_generation(generation: Generation) -> Path:
    """The path of generated rows."""
    if generation.taken is None:
        raise UnmaskError(
            "tokens were re-masked, but not recorded",
            "expected a generation with a trace. Call generate(.., trace=True).",
        )

    order, taken = generation.order, generation.taken
    beyond = torch.arange(order.shape[1]) >= generation.lengths.unsqueeze(1)
    bare = (order == 0) & beyond & (generation.tokens == PADDING)
    valid = bare.flip(1).cummin(1).values.flip(1).logical_not()  # without the padding at the end of a row

    rows, positions = (order > 0).nonzero(as_tuple=True)
    values = (part[rows, positions] for part in (order, generation.tokens, generation.probability))
    last = Taken._make([rows, positions, *values, torch.full_like(rows, NEVER)])
    spells = Taken._make(map(torch.cat, zip(taken, last, strict=True)))

    counted = spells.positions < generation.lengths[spells.rows]
    return Path.of(generation.given, valid, generation.vocabulary, spells, counted)


def of_trace(trace: Trace) -> Path:
    """The path of a trace; tokens without a probability have probability 1."""
    given = torch.full((len(trace.rows), max(column(trace.rows, "length"))), trace.vocabulary)
    valid = torch.zeros(given.shape, dtype=torch.bool)
    spells: list[list[int]] = []
    probabilities: list[float] = []

    for number, row in enumerate(trace.rows):
        valid[number, : row.length] = True
        for position, token in row.given:
            given[number, position] = token

        # a token is shown from the step that drew it until the step that hides it
        latest: dict[int, int] = {}  # by position, its last spell
        for step, position, new, probability in row.events:
            if new is None:
                spells[latest[position]][-1] = step
            else:
                latest[position] = len(spells)
                spells.append([number, position, step, new, NEVER])
                probabilities.append(chosen(probability, 1.0))

    rows, positions, order, tokens, hidden = torch.tensor(spells, dtype=torch.int64).view(-1, 5).T
    taken = Taken(rows, positions, order, tokens, torch.tensor(probabilities, dtype=torch.float64), hidden)
    given = given.masked_fill(~valid, PADDING)
    return Path.of(given, valid, trace.vocabulary, taken, torch.ones(len(spells), dtype=torch.bool))


class Reader:
    """c(. | context) of a denoiser for the steps of a path; temperature: of the sampler's own draws."""

    def __init__(self, denoiser: Denoiser, path: Path, temperature: float = 1.0) -> None:
        self.denoiser, self.path, self.temperature = denoiser, path, temperature
        self._asked: list[int] = []  # model calls, which threads append

    @property
    def model_calls(self) -> int:
        return sum(self._asked)

    def at(
        self, steps: Tensor, shown: tuple[Tensor, Tensor], wanted: tuple[Tensor, Tensor]
    ) -> tuple[Marginals, Tensor]:
        """Marginals of wanted entries, and Bool (C): contexts that are known to be impossible.

        steps (C): the step of each context. shown: (context, entry) of tokens of the step that are also revealed.
        wanted: (context ascending, entry).
        """
        path = self.path
        rows = path.row[steps]
        tokens = path.contexts(steps)
        tokens[shown[0], path.entries.positions[shown[1]]] = path.entries.tokens[shown[1]]

        valid = path.valid[rows]
        engine = self.denoiser.engine(tokens, path.given[rows], None if bool(valid.all()) else valid)
        time = self.denoiser.time_at(path.time[steps], len(steps))
        marginals = as_marginals(engine.at(wanted[0], path.entries.positions[wanted[1]], time))

        self._asked.append(len(steps) * self.denoiser.calls)
        return marginals, chosen(engine.dead(), torch.zeros(len(steps), dtype=torch.bool))

    def drawn(self, marginals: Marginals) -> Marginals:
        """The distribution that the sampler draws from: the marginals at its own temperature."""
        return marginals if self.temperature in (0, 1) else marginals.sharpened(self.temperature)

    def batches(self, steps: Tensor, contexts: int) -> Sequence[Tensor]:
        """Parts of steps (C) that fit into memory, each with at most this number of contexts."""
        if not len(steps):
            return ()
        length = self.path.given.shape[1]
        numbers = int(self.path.size.max()) * min(self.denoiser.vocabulary, DENSE)
        at_once = self.denoiser.rows_at_once(length) or CONTEXTS // length
        return list(steps.split(max(1, min(CONTEXTS // length, at_once, NUMBERS // numbers) // contexts)))
