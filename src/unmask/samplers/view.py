"""The input of an adaptive sampler in one step. The view of a row is a function of that row alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from unmask.core.chance import Stream
from unmask.denoisers import Canvas, Marginals

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64, Int, Shaped


@dataclass(frozen=True)
class View:
    """The whole canvas (B, L); only positions that may be revealed now are hidden: with blocks, the row's own block.

    confidence, margin, entropy and `of` are 0 elsewhere. Rows that are final or have no position in this step have
    nothing hidden.
    """

    canvas: Canvas
    marginals: Marginals  # of the K hidden positions, row by row
    places: tuple[Int[Tensor, " K"], Int[Tensor, " K"]]  # their rows and positions
    hidden: Bool[Tensor, "B L"]  # positions that may be revealed
    revealed: Bool[Tensor, "B L"]  # positions of the block that this sampler has revealed, and may hide again
    certainty: Float64[Tensor, "B L"]  # the probability of each token when it was revealed
    count: Int[Tensor, " B"]  # number of positions that the schedule reveals in this step
    step: Int[Tensor, " B"]  # 1..N of the block, or 1.. with pace "free"
    steps: Int[Tensor, " B"]  # N of the block
    turn: Int[Tensor, " B"]  # step of the whole row, over all its blocks
    alpha: Float64[Tensor, " B"]  # fraction revealed before this step, alpha_t
    alpha_next: Float64[Tensor, " B"]  # and after it, alpha_s
    # stored by the sampler in earlier steps: tensors (B, ..), 0 where a block begins, and marginals with a tensor of
    # the row's indices into them (see `divergence`)
    memory: dict[str, Any]

    @property
    def tokens(self) -> Int[Tensor, "B L"]:
        """(B, L), V where hidden."""
        return self.canvas.tokens

    @property
    def resolution(self) -> float:
        """Scores that differ by less count as equal."""
        return self.marginals.resolution

    @cached_property
    def confidence(self) -> Float64[Tensor, "B L"]:
        """(B, L) float64: max_v p(v)."""
        return self._spread(self.marginals.confidence)

    @cached_property
    def margin(self) -> Float64[Tensor, "B L"]:
        """(B, L) float64: p_(1) - p_(2)."""
        return self._spread(self.marginals.margin)

    @cached_property
    def entropy(self) -> Float64[Tensor, "B L"]:
        """(B, L) float64: in nats, 0 or more."""
        return self._spread(self.marginals.entropy)

    @cached_property
    def best(self) -> Int[Tensor, "B L"]:
        """(B, L): the most likely symbol, V elsewhere."""
        return self._spread(self.marginals.best, self.canvas.vocabulary)

    def of(self, tokens: Int[Tensor, "B L"]) -> Float64[Tensor, "B L"]:
        """(B, L) float64: the probability of tokens (B, L)."""
        return self._spread(self.marginals.of(tokens[self.places]))

    def draw(self, temperature: float = 1.0, top_p: float = 1.0, top_k: int | None = None) -> Int[Tensor, "B L"]:
        """Tokens (B, L) drawn at every hidden position, V elsewhere; each call uses new random numbers."""
        sharpened = self.marginals.sharpened(temperature, top_p, top_k)
        return self._spread(self.canvas.draw(sharpened, *self.places), self.canvas.vocabulary)

    def looking_back(self, places: Bool[Tensor, "B L"] | None = None) -> View:
        """A view with positions revealed by this sampler, Bool (B, L) or all, as its `hidden`.

        The marginal of each is given all other tokens of its row, without its own."""
        back = self.revealed
        if places is not None:
            back = back & places
        rows, positions = back.nonzero(as_tuple=True)
        return replace(self, marginals=self.canvas.around(rows, positions), places=(rows, positions), hidden=back)

    def rng(self, stream: Stream) -> Float64[Tensor, "B L"]:
        """Uniforms (B, L) of this step, equal in every call: TIE for equal scores, ACCEPT for random decisions."""
        rows = torch.arange(len(self.hidden)).unsqueeze(1)
        positions = torch.arange(self.hidden.shape[1])
        return self.canvas.rng.uniform(stream, rows, positions, self.turn.unsqueeze(1))

    def _spread(self, values: Shaped[Tensor, " K"], elsewhere: float = 0) -> Shaped[Tensor, "B L"]:
        """(B, L): values (K) at their positions."""
        out = torch.full(self.hidden.shape, elsewhere, dtype=values.dtype)
        out[self.places] = values
        return out


def numbered(view: View) -> Int[Tensor, "B L"]:
    """(B, L): index of a position in the view's marginals, from 1; 0 if it has none."""
    numbers = torch.zeros(view.hidden.shape, dtype=torch.int64)
    numbers[view.places] = torch.arange(1, len(view.places[0]) + 1)
    return numbers


def divergence(view: View, where: Bool[Tensor, "B L"]) -> Float64[Tensor, "B L"]:
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
