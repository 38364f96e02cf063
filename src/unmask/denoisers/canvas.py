"""A batch being filled, and the one place where evaluations are counted."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from unmask.core.chance import Luck
from unmask.core.errors import UnmaskError
from unmask.denoisers.contracts import Cost, Follower
from unmask.denoisers.denoiser import Denoiser
from unmask.denoisers.marginals import Marginals, Table, as_marginals

Places = tuple[Tensor, Tensor]  # (rows (K), positions (K))


def by_length(lengths: Tensor) -> Iterator[tuple[int, Tensor]]:
    """(length, rows (K)) of all rows of one length (B), for who can only be asked about whole rows."""
    return ((size, (lengths == size).nonzero().squeeze(1)) for size in lengths.unique().tolist())


class Canvas:
    """Rows of tokens (B, L) in which V is hidden, in front of an engine; the tokens are its own, it writes into them.

    lengths      (B) how many positions are a row's own; behind them is padding, which is nobody's to read
    evaluations  (B) what each row needed: one that has not changed since its last evaluation is free, unless the
                 denoiser depends on the time
    spent        what was computed, as the engine says
    impossible   (B) the number of the evaluation at which a row's context had probability zero for the first time, or 0
    visits       (B, L) earlier draws at a place, so that a redrawn token is drawn from fresh luck
    contexts     (B) how many of the evaluations were of other contexts than what stands on the canvas
    """

    def __init__(
        self,
        denoiser: Denoiser,
        tokens: Tensor,
        luck: Luck,
        *,
        valid: Tensor | None = None,
        patience: int | None = None,
    ) -> None:
        self.denoiser = denoiser
        self.vocabulary = denoiser.vocabulary
        self.time_free = denoiser.time_free
        self.tokens = tokens
        self.lengths = torch.full((len(tokens),), tokens.shape[1]) if valid is None else valid.sum(1)
        self.hidden = (self.tokens == self.vocabulary) & (torch.arange(tokens.shape[1]) < self.lengths.unsqueeze(1))
        self.luck = luck
        self.visits = torch.zeros_like(self.tokens)
        self.evaluations = self.tokens.new_zeros(len(tokens))
        self.impossible = self.tokens.new_zeros(len(tokens))
        self.contexts = self.tokens.new_zeros(len(tokens))
        self.patience = patience
        self._fresh = torch.zeros_like(self.evaluations, dtype=torch.bool)
        self._wanted = torch.zeros_like(self._fresh)
        self._looks = 0
        self._given = tokens.clone()
        self._valid = None if valid is None or bool(valid.all()) else valid
        self._engine = denoiser.engine(tokens, self._given, self._valid)
        self._ahead = Cost()  # of contexts that were looked at ahead

    @property
    def spent(self) -> Cost:
        return self._engine.spent + self._ahead

    @property
    def exhausted(self) -> bool:
        """Whether it has been looked at more often than anybody has patience for."""
        return self.patience is not None and self._looks > self.patience

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None = None) -> Marginals:
        """What is said of hidden places (K), rows ascending; time (B) where the denoiser asks for it."""
        needed = torch.zeros_like(self._fresh)
        needed[rows] = True
        self._count(needed)
        if not len(rows):
            return Table(torch.empty((0, self.vocabulary), dtype=torch.float64))
        return as_marginals(self._engine.at(rows, positions, time))

    def ask(
        self,
        tokens: Tensor,
        rows: Tensor,
        positions: Tensor,
        time: Tensor | None = None,
        contexts: Tensor | None = None,
    ) -> Marginals:
        """What is said of hidden positions (K) of other contexts (C, L), each an evaluation of the row (C) it belongs
        to; contexts (K), ascending, says where each position is, one in each context unless told otherwise.

        One batched call that leaves the canvas as it is: for samplers that look ahead. time (C), of each context.
        """
        for counts in (self.evaluations, self.contexts):
            counts.index_add_(0, rows, torch.full_like(rows, self.denoiser.calls))
        valid = None if self._valid is None else self._valid[rows]
        engine = self.denoiser.engine(tokens, self._given[rows], valid)
        asked = torch.arange(len(tokens)) if contexts is None else contexts
        said = as_marginals(engine.at(asked, positions, time))
        self._ahead = self._ahead + engine.spent
        self._count_look()
        return said

    def around(self, rows: Tensor, positions: Tensor) -> Marginals:
        """What is said of revealed places (K), rows ascending, each given all the others of its row and not itself.

        Of an engine that is hollow that is part of the row's evaluation; of any other each place is a context of its
        own, and an evaluation. The time, where there is one, is the share that is hidden in such a context.
        """
        time = None if self.time_free else (self.hidden.sum(1) + 1).double() / self.lengths
        if self._engine.hollow:
            return self.at(rows, positions, time)
        if not len(rows):
            return Table(torch.empty((0, self.vocabulary), dtype=torch.float64))
        contexts = self.tokens[rows]
        contexts[torch.arange(len(rows)), positions] = self.vocabulary
        return self.ask(contexts, rows, positions, None if time is None else time[rows])

    def recompute(self, rows: Tensor) -> None:
        """Let the next look count rows, Bool (B), whether they need it or not: for caches coarser than a row."""
        self._wanted |= rows

    def follow(self, order: Tensor) -> Tensor | None:
        """Fill an order (B, L) all at once: the probability (B, L) of each token; None where the engine cannot."""
        if not isinstance(self._engine, Follower):
            return None
        asked = order > 0
        known = (self._fresh & asked.any(1)).long()  # the first round of these rows costs nothing
        probability, rounds, impossible = self._engine.follow(order, self.luck, self.visits)
        first = (self.impossible == 0) & (impossible > 0)
        self.impossible = torch.where(first, self.evaluations + impossible - known, self.impossible)
        self.evaluations += (rounds - known) * self.denoiser.calls
        self.hidden &= ~asked
        self._fresh &= ~asked.any(1)
        return probability

    def draw(self, marginals: Marginals, rows: Tensor, positions: Tensor) -> Tensor:
        """Symbols (K) from what is said of places (K), with luck that no earlier draw there has used."""
        return self.luck.tokens(marginals, rows, positions, self.visits)

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
        """An evaluation for each needed row, Bool (B), that has changed, and for each that is wanted in any case."""
        stale = (needed & ~self._fresh if self.time_free else needed) | self._wanted
        self.evaluations += stale * self.denoiser.calls
        self._fresh |= stale
        self._wanted &= False
        self._count_look()
        dead = self._engine.dead()
        if dead is not None:
            met = stale & dead & (self.impossible == 0)
            self.impossible = torch.where(met, self.evaluations, self.impossible)

    def _count_look(self) -> None:
        self._looks += 1
        if self.exhausted:
            where = f"{int(self.hidden.any(1).sum())} rows still have hidden positions"
            raise UnmaskError(f"the sampler has looked {self._looks} times and {where}; it seems to loop for ever")
