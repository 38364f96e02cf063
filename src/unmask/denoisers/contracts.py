"""The interfaces that compute predictions and their cost: engines for canvases, and readers from left to right.

B rows, L positions, K entries (pairs of a row and a position), V symbols; tokens are 0..V-1, and V is the mask.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch
from torch import Tensor

from unmask.core.chance import Randomness
from unmask.denoisers.marginals import Marginals

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Float64, Int, Shaped


def of_rows(values: Tensor | None, rows: Tensor) -> Tensor | None:
    """The values of these rows, if there are any: of the time, or of the padding."""
    return None if values is None else values[rows]


def all_of(tokens: Tensor, counts: Tensor | None) -> Tensor:
    """(B): how many of its tokens (B, K) each row reads. (default: all)"""
    return torch.full((len(tokens),), tokens.shape[1]) if counts is None else counts


@dataclass(frozen=True)
class Cost:
    """The amount of computation of an engine or reader."""

    forwards: int = 0  # forward passes, each of a batch
    rows: int = 0  # rows in those passes
    tokens: int = 0  # computed positions of those rows
    flops: float = 0.0  # 0 if unknown

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.forwards + other.forwards, self.rows + other.rows, self.tokens + other.tokens, self.flops + other.flops
        )


class Spender:
    """An object that computes and records its cost."""

    _account = Cost()

    @property
    def spent(self) -> Cost:
        """The cost so far."""
        return self._account


class Engine(Spender, ABC):
    """Computes predictions for a canvas; it shares the tokens (B, L) of the canvas, which calls `renew` on changes."""

    def __init__(self, tokens: Int[Tensor, "B L"]) -> None:
        self.tokens = tokens

    @property
    def hollow(self) -> bool:
        """Whether `at` also accepts revealed positions in the same model call; the prediction for a revealed position
        does not depend on its own token."""
        return False

    @property
    def positions(self) -> Int[Tensor, " B"] | None:
        """(B): computed positions of each row; None if each model call computes the whole row."""
        return None

    def spend_on(self, rows: Int[Tensor, " K"]) -> None:
        """Record one forward pass of rows (K), ascending; each distinct row counts once, with all its positions."""
        number = int((rows[1:] != rows[:-1]).sum()) + 1 if len(rows) else 0
        self._account += Cost(int(number > 0), number, number * self.tokens.shape[1])

    def spend_on_steps(self, model_calls: Int[Tensor, " B"]) -> None:
        """Record the forward passes of a batch with these model calls per row (B)."""
        number = int(model_calls.sum())
        self._account += Cost(int(model_calls.max()), number, number * self.tokens.shape[1])

    @abstractmethod
    def at(
        self, rows: Int[Tensor, " K"], positions: Int[Tensor, " K"], time: Float[Tensor, " B"] | None
    ) -> Float[Tensor, "K V"] | Marginals:
        """Predict K hidden entries, rows ascending: probabilities (K, V), or Marginals on their device.

        time (B), if the denoiser depends on it.
        """

    def renew(self, rows: Int[Tensor, " K"], positions: Int[Tensor, " K"]) -> None:
        """Account for new tokens at these rows and positions (K)."""

    def dead(self) -> Bool[Tensor, " B"] | None:
        """Bool (B): rows whose context is known to have probability zero; None if that is unknown."""
        return None


@runtime_checkable
class Follower(Protocol):
    """An engine that fills a whole order at once, with the result of `at`, `draw` and `renew` in each step."""

    def follow(
        self, order: Int[Tensor, "B L"], rng: Randomness, visits: Int[Tensor, "B L"]
    ) -> tuple[Float64[Tensor, "B L"], Int[Tensor, " B"], Int[Tensor, " B"]]:
        """Write a token at each position of an order (B, L).

        Return the probability (B, L) of each token, 1 elsewhere; the model calls (B) of each row; and the number (B) of
        the first call with an impossible context, or 0.
        """


class Causal(Spender, ABC):
    """An autoregressive reader, such as a network with a KV cache. A row begins with one start token, which is V."""

    def __init__(self, rows: int) -> None:
        self._needed = torch.zeros(rows, dtype=torch.int64)

    @property
    def model_calls(self) -> Int[Tensor, " B"]:
        """(B): the model calls of each row."""
        return self._needed

    @property
    def positions(self) -> Int[Tensor, " B"]:
        """(B): computed positions of each row; by default one in each model call."""
        return self.model_calls

    def need(self, counts: Shaped[Tensor, " B"]) -> None:
        """Add model calls (B)."""
        self._needed = self._needed + counts

    @abstractmethod
    def extend(
        self,
        tokens: Int[Tensor, "B K"],
        counts: Int[Tensor, " B"] | None = None,
        selected: Bool[Tensor, "B K"] | None = None,
    ) -> Tensor | Marginals:
        """Read tokens (B, K), of which a row uses its first counts (B): one model call for each row that reads any.

        Return the predictions after the selected tokens, Bool (B, K), row by row. (default: after all tokens that were
        read, except the last of a sequence)
        """

    @abstractmethod
    def rewind(self, lengths: Int[Tensor, " B"]) -> None:
        """Forget all but the first lengths (B) tokens, without the start token."""

    def finish(
        self, last: Int[Tensor, " B"], tokens: Int[Tensor, "B L"], rng: Randomness
    ) -> Float64[Tensor, "B L"] | None:
        """Fill tokens (B, L) after the last given one (B), which is read next.

        Return the probability (B, L) of each token, 1 if it was given; None if the reader cannot do it in one call.
        Tokens, random numbers and model calls are those of one `extend` per token, but the reader does not advance.
        """
        return None
