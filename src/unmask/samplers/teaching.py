"""Likelihood of given sequences: force each draw of a sampler to a true token, and record its cost (theory.md 7.1).

Every draw of the canvas returns the next tokens of x ~ q, while an order or a sampler fills it. So all decisions are
those made on the way to x. If each token is drawn after its position was chosen, and is kept,

    -log p(x) <= E_r[-log p(x | r)] = E_r[sum of -log p(x_j | revealed tokens)],    r the random numbers,

for a fixed order, and for positions chosen by the context. There is no bound if the token decides whether it is
kept (sample, then choose), is hidden again, or is not drawn from the canvas.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from unmask.core.chance import Randomness
from unmask.denoisers import Canvas, Causal, Denoiser, Marginals, as_marginals
from unmask.denoisers.canvas import Places
from unmask.samplers import Sampler, Session, fill, walk


class Unbounded(Exception):
    """Why the cost of a path does not bound the probability of x."""


class TaughtCanvas(Canvas):
    """A canvas that draws the truth (B, L) for any random numbers; `nats` (B, L) is the cost of each token.

    entropies: record the entropy of the marginals in place of the token's surprisal, for an ideal denoiser: the mean
    over x ~ q is equal, and the variance smaller.
    """

    def __init__(
        self,
        denoiser: Denoiser,
        tokens: Tensor,
        rng: Randomness,
        truth: Tensor,
        patience: int | None = None,
        *,
        entropies: bool,
    ) -> None:
        super().__init__(denoiser, tokens, rng, patience=patience)
        self.truth = truth
        self.entropies = entropies
        self.nats = torch.zeros(truth.shape, dtype=torch.float64)
        self.taught = torch.zeros(truth.shape, dtype=torch.bool)
        self._drawn: Places | None = None

    def follow(self, order: Tensor) -> Tensor | None:
        """None: every step goes through `draw`."""
        return None

    def draw(self, marginals: Marginals, rows: Tensor, positions: Tensor) -> Tensor:
        if self._drawn is not None:
            raise Unbounded("it draws tokens and discards them")
        tokens = self.truth[rows, positions]
        self.nats[rows, positions] = marginals.entropy if self.entropies else -marginals.of(tokens).log()
        self.taught[rows, positions] = True
        self._drawn = rows, positions
        return tokens

    def reveal(self, where: Places | Tensor, tokens: Tensor) -> None:
        places = where.nonzero(as_tuple=True) if isinstance(where, Tensor) else where
        same = self._drawn is not None and all(torch.equal(a, b) for a, b in zip(places, self._drawn, strict=True))
        if not same or not torch.equal(tokens, self.truth[places[0], places[1]]):
            raise Unbounded("it writes other tokens than those just drawn")
        self._drawn = None
        super().reveal(where, tokens)

    def ask(self, *contexts: object, **options: object) -> Marginals:
        raise Unbounded("it chooses tokens by looking ahead")

    def hide(self, where: Places | Tensor) -> None:
        raise Unbounded("it hides revealed tokens again")


class Lesson(Session):
    """A session with a taught canvas; attempts that the sampler starts have a usual one."""

    def __init__(self, denoiser: Denoiser, given: Tensor, rng: Randomness, delta: Tensor, truth: Tensor) -> None:
        super().__init__(denoiser, given, rng, delta)
        self.truth = truth

    @cached_property
    def canvas(self) -> TaughtCanvas:
        return TaughtCanvas(self.denoiser, self.tokens, self.rng, self.truth, self.patience, entropies=False)

    @property
    def causal(self) -> Causal:
        raise Unbounded("a causal reader decides which tokens it keeps")

    def attempt(self, rows: Tensor, seed: int) -> Session:
        return Session(self.denoiser, self.given[rows], Randomness(seed, self.rng.row_ids[rows]), self.delta, self.name)


def teach(
    denoiser: Denoiser, given: Tensor, truth: Tensor, order: Tensor, rng: Randomness, entropies: bool = False
) -> Tensor:
    """(B, L) nats of each token of the truth (B, L), revealed in an order (B, L); 0 for given tokens.

    given (B, L): the start, V where hidden.
    """
    canvas = TaughtCanvas(denoiser, given.clone(), rng, truth, entropies=entropies)
    for rows, positions, marginals in walk(canvas, order):
        canvas.reveal((rows, positions), canvas.draw(marginals, rows, positions))
    return canvas.nats


def teach_sampler(
    denoiser: Denoiser, given: Tensor, truth: Tensor, sampler: Sampler, delta: Tensor, rng: Randomness
) -> Tensor:
    """(B, L) nats of each token of the truth (B, L), on the sampler's path to it; infinite where it has no such path.

    Raises Unbounded where their sum does not bound p(x).
    """
    if sampler.removes == "uniform":
        raise Unbounded("it draws every token again in each step")
    lesson = Lesson(denoiser, given, rng, delta, truth)
    fill(sampler, lesson)
    if not torch.equal(lesson.tokens, truth) or not torch.equal(lesson.canvas.taught, given == denoiser.vocabulary):
        raise Unbounded("not all of its tokens are drawn from its canvas")
    return lesson.canvas.nats


def read(denoiser: Denoiser, truth: Tensor) -> Marginals:
    """The marginal of a causal reader for each token of the truth (B, L), given those before it, row by row."""
    start = torch.full((len(truth), 1), denoiser.vocabulary)
    rows, length = truth.shape
    return as_marginals(denoiser.causal(rows, length).extend(torch.cat([start, truth[:, :-1]], 1)))
