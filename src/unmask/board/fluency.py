"""ter_upper of a sampler from its own decisions: the language's sequences are put through it, and their price is read.

While a sampler fills a canvas whose every draw answers with the next tokens of x ~ q, it makes the decisions that it
would have made on its way to x. Where each token is drawn when its place has been chosen, and stays,

    -log p(x) <= E_luck[-log p(x | luck)] = E_luck[sum of -log p(x_j | what is revealed)]        (theory.md 7.1)

whether the places were fixed beforehand, like an order, or chosen by looking at the context. It is not so where the
token decides whether it is kept (sample, then choose), is hidden again, or is not drawn from the canvas: then the price
of a path is not the probability of x, and there is no bound.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unmask.chance import Luck
from unmask.denoisers import Canvas, Denoiser
from unmask.denoisers.canvas import Places
from unmask.languages import Language
from unmask.samplers import Sampler, Session, fill

LAW_IS_Q = ("autoregressive", "speculative", "self-speculative")  # with the ideal denoiser, by proof: TER is q's own
READS = ("autoregressive", "speculative")  # and with any other that of its causal reader


class Unbounded(Exception):
    """Why the price of a path says nothing of the probability of x."""


class TaughtCanvas(Canvas):
    """A canvas on which the truth (B, L) is drawn, whatever the luck; `price` (B) is what that cost in nats."""

    def __init__(self, denoiser: Denoiser, tokens: Tensor, luck: Luck, patience: int, truth: Tensor) -> None:
        super().__init__(denoiser, tokens, luck, patience)
        self.truth = truth
        self.price = torch.zeros(len(tokens), dtype=torch.float64)
        self.priced = torch.zeros(len(tokens), dtype=torch.int64)  # how many places that is the price of
        self._drawn: Places | None = None

    def follow(self, order: Tensor) -> Tensor | None:
        """Not all at once: every round is put through `draw`."""
        return None

    def draw(self, probabilities: Tensor, rows: Tensor, positions: Tensor) -> Tensor:
        if self._drawn is not None:
            raise Unbounded("it draws tokens that it does not keep")
        tokens = self.truth[rows, positions]
        mass = probabilities.double()
        chance = mass.gather(1, tokens.unsqueeze(1)).squeeze(1) / mass.sum(1)
        self.price.index_add_(0, rows, -chance.log())
        self.priced.index_add_(0, rows, torch.ones_like(rows))
        self._drawn = rows, positions
        return tokens

    def reveal(self, where: Places | Tensor, tokens: Tensor) -> None:
        places = where.nonzero(as_tuple=True) if isinstance(where, Tensor) else where
        if self._drawn is None or not all(torch.equal(a, b) for a, b in zip(places, self._drawn, strict=True)):
            raise Unbounded("what it writes is not what it has just drawn")
        if not torch.equal(tokens, self.truth[places[0], places[1]]):
            raise Unbounded("what it writes is not what it has just drawn")
        self._drawn = None
        super().reveal(where, tokens)

    def hide(self, where: Places | Tensor) -> None:
        raise Unbounded("it hides again what it has revealed")


def of_reader(denoiser: Denoiser, language: Language, truth: Tensor) -> Tensor:
    """(B) log q(x) - log p(x) of a causal reader, for each row of the truth (B, L)."""
    start = torch.full((len(truth), 1), language.vocabulary)
    law = denoiser.causal(*truth.shape).extend(torch.cat([start, truth[:, :-1]], 1))
    return language.log_prob(truth) - law.gather(2, truth.unsqueeze(2)).squeeze(2).double().log().sum(1)


def divergence(
    sampler: Sampler, denoiser: Denoiser, language: Language, truth: Tensor, delta: Tensor, luck: Luck
) -> Tensor:
    """(B) log q(x) - log p(x | luck) in nats of each row of the truth (B, L) ~ q: its mean is at least KL(q || p).

    Raises Unbounded where there is no such bound; infinite where the sampler cannot write x.
    """
    session = Session(denoiser, language.blank(*truth.shape), luck, delta)
    patience = 8 * (truth.shape[1] + len(delta))
    canvas = TaughtCanvas(denoiser, session.tokens, luck, patience, truth)
    given: dict[str, Any] = session.__dict__
    given["canvas"] = canvas  # the session's own, before it makes one
    fill(sampler, session)
    if not bool((session.tokens == truth).all()) or not bool((canvas.priced == truth.shape[1]).all()):
        raise Unbounded("not all of its tokens are drawn from its canvas")
    return language.log_prob(truth) + canvas.price
