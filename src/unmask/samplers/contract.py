"""What a sampler is: a small class that implements exactly one of `order`, `choose` and `run`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from unmask.chance import Luck, Stream
from unmask.denoisers import Canvas, Causal, Denoiser
from unmask.errors import UnmaskError
from unmask.names import Registry


class Choice(NamedTuple):
    """What an adaptive sampler decides in a round, over the window it was shown."""

    reveal: Tensor  # Bool (B, W), among the hidden
    tokens: Tensor | None = None  # (B, W): what to write there; None: draw now from the probabilities


class Sampler:
    """One way to fill a canvas: fixed before looking (order), chosen each round (choose), or its own flow (run)."""

    def order(self, delta: Tensor, hidden: Tensor, luck: Luck) -> Tensor:
        """Rounds 1..N (B, L) of every hidden position (B, L), 0 elsewhere: nothing depends on the tokens."""
        raise NotImplementedError

    def choose(self, view: View) -> Choice:
        """What to reveal in this round, after looking."""
        raise NotImplementedError

    def run(self, session: Session) -> None:
        """Fill the session's rows by any flow; every evaluation goes through its canvas and its causal reader."""
        raise NotImplementedError

    def implements(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(Sampler, method)


SAMPLERS: Registry[Sampler] = Registry("sampler")


@dataclass(frozen=True)
class View:
    """What an adaptive sampler sees in one round."""

    canvas: Canvas
    probabilities: Tensor  # (B, W, V)
    hidden: Tensor  # Bool (B, W)
    round: int  # 1..N
    rounds: int  # N
    count: Tensor  # (B): how many positions the schedule gives to this round

    def draw(self, probabilities: Tensor | None = None) -> Tensor:
        """Tokens (B, W) drawn at every hidden position from fresh luck (LLaDA redraws each round); V elsewhere."""
        probabilities = self.probabilities if probabilities is None else probabilities
        rows, positions = self.hidden.nonzero(as_tuple=True)
        tokens = torch.full_like(self.canvas.tokens, self.canvas.vocabulary)
        tokens[rows, positions] = self.canvas.draw(probabilities[rows, positions], rows, positions)
        return tokens

    def ties(self) -> Tensor:
        """Uniforms (B, W) that decide between equal scores in this round."""
        return self.canvas.luck.grid(Stream.TIE, self.hidden.shape[1], self.round)


class Session:
    """Some rows on their way from given tokens (B, L) to complete ones, with what was met on the way."""

    def __init__(self, denoiser: Denoiser, given: Tensor, luck: Luck, delta: Tensor) -> None:
        self.denoiser = denoiser
        self.given = given
        self.luck = luck
        self.delta = delta
        self.planned = False  # set where the order does not depend on the tokens
        self.tokens = given.clone()
        self.order = torch.zeros_like(given)  # the round that revealed each position, 0 where it was given
        self.probability = torch.ones(given.shape, dtype=torch.float64)  # of each token when it was revealed

    @cached_property
    def canvas(self) -> Canvas:
        return Canvas(self.denoiser, self.given, self.luck)

    @cached_property
    def causal(self) -> Causal:
        return self.denoiser.causal(*self.given.shape)

    def uses(self, part: str) -> bool:
        """Whether the sampler has asked for the 'canvas' or the 'causal' reader."""
        return part in self.__dict__

    def write(self, rows: Tensor, positions: Tensor, tokens: Tensor, probability: Tensor, rounds: Tensor | int) -> None:
        """Reveal tokens (K) at places (K), which had this probability (K), in this round."""
        usable = probability > 0  # false for not-a-number too
        if not bool(usable.all()):
            at = int((~usable).int().argmax())
            where = f"position {int(positions[at])} of row {int(rows[at])}"
            raise UnmaskError(f"the denoiser gives no usable probabilities at {where}: all zero, or not numbers")
        self.tokens[rows, positions] = tokens
        self.order[rows, positions] = rounds
        self.probability[rows, positions] = probability.double()
        if self.uses("canvas"):
            self.canvas.reveal((rows, positions), tokens)
