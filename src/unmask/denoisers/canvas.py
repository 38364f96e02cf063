"""A batch that a sampler fills, with the count of model calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from unmask.core.chance import Randomness
from unmask.core.errors import UnmaskError
from unmask.denoisers.contracts import Cost, Follower, of_rows
from unmask.denoisers.denoiser import Denoiser
from unmask.denoisers.marginals import Marginals, Table, as_marginals

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Float64, Int

Places = tuple[Tensor, Tensor]  # (rows (K), positions (K))


def by_length(lengths: Int[Tensor, " B"]) -> Iterator[tuple[int, Tensor]]:
    """(length, rows (K)) for each length in (B), for models that need rows of equal length."""
    return ((size, (lengths == size).nonzero().squeeze(1)) for size in lengths.unique().tolist())


class Canvas:
    """Rows of tokens (B, L), V if hidden, with an engine that predicts them; the canvas owns and writes the tokens.

    lengths        (B) number of positions of each row, without padding
    `model_calls`  (B) model calls of each row: a row that has not changed needs none, unless the denoiser depends on
                   the time
    spent          the cost that the engine reports
    impossible     (B) the first model call at which the row's context had probability zero, or 0
    visits         (B, L) earlier draws at each position, so that a redrawn token gets new random numbers
    contexts       (B) model calls for contexts other than the current tokens
    """

    def __init__(
        self,
        denoiser: Denoiser,
        tokens: Int[Tensor, "B L"],
        rng: Randomness,
        *,
        valid: Bool[Tensor, "B L"] | None = None,
        patience: int | None = None,
    ) -> None:
        self.denoiser = denoiser
        self.vocabulary, self.time_free = denoiser.vocabulary, denoiser.time_free
        self.rng = rng
        self.patience = patience

        # the rows, and their engine
        self.tokens = tokens
        self.lengths = torch.full((len(tokens),), tokens.shape[1]) if valid is None else valid.sum(1)
        self.hidden = (self.tokens == self.vocabulary) & (torch.arange(tokens.shape[1]) < self.lengths.unsqueeze(1))
        self._given = tokens.clone()
        self._valid = None if valid is None or bool(valid.all()) else valid
        self._engine = denoiser.engine(tokens, self._given, self._valid)

        # what is counted
        self.visits = torch.zeros_like(self.tokens)
        self.model_calls = self.tokens.new_zeros(len(tokens))
        self.impossible = self.tokens.new_zeros(len(tokens))
        self.contexts = self.tokens.new_zeros(len(tokens))
        self.exhausted = False  # whether there were more forward passes than `patience`
        self._fresh = torch.zeros_like(self.model_calls, dtype=torch.bool)
        self._recomputed = torch.zeros_like(self._fresh)
        self._forwards = 0
        self._ahead = Cost()  # of other contexts
        self._positions = tokens.new_zeros(len(tokens))  # computed for other contexts

    @property
    def spent(self) -> Cost:
        return self._engine.spent + self._ahead

    @property
    def hollow(self) -> bool:
        """Whether the prediction for a position does not depend on its own token."""
        return self._engine.hollow

    def counted(self) -> tuple[Int[Tensor, " B"], Int[Tensor, " B"]]:
        """(B) model calls whose input is not the row itself: other contexts, or the row without its prompt.

        (B) computed positions of all model calls."""
        own = self.model_calls - self.contexts
        bare = own // self.denoiser.calls * (self.denoiser.calls - 1)
        computed = self._engine.positions
        if computed is None:
            computed = own * self.lengths
        return self.contexts + bare, computed + self._positions

    def at(
        self, rows: Int[Tensor, " K"], positions: Int[Tensor, " K"], time: Float[Tensor, " B"] | None = None
    ) -> Marginals:
        """Predict K hidden entries, rows ascending; time (B), if the denoiser depends on it.

        It is a model call for each of these rows that has changed, and for each row to be recomputed.
        """
        needed = torch.zeros_like(self._fresh)
        needed[rows] = True
        stale = needed
        if self.time_free:
            stale = needed & ~self._fresh
        stale = stale | self._recomputed
        self.model_calls += stale * self.denoiser.calls
        self._fresh |= stale
        self._recomputed &= False
        self._count_forward()

        dead = self._engine.dead()
        if dead is not None:
            first = stale & dead & (self.impossible == 0)
            self.impossible = torch.where(first, self.model_calls, self.impossible)

        if not len(rows):
            return Table(torch.empty((0, self.vocabulary), dtype=torch.float64))
        return as_marginals(self._engine.at(rows, positions, time))

    def ask(
        self,
        tokens: Int[Tensor, "C L"],
        rows: Int[Tensor, " C"],
        positions: Int[Tensor, " K"],
        time: Float[Tensor, " C"] | None = None,
        contexts: Int[Tensor, " K"] | None = None,
    ) -> Marginals:
        """Predict hidden positions (K) of other contexts (C, L), without a change of the canvas.

        This is one forward pass, and one model call for the row (C) of each context. contexts (K), ascending: the
        context of each position. (default: one position in each) time (C), of each context.
        """
        for counts in (self.model_calls, self.contexts):
            counts.index_add_(0, rows, torch.full_like(rows, self.denoiser.calls))

        engine = self.denoiser.engine(tokens, self._given[rows], of_rows(self._valid, rows))
        if contexts is None:
            contexts = torch.arange(len(tokens))
        marginals = as_marginals(engine.at(contexts, positions, time))

        self._ahead = self._ahead + engine.spent
        computed = self.lengths[rows] * self.denoiser.calls if engine.positions is None else engine.positions
        self._positions.index_add_(0, rows, computed)
        self._count_forward()
        return marginals

    def around(self, rows: Int[Tensor, " K"], positions: Int[Tensor, " K"]) -> Marginals:
        """Predict K revealed entries, rows ascending, each from all other tokens of its row.

        With a hollow engine this is part of the row's model call. Otherwise each entry is a separate context and takes
        a model call; its time is the hidden fraction of that context.
        """
        time = None if self.time_free else (self.hidden.sum(1) + 1).double() / self.lengths
        if self._engine.hollow:
            return self.at(rows, positions, time)

        if not len(rows):
            return Table(torch.empty((0, self.vocabulary), dtype=torch.float64))
        contexts = self.tokens[rows]
        contexts[torch.arange(len(rows)), positions] = self.vocabulary
        return self.ask(contexts, rows, positions, of_rows(time, rows))

    def recompute(self, rows: Bool[Tensor, " B"]) -> None:
        """Count rows, Bool (B), in the next model call even if they have not changed: for caches coarser than a row."""
        self._recomputed |= rows

    def follow(self, order: Int[Tensor, "B L"]) -> Float64[Tensor, "B L"] | None:
        """Fill an order (B, L) at once. Return the probability (B, L) of each token; None if the engine cannot."""
        if not isinstance(self._engine, Follower):
            return None
        ordered = order > 0
        known = (self._fresh & ordered.any(1)).long()  # the first step of these rows needs no model call
        probability, steps, impossible = self._engine.follow(order, self.rng, self.visits)

        first = (self.impossible == 0) & (impossible > 0)
        self.impossible = torch.where(first, self.model_calls + impossible - known, self.impossible)
        self.model_calls += (steps - known) * self.denoiser.calls

        self.hidden &= ~ordered
        self._fresh &= ~ordered.any(1)
        return probability

    def draw(self, marginals: Marginals, rows: Int[Tensor, " K"], positions: Int[Tensor, " K"]) -> Int[Tensor, " K"]:
        """Draw symbols (K) from marginals at rows and positions (K), with new random numbers."""
        return self.rng.tokens(marginals, rows, positions, self.visits)

    def hide(self, where: Places | Tensor) -> None:
        self.reveal(where, self.vocabulary)

    def reveal(self, where: Places | Tensor, tokens: Tensor | int) -> None:
        """Write tokens (K) at (rows, positions) or Bool (B, L); V hides them."""
        rows, positions = where.nonzero(as_tuple=True) if isinstance(where, Tensor) else where
        self.tokens[rows, positions] = tokens
        self.hidden[rows, positions] = self.tokens[rows, positions] == self.vocabulary
        self._fresh[rows] = False
        self._engine.renew(rows, positions)

    def _count_forward(self) -> None:
        self._forwards += 1
        self.exhausted = self.patience is not None and self._forwards > self.patience
        if self.exhausted:
            left = f"{int(self.hidden.any(1).sum())} rows still have hidden positions"
            raise UnmaskError(f"after {self._forwards} forward passes of the sampler, {left}; it seems to loop forever")
