"""The input of an adaptive sampler in one step. The view of a row is a function of that row alone."""

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
    """The whole canvas (B, L); only positions that may be revealed now are hidden: with blocks, the row's own block.

    confidence, margin, entropy and `of` are 0 elsewhere. Rows that are final or have no position in this step have
    nothing hidden.
    """

    canvas: Canvas
    marginals: Marginals  # of the K hidden positions, row by row
    places: tuple[Tensor, Tensor]  # their rows (K) and positions (K)
    hidden: Tensor  # Bool (B, L): positions that may be revealed
    revealed: Tensor  # Bool (B, L): positions of the block that this sampler has revealed, and may hide again
    certainty: Tensor  # (B, L): the probability of each token when it was revealed
    count: Tensor  # (B): number of positions that the schedule reveals in this step
    step: Tensor  # (B): step 1..N of the block, or 1.. with pace "free"
    steps: Tensor  # (B): N of the block
    turn: Tensor  # (B): step of the whole row, over all its blocks
    alpha: Tensor  # (B) float64: fraction revealed before this step, alpha_t
    alpha_next: Tensor  # (B) float64: and after it, alpha_s
    # stored by the sampler in earlier steps: tensors (B, ..), 0 where a block begins, and marginals with a tensor of
    # the row's indices into them (see `divergence`)
    memory: dict[str, Any]

    @property
    def tokens(self) -> Tensor:
        """(B, L), V where hidden."""
        return self.canvas.tokens

    @property
    def resolution(self) -> float:
        """Scores that differ by less count as equal."""
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
        """(B, L): the most likely symbol, V elsewhere."""
        return self._spread(self.marginals.best, self.canvas.vocabulary)

    def of(self, tokens: Tensor) -> Tensor:
        """(B, L) float64: the probability of tokens (B, L)."""
        return self._spread(self.marginals.of(tokens[self.places]))

    def draw(self, temperature: float = 1.0, top_p: float = 1.0, top_k: int | None = None) -> Tensor:
        """Tokens (B, L) drawn at every hidden position, V elsewhere; each call uses new random numbers."""
        sharpened = self.marginals.sharpened(temperature, top_p, top_k)
        return self._spread(self.canvas.draw(sharpened, *self.places), self.canvas.vocabulary)

    def looking_back(self, places: Tensor | None = None) -> View:
        """A view with positions revealed by this sampler, Bool (B, L) or all, as its `hidden`.

        The marginal of each is given all other tokens of its row, without its own."""
        back = self.revealed
        if places is not None:
            back = back & places
        rows, positions = back.nonzero(as_tuple=True)
        return replace(self, marginals=self.canvas.around(rows, positions), places=(rows, positions), hidden=back)

    def rng(self, stream: Stream) -> Tensor:
        """Uniforms (B, L) of this step, equal in every call: TIE for equal scores, ACCEPT for random decisions."""
        rows = torch.arange(len(self.hidden)).unsqueeze(1)
        positions = torch.arange(self.hidden.shape[1])
        return self.canvas.rng.uniform(stream, rows, positions, self.turn.unsqueeze(1))

    def _spread(self, values: Tensor, elsewhere: float = 0) -> Tensor:
        """(B, L): values (K) at their positions."""
        out = torch.full(self.hidden.shape, elsewhere, dtype=values.dtype)
        out[self.places] = values
        return out


def numbered(view: View) -> Tensor:
    """(B, L): index of a position in the view's marginals, from 1; 0 if it has none."""
    numbers = torch.zeros(view.hidden.shape, dtype=torch.int64)
    numbers[view.places] = torch.arange(1, len(view.places[0]) + 1)
    return numbers


def divergence(view: View, where: Tensor) -> Tensor:
    """(B, L) KL(p_t || p_t-1) nats to the marginals of the step before, at positions `where`, Bool (B, L).

    inf elsewhere, and where there are none. They are stored in `view.memory`; call once per step."""
    out = torch.full(view.hidden.shape, torch.inf, dtype=torch.float64)
    now = numbered(view)
    before = view.memory.get("numbers")
    earlier = view.memory.get("marginals")

    if before is not None and earlier is not None:
        known = (where & (now > 0) & (before > 0)).nonzero(as_tuple=True)
        if len(known[0]):
            out[known] = view.marginals[now[known] - 1].divergence(earlier[before[known] - 1])

    view.memory.update(numbers=now, marginals=view.marginals)
    return out
