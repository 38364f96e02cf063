"""What a denoiser must offer, so that one sampler runs on an exact one, a small network and an open model alike."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor

from unmask.chance import Luck


class Engine(Protocol):
    """What computes for a canvas: it shares the canvas's tokens (B, L) and is told which places have changed."""

    def renew(self, rows: Tensor, positions: Tensor) -> None:
        """The tokens at these places (K) are new."""

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Tensor:
        """Marginals (K, V) at places (K); rows ascending."""

    def over(self, window: slice, time: Tensor | None) -> Tensor:
        """Marginals (B, W, V) over a window; one-hot where revealed."""

    def dead(self) -> Tensor | None:
        """Bool (B): rows whose context is known to have probability zero; None where nobody can tell."""


@runtime_checkable
class Follower(Protocol):
    """An engine that fills a whole order by itself, as `at`, `draw` and `renew` round by round would."""

    def follow(self, order: Tensor, luck: Luck, visits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Write a token at each place of an order (B, L): the probability (B, L) of each, 1 elsewhere, and for each
        row the evaluations (B) needed and which of them (B) met an impossible context first, or 0."""


@runtime_checkable
class Denoiser(Protocol):
    """p_theta(x_j | x_R): marginals at hidden positions given the revealed ones; tokens 0..V-1, V is the mask."""

    vocabulary: int
    time_free: bool  # False: every round needs a fresh look, nothing may be cached

    def engine(self, tokens: Tensor) -> Engine:
        """What computes for a canvas that holds these tokens."""

    def causal(self, rows: int, length: int) -> Causal:
        """The same denoiser read left to right, one canvas of a known length."""

    def posterior(self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        """Stateless marginals (B, K, V) of tokens (B, L) at positions (K) or (B, K), all by default."""

    def row_bytes(self, length: int) -> int:
        """Memory that one row of a canvas needs: blocks of rows are sized by it."""


class Causal(Protocol):
    """An autoregressive reader: the network that a KV cache serves. A row begins with one start token, which is V."""

    @property
    def evaluations(self) -> Tensor:
        """(B): calls that each row needed."""

    @property
    def forwards(self) -> int:
        """Batched calls."""

    def extend(self, tokens: Tensor, counts: Tensor | None = None) -> Tensor:
        """Read tokens (B, K), of which a row uses its first counts (B): what follows each (B, K, V), one evaluation."""

    def rewind(self, lengths: Tensor) -> None:
        """Forget what lies beyond the first lengths (B) tokens, the start not counted."""


@runtime_checkable
class Finisher(Protocol):
    """A causal reader that can also draw all that is left of its rows in one call."""

    def finish(self, last: Tensor, tokens: Tensor, luck: Luck) -> Tensor:
        """Fill tokens (B, L) behind the last (B) that is given, which is the next to be read: the probability (B, L)
        of each, 1 where it was given.

        The same tokens from the same luck as from one `extend` a token, and the same count of evaluations; but the
        reader stays where it is.
        """
