"""Semi-autoregressive blocks around any sampler that orders or chooses (LLaDA): one block of positions after another.

A block holds the next `block_length` hidden positions of a row, and each row goes through blocks of its own: rows with
prompts of different lengths share every batched call. Of a denoiser that itself sees blocks, from position 0 on, blocks
are its own, or whole parts of them, so that the first one is what a prompt leaves of one.

    first   The position at each multiple of `first`, 0 excepted, is a block of its own: it gets its likeliest token,
            alone, before the parts of `block_length`. Fast-dLLM v2's code reads this token at the last column of the
            full block before. Blocks and parts are then counted from position 0 of any denoiser.
    nucleus Tokens are drawn from the likeliest whose probabilities sum to at most this, and from the first in any case,
            as in BD3-LM's code. The token that crosses it is dropped; `top_p` of `generate` keeps this token.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.denoisers import Nucleus
from unmask.samplers import checks
from unmask.samplers.contract import SAMPLERS, Choice, Law, Reads, Sampler
from unmask.samplers.loops import fill_blocks
from unmask.samplers.session import Session
from unmask.samplers.view import View


@SAMPLERS.register("blocks")
@dataclass(frozen=True)
class Blocks(Sampler):
    """Blocks from left to right, each filled by the inner sampler."""

    block_length: int = 32
    inner: str | Sampler = "fixed-size"
    first: int | None = None
    nucleus: float = 1.0

    def __post_init__(self) -> None:
        arguments.whole("block_length", self.block_length, 1, arguments.MOST_LENGTH)
        arguments.number("nucleus", self.nucleus, most=1.0)
        checks.inner(self)
        if self.first is None:
            return
        if arguments.whole("first", self.first, 1, arguments.MOST_LENGTH) % self.block_length:
            raise UnmaskError(f"first is {self.first}; expected a multiple of block_length, {self.block_length}")
        inner = checks.made(self.inner)
        if not inner.implements("choose"):
            raise UnmaskError(f"inner is {inner.spec}, which does not choose; with first take threshold, for example")

    @property
    def law(self) -> Law | None:
        plain = self.first is None and self.nucleus == 1
        return "order" if plain and checks.made(self.inner).law == "order" else None

    @property
    def reads(self) -> frozenset[Reads]:
        return checks.made(self.inner).reads

    @property
    def revises(self) -> bool:
        return checks.made(self.inner).revises

    def run(self, session: Session) -> None:
        if self.nucleus < 1:
            if session.uses("canvas"):
                raise UnmaskError("nucleus changes what the denoiser says; use these blocks alone")
            session.denoiser = Nucleus(session.denoiser, self.nucleus)
        hidden, grid, inner = session.hidden, session.denoiser.grid, checks.made(self.inner)
        if self.first is not None:
            index, inner = _numbered(hidden, self.block_length, self.first), FirstAlone(inner, self.first)
        elif grid is None or (self.block_length % grid and grid % self.block_length):
            index = (hidden.cumsum(1) - 1) // self.block_length
        else:
            index = _numbered(hidden, self.block_length)
        fill_blocks(inner, session, torch.where(hidden, index, -1))


class FirstAlone(Sampler):
    """A sampler that chooses, but for the likeliest token at the multiples of `every`."""

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
    """Bool (L): the multiples of `every` but 0."""
    place = torch.arange(length)
    return (place % every == 0) & (place > 0)


def _numbered(hidden: Tensor, size: int, first: int | None = None) -> Tensor:
    """(B, L): which block of the row it is, of those of a grid from position 0 that have a hidden position (B, L)."""
    block = torch.arange(hidden.shape[1]) // size
    if first is not None:
        block = 2 * block + ~_heads(hidden.shape[1], first)
    seen = torch.where(hidden, block, -1).cummax(1).values
    before = torch.cat([seen.new_full((len(seen), 1), -1), seen[:, :-1]], 1)
    return (seen > before).cumsum(1) - 1
