"""What computes for samplers, and says what it has spent: engines for canvases, and readers from left to right.

B rows, L positions, K places (pairs of a row and a position), V symbols; tokens are 0..V-1, and V is the mask.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from unmask.core.chance import Luck
from unmask.denoisers.marginals import Marginals


@dataclass(frozen=True)
class Cost:
    """What was computed, told by what computed it."""

    forwards: int = 0  # batched calls
    rows: int = 0  # rows in those calls
    tokens: int = 0  # positions of those rows that were computed
    flops: float = 0.0  # 0 where nobody knows

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.forwards + other.forwards, self.rows + other.rows, self.tokens + other.tokens, self.flops + other.flops
        )


class Spender:
    """Something that computes and keeps account of it."""

    _account = Cost()

    @property
    def spent(self) -> Cost:
        """All that it has computed so far."""
        return self._account

    def spend(self, cost: Cost) -> None:
        self._account = self._account + cost


class Engine(Spender, ABC):
    """What computes for a canvas: it shares the canvas's tokens (B, L) and is told which places have changed."""

    def __init__(self, tokens: Tensor) -> None:
        self.tokens = tokens

    @property
    def hollow(self) -> bool:
        """Whether `at` may be asked about revealed places too, in the same evaluation: what is said of one is then
        given all the others, and not given its own token."""
        return False

    def spend_on(self, rows: Tensor) -> None:
        """One batched call for rows (K), ascending, each of them counted once and computed whole."""
        number = int((rows[1:] != rows[:-1]).sum()) + 1 if len(rows) else 0
        self.spend(Cost(int(number > 0), number, number * self.tokens.shape[1]))

    def spend_on_rounds(self, evaluations: Tensor) -> None:
        """So many batched calls as the row of most evaluations (B) has, whoever has one being computed whole."""
        number = int(evaluations.sum())
        self.spend(Cost(int(evaluations.max()), number, number * self.tokens.shape[1]))

    @abstractmethod
    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Tensor | Marginals:
        """What is said of hidden places (K), rows ascending: probabilities (K, V), or Marginals that stay where they
        are; time (B) where the denoiser asks for it."""

    def renew(self, rows: Tensor, positions: Tensor) -> None:
        """The tokens at these places (K) are new."""

    def dead(self) -> Tensor | None:
        """Bool (B): rows whose context is known to have probability zero; None where nobody can tell."""
        return None


@runtime_checkable
class Follower(Protocol):
    """An engine that fills a whole order by itself, as `at`, `draw` and `renew` round by round would."""

    def follow(self, order: Tensor, luck: Luck, visits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Write a token at each place of an order (B, L): the probability (B, L) of each, 1 elsewhere, and for each
        row the evaluations (B) needed and which of them (B) met an impossible context first, or 0."""


class Causal(Spender, ABC):
    """An autoregressive reader: the network that a KV cache serves. A row begins with one start token, which is V."""

    def __init__(self, rows: int) -> None:
        self._needed = torch.zeros(rows, dtype=torch.int64)

    @property
    def evaluations(self) -> Tensor:
        """(B): calls that each row needed."""
        return self._needed

    def need(self, counts: Tensor) -> None:
        """So many more calls, (B)."""
        self._needed = self._needed + counts

    @abstractmethod
    def extend(self, tokens: Tensor, counts: Tensor | None = None, asked: Tensor | None = None) -> Tensor | Marginals:
        """Read tokens (B, K), of which a row uses its first counts (B): one evaluation of each row that reads any.

        What follows those that are asked for, Bool (B, K), row by row; unless told otherwise all that were read and
        that something can follow. Nothing else is computed of what is said.
        """

    @abstractmethod
    def rewind(self, lengths: Tensor) -> None:
        """Forget what lies beyond the first lengths (B) tokens, the start not counted."""

    def finish(self, last: Tensor, tokens: Tensor, luck: Luck) -> Tensor | None:
        """Fill tokens (B, L) behind the last (B) that is given, which is the next to be read: the probability (B, L)
        of each, 1 where it was given; None where the reader cannot do it in one call.

        The same tokens from the same luck as from one `extend` a token, and the same count of evaluations; but the
        reader stays where it is.
        """
        return None
