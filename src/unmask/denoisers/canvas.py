"""A batch being filled, and the one place where evaluations are counted."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unmask.chance import Luck
from unmask.denoisers.contracts import Denoiser, Follower
from unmask.errors import UnmaskError

Places = tuple[Tensor, Tensor]  # (rows, positions)


class Canvas:
    """Rows of tokens (B, L) in which V is hidden, in front of an engine.

    `evaluations` counts per row what that row needed: a row that has not changed since its last evaluation is free,
    unless the denoiser depends on the time. `forwards` counts batched calls and `rows_computed` the rows in them.
    `impossible` is the number of the evaluation at which a row's context had probability zero for the first time, or 0.
    `visits` counts earlier draws at a place, so that a redrawn token is drawn from fresh luck. The tokens that it is
    given are its own: it writes into them.
    """

    def __init__(self, denoiser: Denoiser, tokens: Tensor, luck: Luck, patience: int | None = None) -> None:
        self.denoiser = denoiser
        self.vocabulary = denoiser.vocabulary
        self.time_free = denoiser.time_free
        self.tokens = tokens
        self.hidden = self.tokens == self.vocabulary
        self.luck = luck
        self.visits = torch.zeros_like(self.tokens)
        self.evaluations = self.tokens.new_zeros(len(tokens))
        self.impossible = self.tokens.new_zeros(len(tokens))
        self.forwards = 0
        self.rows_computed = 0
        self.patience = patience
        self._fresh = torch.zeros_like(self.evaluations, dtype=torch.bool)
        self._wanted = torch.zeros_like(self._fresh)
        self._engine = denoiser.engine(self.tokens)

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None = None) -> Tensor:
        """Marginals (K, V) at places (K), rows ascending: for orders, whose places are known before the loop starts."""
        needed = torch.zeros_like(self._fresh)
        needed[rows] = True
        self._count(needed)
        return self._engine.at(rows, positions, time)

    def look(self, window: slice = slice(None), time: Tensor | None = None, rows: Tensor | None = None) -> Tensor:
        """Marginals (B, W, V) over a window, one-hot where revealed: for adaptive samplers.

        Only what is hidden there in rows, Bool (B), is asked for: all of them unless told otherwise.
        """
        needed = self.hidden[:, window].any(1)
        self._count(needed if rows is None else needed & rows)
        return self._engine.over(window, time)

    def ask(self, tokens: Tensor, rows: Tensor, positions: Tensor, time: Tensor | None = None) -> Tensor:
        """Marginals (K, V) at positions (K) of other contexts (K, L), each an evaluation of the row (K) it belongs to.

        One batched call that leaves the canvas as it is: for samplers that look ahead.
        """
        self.evaluations.index_add_(0, rows, torch.ones_like(rows))
        self._count_forward(len(rows))
        return self.denoiser.posterior(tokens, positions.unsqueeze(1), time).squeeze(1)

    def recompute(self, rows: Tensor) -> None:
        """Let the next look evaluate rows, Bool (B), whether they need it or not: for caches coarser than a row."""
        self._wanted |= rows

    def follow(self, order: Tensor) -> Tensor | None:
        """Fill an order (B, L) all at once: the probability (B, L) of each token; None where the engine cannot."""
        if not isinstance(self._engine, Follower):
            return None
        asked = order > 0
        known = self._fresh & asked.any(1)  # the first round of these rows costs nothing
        probability, evaluations, impossible = self._engine.follow(order, self.luck, self.visits)
        evaluations = evaluations - known.long()
        first = (self.impossible == 0) & (impossible > 0)
        self.impossible = torch.where(first, self.evaluations + impossible - known.long(), self.impossible)
        self.evaluations += evaluations
        self.forwards += int(evaluations.max())
        self.rows_computed += int(evaluations.sum())
        self.hidden &= ~asked
        self._fresh &= ~asked.any(1)
        return probability

    def draw(self, probabilities: Tensor, rows: Tensor, positions: Tensor) -> Tensor:
        """Symbols (K) from probabilities (K, V) at places (K), with luck that no earlier draw there has used."""
        return self.luck.tokens(probabilities, rows, positions, self.visits)

    def reveal(self, where: Places | Tensor, tokens: Tensor) -> None:
        """Write tokens (K) at places, given as (rows, positions) or as Bool (B, L)."""
        self._write(where, tokens, hidden=False)

    def hide(self, where: Places | Tensor) -> None:
        self._write(where, self.vocabulary, hidden=True)

    def _write(self, where: Places | Tensor, tokens: Tensor | int, hidden: bool) -> None:
        rows, positions = where.nonzero(as_tuple=True) if isinstance(where, Tensor) else where
        self.tokens[rows, positions] = tokens
        self.hidden[rows, positions] = hidden
        self._fresh[rows] = False
        self._engine.renew(rows, positions)

    def _count(self, needed: Tensor) -> None:
        """One evaluation for each needed row that has changed, and one forward if there is any."""
        stale = (needed & ~self._fresh if self.time_free else needed) | self._wanted
        self.evaluations += stale
        self._fresh |= stale
        self._wanted &= False
        self._count_forward(int(stale.sum()))
        dead = self._engine.dead()
        if dead is not None:
            met = stale & dead & (self.impossible == 0)
            self.impossible = torch.where(met, self.evaluations, self.impossible)

    def _count_forward(self, computed: int) -> None:
        self.forwards += computed > 0
        self.rows_computed += computed
        if self.patience is not None and self.forwards > self.patience:
            where = f"{int(self.hidden.any(1).sum())} rows still have hidden positions"
            raise UnmaskError(f"the sampler has looked {self.forwards} times and {where}; it seems to loop for ever")


def over_hidden(engine: Any, window: slice) -> Tensor:
    """(B, W, V) of an engine that computes at places: its marginals where hidden, one-hot where revealed."""
    tokens, vocabulary = engine.tokens[:, window], engine.vocabulary
    rows, positions = (tokens == vocabulary).nonzero(as_tuple=True)
    marginals = engine.at(rows, positions + window.indices(engine.tokens.shape[1])[0], None)
    out = torch.nn.functional.one_hot(tokens.clamp(max=vocabulary - 1), vocabulary).to(marginals.dtype)
    out[rows, positions] = marginals
    return out
