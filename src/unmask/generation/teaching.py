"""True sequences put through a canvas, and what each of their tokens cost when it was revealed (theory.md 7.1).

While a canvas whose every draw answers with the next tokens of x ~ q is filled, in an order or by a sampler, all the
decisions are those that would have been made on the way to x. Where each token is drawn when its place has been
chosen, and stays,

    -log p(x) <= E_luck[-log p(x | luck)] = E_luck[sum of -log p(x_j | what is revealed)]

whether the places were fixed beforehand, like an order, or chosen by looking at the context. It is not so where the
token decides whether it is kept (sample, then choose), is hidden again, or is not drawn from the canvas: then the price
of a path is not the probability of x, and there is no bound.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from unmask.core.chance import Luck
from unmask.denoisers import Canvas, Causal, Denoiser, Marginals, as_marginals
from unmask.denoisers.canvas import Places
from unmask.samplers import Sampler, Session, fill, walk


class Unbounded(Exception):
    """Why the price of a path says nothing of the probability of x."""


class TaughtCanvas(Canvas):
    """A canvas on which the truth (B, L) is drawn, whatever the luck; `nats` (B, L) is what each token of it cost.

    entropies: that of the marginals in place of the surprisal of the token, for a denoiser that is ideal: the mean over
    x ~ q is the same, and varies less.
    """

    def __init__(
        self,
        denoiser: Denoiser,
        tokens: Tensor,
        luck: Luck,
        truth: Tensor,
        patience: int | None = None,
        *,
        entropies: bool,
    ) -> None:
        super().__init__(denoiser, tokens, luck, patience=patience)
        self.truth = truth
        self.entropies = entropies
        self.nats = torch.zeros(truth.shape, dtype=torch.float64)
        self.taught = torch.zeros(truth.shape, dtype=torch.bool)
        self._drawn: Places | None = None

    def follow(self, order: Tensor) -> Tensor | None:
        """Not all at once: every round is put through `draw`."""
        return None

    def draw(self, marginals: Marginals, rows: Tensor, positions: Tensor) -> Tensor:
        if self._drawn is not None:
            raise Unbounded("it draws tokens that it does not keep")
        tokens = self.truth[rows, positions]
        self.nats[rows, positions] = marginals.entropy if self.entropies else -marginals.of(tokens).log()
        self.taught[rows, positions] = True
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

    def ask(self, *asked: object, **options: object) -> Marginals:
        raise Unbounded("it looks ahead, and what it sees there decides what it keeps")

    def hide(self, where: Places | Tensor) -> None:
        raise Unbounded("it hides again what it has revealed")


class Lesson(Session):
    """A session whose canvas is taught; an attempt of a sampler's own is not."""

    def __init__(self, denoiser: Denoiser, given: Tensor, luck: Luck, delta: Tensor, truth: Tensor) -> None:
        super().__init__(denoiser, given, luck, delta)
        self.truth = truth

    @cached_property
    def canvas(self) -> TaughtCanvas:
        return TaughtCanvas(self.denoiser, self.tokens, self.luck, self.truth, self.patience, entropies=False)

    @property
    def causal(self) -> Causal:
        raise Unbounded("a causal reader decides what it keeps")

    def attempt(self, rows: Tensor, seed: int) -> Session:
        return Session(self.denoiser, self.given[rows], Luck(seed, self.luck.row_ids[rows]), self.delta, self.name)


def teach(
    denoiser: Denoiser, given: Tensor, truth: Tensor, order: Tensor, luck: Luck, entropies: bool = False
) -> Tensor:
    """(B, L) nats of each token of the truth (B, L), revealed in an order (B, L); 0 of those that are given.

    given (B, L): what there is to start from, V where hidden.
    """
    canvas = TaughtCanvas(denoiser, given.clone(), luck, truth, entropies=entropies)
    for rows, positions, marginals in walk(canvas, order):
        canvas.reveal((rows, positions), canvas.draw(marginals, rows, positions))
    return canvas.nats


def teach_sampler(
    denoiser: Denoiser, given: Tensor, truth: Tensor, sampler: Sampler, delta: Tensor, luck: Luck
) -> Tensor:
    """(B, L) nats of each token of the truth (B, L), on the way to it that a sampler takes: infinite where it has none.

    Raises Unbounded where their sum says nothing of p(x).
    """
    lesson = Lesson(denoiser, given, luck, delta, truth)
    fill(sampler, lesson)
    if not torch.equal(lesson.tokens, truth) or not torch.equal(lesson.canvas.taught, given == denoiser.vocabulary):
        raise Unbounded("not all of its tokens are drawn from its canvas")
    return lesson.canvas.nats


def read(denoiser: Denoiser, truth: Tensor) -> Marginals:
    """What a causal reader says of each token of the truth (B, L) after those before it, row by row."""
    start = torch.full((len(truth), 1), denoiser.vocabulary)
    rows, length = truth.shape
    return as_marginals(denoiser.causal(rows, length).extend(torch.cat([start, truth[:, :-1]], 1)))
