"""What an oracle remembers of the loop that asks it: at which call each place was revealed, two bytes a place.

A run is one batch on its way: it begins where the shape changes, or where all that it has revealed is hidden again. At
its c-th call a place stands hidden or not; what is hidden at call c and not at call c + 1 was revealed in round c, and
what is hidden at the last call in the last round, which no call sees.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError

MOST_CALLS = 2**15 - 1  # of a run, in two bytes


@dataclass
class Run:
    """The calls of one batch (B, L)."""

    began: Tensor  # (B, L) bool: what was hidden at its first call
    hidden: Tensor  # (B, L) bool: what was at its last one
    tokens: Tensor  # (B, L) int32: what stood there at its last one
    round: Tensor  # (B, L) int16: the round that revealed a place, 0 while it is hidden
    rounds: int = 1  # calls at which anything was hidden
    idle: int = 0  # of these, how many saw what the one before had seen
    again: int = 0  # places that were hidden after they had been revealed
    replaced: int = 0  # tokens that were replaced by others

    @classmethod
    def told(cls, order: Tensor, tokens: Tensor) -> Run:
        """What rounds (B, L), from 1, say of tokens (B, L), where they are all that is known."""
        last = int(order.max())
        every = torch.ones(order.shape, dtype=torch.bool)
        return cls(every, order == last, tokens.int(), torch.where(order == last, 0, order).short(), last)

    def look(self, ids: Tensor, hidden: Tensor) -> None:
        """One more call, with ids (B, L), some of which are hidden."""
        changed = ids != self.tokens
        self.again += int((hidden & ~self.hidden).sum())
        self.replaced += int((changed & ~hidden & ~self.hidden).sum())
        self.round[self.hidden & ~hidden] = min(self.rounds, MOST_CALLS)
        self.round[hidden] = 0
        if bool(hidden.any()):
            self.rounds += 1
            self.idle += not bool(changed.any())
        self.hidden, self.tokens = hidden, ids.int()

    def begins_anew(self, hidden: Tensor) -> bool:
        """Whether a call that sees this hidden is the first one of another batch."""
        if hidden.shape != self.began.shape or not bool(hidden.any()):
            return hidden.shape != self.began.shape
        return torch.equal(hidden, self.began) and not torch.equal(self.hidden, self.began)


@dataclass
class Record:
    """The runs of an oracle, in the order in which it was asked."""

    runs: list[Run] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<Record of {len(self.runs)} runs, {sum(len(run.round) for run in self.runs)} rows>"

    def look(self, ids: Tensor, hidden: Tensor) -> None:
        """One call, with ids (B, L), some of which are hidden, Bool (B, L)."""
        if self.runs and not self.runs[-1].begins_anew(hidden):
            self.runs[-1].look(ids, hidden)
        elif bool(hidden.any()):
            self.runs.append(Run(hidden, hidden, ids.int(), torch.zeros(hidden.shape, dtype=torch.int16)))

    def order(self, tokens: Tensor) -> Tensor:
        """The round (B, L), from 1, that revealed each of the tokens (B, L) which the loop has returned.

        An error where these are not the rows that the oracle has seen, one after another.
        """
        if self.runs and all(torch.equal(run.hidden, run.began) for run in self.runs):
            self._split(len(tokens))
        rows = sum(len(run.round) for run in self.runs)
        found = f"the oracle was asked about {rows} rows, and there are {len(tokens)} samples"
        what = "; audit all that it was asked for since model.reset(), in its order, or give model.language alone"
        if rows != len(tokens):
            raise UnmaskError(found + what)
        first = 0
        for number, run in enumerate(self.runs, 1):
            where = f"batch {number} that the oracle was asked about"
            if run.round.shape[1] != tokens.shape[1]:
                raise UnmaskError(f"{where} has {run.round.shape[1]} places, and a sample {tokens.shape[1]}{what}")
            if not bool(run.began.all()):
                row, place = (int(i) for i in (~run.began).nonzero()[0])
                raise UnmaskError(f"{where} had place {place} of row {row} given; a record is read of empty rows{what}")
            other = ~run.hidden & (run.tokens != tokens[first : first + len(run.round)])
            if bool(other.any()):
                row, place = (int(i) for i in other.nonzero()[0])
                raise UnmaskError(f"samples, row {first + row}, place {place}: not the token of {where}{what}")
            first += len(run.round)
        return torch.cat([torch.where(run.hidden, run.rounds, run.round) for run in self.runs]).long()

    def _split(self, rows: int) -> None:
        """Where no call saw anything revealed, batches cannot be told apart, but for there being so many rows of them:
        all have as many calls."""
        calls, left = divmod(sum(run.rounds * len(run.round) for run in self.runs), rows)
        if calls and not left:
            self.runs = [
                Run(run.began, run.hidden, run.tokens, run.round, calls, calls - 1)
                for run in self.runs
                for _ in range(run.rounds // calls)
            ]
