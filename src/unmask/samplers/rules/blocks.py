"""Semi-autoregressive blocks around any sampler that orders or chooses (LLaDA): one block of positions after another.

A block is the next `block_length` hidden positions of a row, counted in each row: rows with prompts of different
lengths share every batched call. With a denoiser that has its own block grid from position 0, blocks follow that grid,
and the first block is the part that the prompt leaves.

    first   The position at each multiple of `first`, except 0, is a block by itself: it gets its most likely token
            before the parts of `block_length`. Fast-dLLM v2's code reads this token at the last column of the full
            block before. Blocks and parts are then counted from position 0 for any denoiser.
    nucleus Draw from the most likely tokens whose probabilities sum to at most this, at least one, as in BD3-LM's
            code. It drops the token that crosses the limit; `top_p` of `generate` keeps this token.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.denoisers import Nucleus
from unmask.samplers.contract import (
    SAMPLERS,
    Choice,
    Distribution,
    Fraction,
    Reads,
    Sampler,
    Some,
    check_inner,
    inner_of,
)
from unmask.samplers.loops import steps_of
from unmask.samplers.session import Session
from unmask.samplers.view import View


@SAMPLERS.register("blocks")
@dataclass(frozen=True)
class Blocks(Sampler):
    """Blocks from left to right, each filled by the inner sampler."""

    block_length: Some = 32
    inner: str | Sampler = "fixed-size"
    first: int | None = None
    nucleus: Fraction = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_inner(self)
        if self.first is None:
            return
        if arguments.whole("first", self.first, 1, arguments.MOST_LENGTH) % self.block_length:
            raise UnmaskError(f"first is {self.first}; expected a multiple of block_length, {self.block_length}")
        inner = inner_of(self)
        if not inner.implements("choose"):
            raise UnmaskError(f"inner is {inner.spec}; expected a sampler that chooses, such as threshold, with first")

    @property
    def distribution(self) -> Distribution | None:
        if self.first is not None or self.nucleus < 1 or inner_of(self).distribution != "order":
            return None
        return "order"

    @property
    def chooses_before_drawing(self) -> bool:
        return self.first is None and self.nucleus == 1 and inner_of(self).chooses_before_drawing

    @property
    def reads(self) -> frozenset[Reads]:
        return inner_of(self).reads

    @property
    def revises(self) -> bool:
        return inner_of(self).revises

    def run(self, session: Session) -> None:
        if self.nucleus < 1:
            if session.uses("canvas"):
                raise UnmaskError("blocks with a nucleus cannot be inside another sampler. Set its nucleus instead")
            session.denoiser = Nucleus(session.denoiser, self.nucleus)
        inner = inner_of(self)
        if self.first is not None:
            inner = FirstAlone(inner, self.first)
        for _ in steps_of(inner, session, self.numbered(session.hidden, session.denoiser.grid)):
            pass

    def numbered(self, hidden: Tensor, grid: int | None) -> Tensor:
        """(B, L): the block of each position to fill, Bool (B, L), from 0 in each row; -1 elsewhere.

        grid: of the denoiser."""
        if self.first is not None:
            index = _numbered(hidden, self.block_length, self.first)
        elif grid is None or (self.block_length % grid and grid % self.block_length):
            index = (hidden.cumsum(1) - 1) // self.block_length
        else:
            index = _numbered(hidden, self.block_length)
        return torch.where(hidden, index, -1)


class FirstAlone(Sampler):
    """The inner sampler, except that multiples of `every` get their most likely token."""

    def __init__(self, inner: Sampler, every: int) -> None:
        self.inner, self.every, self.pace = inner, every, inner.pace

    def choose(self, view: View) -> Choice:
        choice = self.inner.choose(view)
        heads = view.hidden & _heads(view.hidden.shape[1], self.every)
        tokens = choice.tokens
        if not bool(heads.any()):
            return choice
        if tokens is None:
            rest = choice.reveal & ~heads
            tokens = torch.full(rest.shape, view.canvas.vocabulary)
            tokens[rest] = view.canvas.draw(view.marginals[rest[view.places]], *rest.nonzero(as_tuple=True))
        return choice._replace(tokens=torch.where(heads, view.best, tokens))


def _heads(length: int, every: int) -> Tensor:
    """Bool (L): the multiples of `every` except 0."""
    place = torch.arange(length)
    return (place % every == 0) & (place > 0)


def _numbered(hidden: Tensor, size: int, first: int | None = None) -> Tensor:
    """(B, L): index of the block in its row, among the blocks of a grid that have a hidden position (B, L)."""
    block = torch.arange(hidden.shape[1]) // size
    if first is not None:
        block = 2 * block + ~_heads(hidden.shape[1], first)
    latest = torch.where(hidden, block, -1).cummax(1).values
    before = torch.cat([latest.new_full((len(latest), 1), -1), latest[:, :-1]], 1)
    return (latest > before).cumsum(1) - 1
