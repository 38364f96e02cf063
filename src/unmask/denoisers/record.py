"""The record of the calls to an oracle: the call that revealed each position, in two bytes per position.

A run is the generation of one batch. A new run begins when the shape changes, or when all revealed positions are hidden
again. A run that reveals all in its last step ends unseen: its end comes from the caller of the loop (`end`).

A position that is hidden at call c but not at call c + 1 was revealed in step c; a position that is hidden at the last
call was revealed in the last step.
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

    began: Tensor  # (B, L) bool: hidden at the first call
    hidden: Tensor  # (B, L) bool: hidden at the last call
    tokens: Tensor  # (B, L) int32: tokens at the last call
    step: Tensor  # (B, L) int16: the step that revealed a position, 0 while it is hidden
    steps: int = 1  # calls with hidden positions
    idle: int = 0  # number of these with the same tokens as the previous call
    rehidden: int = 0  # positions that were hidden after they had been revealed
    replaced: int = 0  # tokens that were replaced by others

    @classmethod
    def of_order(cls, order: Tensor, tokens: Tensor) -> Run:
        """The run that reveals tokens (B, L) in the steps order (B, L), which count from 1."""
        last = int(order.max())
        every = torch.ones(order.shape, dtype=torch.bool)
        return cls(every, order == last, tokens.int(), torch.where(order == last, 0, order).short(), last)

    def add(self, ids: Tensor, hidden: Tensor) -> None:
        """Record one more call, with ids (B, L) of which some are hidden, Bool (B, L)."""
        changed = ids != self.tokens
        self.rehidden += int((hidden & ~self.hidden).sum())
        self.replaced += int((changed & ~hidden & ~self.hidden).sum())
        self.step[self.hidden & ~hidden] = min(self.steps, MOST_CALLS)
        self.step[hidden] = 0
        if bool(hidden.any()):
            self.steps += 1
            self.idle += not bool(changed.any())
        self.hidden, self.tokens = hidden, ids.int()

    def is_over(self, hidden: Tensor) -> bool:
        """Whether a call with these hidden positions is the first one of another batch."""
        if hidden.shape != self.began.shape:
            return True
        emptied = bool(hidden.any()) and torch.equal(hidden, self.began)
        return emptied and not torch.equal(self.hidden, self.began)


@dataclass
class Record:
    """The runs of an oracle, in the order of its calls."""

    runs: list[Run] = field(default_factory=list)
    ended: bool = False  # whether the next call begins a run

    def __repr__(self) -> str:
        return f"<Record of {len(self.runs)} runs, {sum(len(run.step) for run in self.runs)} rows>"

    def add(self, ids: Tensor, hidden: Tensor) -> None:
        """Record one call, with ids (B, L) of which some are hidden, Bool (B, L)."""
        if self.runs and not self.ended and not self.runs[-1].is_over(hidden):
            self.runs[-1].add(ids, hidden)
        elif bool(hidden.any()):
            self.ended = False
            self.runs.append(Run(hidden, hidden, ids.int(), torch.zeros(hidden.shape, dtype=torch.int16)))

    def end(self) -> None:
        """End the last run: the loop has returned its rows."""
        self.ended = True

    def order(self, tokens: Tensor) -> Tensor:
        """The step (B, L), from 1, that revealed each of the tokens (B, L) of the loop.

        Raises an error unless these are the rows of the oracle's calls, in the same order.
        """
        if self.runs and all(torch.equal(run.hidden, run.began) for run in self.runs):
            self._split(len(tokens))

        advice = ". Audit all samples since model.reset(), in order, or pass model.language alone."
        rows = sum(len(run.step) for run in self.runs)
        if rows != len(tokens):
            raise UnmaskError(f"the oracle was called for {rows} rows, but there are {len(tokens)} samples{advice}")

        first = 0
        for number, run in enumerate(self.runs, 1):
            batch = f"batch {number} of the oracle"
            if run.step.shape[1] != tokens.shape[1]:
                raise UnmaskError(f"{batch} has {run.step.shape[1]} positions, a sample {tokens.shape[1]}{advice}")
            if not bool(run.began.all()):
                row, position = (~run.began).nonzero()[0].tolist()
                raise UnmaskError(f"position {position} of row {row} in {batch} was given; expected empty rows{advice}")
            different = ~run.hidden & (run.tokens != tokens[first : first + len(run.step)])
            if bool(different.any()):
                row, position = different.nonzero()[0].tolist()
                problem = f"samples, row {first + row}, position {position}: the token differs from {batch}"
                raise UnmaskError(problem + advice)
            first += len(run.step)

        return torch.cat([torch.where(run.hidden, run.steps, run.step) for run in self.runs]).long()

    def _split(self, rows: int) -> None:
        """Split runs without a revealed position into batches, by the number of rows: all have the same number of
        calls."""
        calls, left = divmod(sum(run.steps * len(run.step) for run in self.runs), rows)
        if calls and not left:
            self.runs = [
                Run(run.began, run.hidden, run.tokens, run.step, calls, calls - 1)
                for run in self.runs
                for _ in range(run.steps // calls)
            ]
