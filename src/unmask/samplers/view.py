"""What an adaptive sampler sees of a canvas in one round. What is shown of a row is a function of that row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from unmask.core.chance import Stream
from unmask.denoisers import Canvas, Marginals


@dataclass(frozen=True)
class View:
    """The whole canvas (B, L), of which a row shows what may be revealed now: in blocks that is the row's own block.

    confidence, margin, entropy and `of` are 0 where nothing may be revealed. Rows that are done, and those that have
    no position in this round, show nothing.
    """

    canvas: Canvas
    marginals: Marginals  # of the K hidden places, row by row
    places: tuple[Tensor, Tensor]  # their rows (K) and positions (K)
    hidden: Tensor  # Bool (B, L): what may be revealed
    revealed: Tensor  # Bool (B, L): what this sampler has revealed of the block, and may hide again
    certainty: Tensor  # (B, L): the probability that each token had when it was revealed
    count: Tensor  # (B): how many positions the schedule gives to this round
    round: Tensor  # (B): 1..N of the block, or 1.. where the pace is free
    rounds: Tensor  # (B): N of the block
    turn: Tensor  # (B): the round by the count of the whole row, however many blocks it has
    alpha: Tensor  # (B) float64: share revealed before this round, alpha_t
    alpha_next: Tensor  # (B) float64: and after it, alpha_s
    memory: dict[
        str, Any
    ]  # what the sampler has kept from earlier rounds: tensors (B, ..), 0 where a block begins, and
    # marginals, which a tensor of the row's own points into (samplers/memory.py)

    @property
    def tokens(self) -> Tensor:
        """(B, L), V where hidden."""
        return self.canvas.tokens

    @property
    def resolution(self) -> float:
        """Scores that differ by less are equal."""
        return self.marginals.resolution

    @cached_property
    def confidence(self) -> Tensor:
        """(B, L) float64: max_v p(v)."""
        return self._spread(self.marginals.confidence)

    @cached_property
    def margin(self) -> Tensor:
        """(B, L) float64: p_(1) - p_(2)."""
        return self._spread(self.marginals.margin)

    @cached_property
    def entropy(self) -> Tensor:
        """(B, L) float64: in nats, 0 or more."""
        return self._spread(self.marginals.entropy)

    @cached_property
    def best(self) -> Tensor:
        """(B, L): the most likely symbol, V where nothing may be revealed."""
        return self._spread(self.marginals.best, self.canvas.vocabulary)

    def of(self, tokens: Tensor) -> Tensor:
        """(B, L) float64: the probability of tokens (B, L)."""
        return self._spread(self.marginals.of(tokens[self.places]))

    def draw(self, temperature: float = 1.0, top_p: float = 1.0, top_k: int | None = None) -> Tensor:
        """Tokens (B, L) drawn at every hidden position, V elsewhere; from fresh luck each time that it is called."""
        sharpened = self.marginals.sharpened(temperature, top_p, top_k)
        return self._spread(self.canvas.draw(sharpened, *self.places), self.canvas.vocabulary)

    def looking_back(self, places: Tensor | None = None) -> View:
        """A view of what this sampler has revealed, at places, Bool (B, L), or all: what is `hidden` there are these,
        and what is said of each is given all the others of its row and not its own token."""
        back = self.revealed if places is None else self.revealed & places
        rows, positions = back.nonzero(as_tuple=True)
        return replace(self, marginals=self.canvas.around(rows, positions), places=(rows, positions), hidden=back)

    def luck(self, stream: Stream) -> Tensor:
        """Uniforms (B, L) of this round, the same whenever they are asked for: TIE decides between equal scores, ACCEPT
        whether something happens."""
        rows, positions = (torch.arange(size) for size in self.hidden.shape)
        return self.canvas.luck.uniform(stream, rows.unsqueeze(1), positions, self.turn.unsqueeze(1))

    def _spread(self, values: Tensor, elsewhere: float = 0) -> Tensor:
        """Values (K) at their places (B, L)."""
        out = torch.full(self.hidden.shape, elsewhere, dtype=values.dtype)
        out[self.places] = values
        return out
