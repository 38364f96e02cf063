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
from unmask.samplers import Sampler, Session, fill, walk
from unmask.samplers.joint import Joint


class Unbounded(Exception):
    """Why the cost of a path does not bound the probability of x."""


class TaughtCanvas(Canvas):
    """A canvas that draws the truth (B, L) for any random numbers; `nats` (B, L): the cost of each token, or NaN.

    entropies: record the entropy of the marginals in place of the token's surprisal, for an ideal denoiser: the mean
    over x ~ q is equal, and the variance smaller.
    """

    truth: Tensor
    entropies = False

    @cached_property
    def nats(self) -> Tensor:
        return torch.full(self.truth.shape, torch.nan, dtype=torch.float64)

    def follow(self, order: Tensor) -> Tensor | None:
        """None: every step goes through `draw`."""
        return None

    def draw(self, marginals: Marginals, rows: Tensor, positions: Tensor) -> Tensor:
        tokens = self.truth[rows, positions]
        surprisal = -marginals.of(tokens).double().nan_to_num(0.0).log()
        self.nats[rows, positions] = marginals.entropy if self.entropies else surprisal
        return tokens


class Lesson(Session):
    """A session that writes only drawn tokens of the truth; attempts that the sampler starts are usual ones.

    strict: a draw that is discarded, or a model call for another context, is an error, too.
    """

    canvas_kind = TaughtCanvas

    def __init__(
        self,
        denoiser: Denoiser,
        given: Tensor,
        rng: Randomness,
        delta: Tensor,
        truth: Tensor,
        *,
        strict: bool,
        name: str = "the sampler",
        joint: Joint | None = None,
    ) -> None:
        super().__init__(denoiser, given, rng, delta, name, joint=joint)
        self.truth, self.strict = truth, strict

    @cached_property
    def canvas(self) -> TaughtCanvas:
        canvas = super().canvas
        assert isinstance(canvas, TaughtCanvas)
        canvas.truth = self.truth
        return canvas

    @property
    def causal(self) -> Causal:
        raise Unbounded("a causal reader decides which tokens it keeps")

    def draw(self, marginals: Marginals, rows: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """With a joint draw the tokens of a step have one cost, -log J, of which each has an equal part."""
        if self.joint is None:
            return super().draw(marginals, rows, positions)
        tokens = self.truth[rows, positions]
        log = torch.zeros(len(self.truth), dtype=torch.float64)

        # a text that an earlier step cannot write has probability 0, and no completion to ask for
        possible = ~self.canvas.nats.isposinf().any(1)[rows]
        if bool(possible.any()):
            log = self.together.log_probability(rows[possible], positions[possible], self.truth)
        self.canvas.nats[rows, positions] = (-log / rows.bincount(minlength=len(log)))[rows]
        return tokens, marginals.of(tokens)

    def attempt(self, rows: Tensor, seed: int) -> Session:
        return Session(self.denoiser, self.given[rows], Randomness(seed, self.rng.row_ids[rows]), self.delta, self.name)

    def put(self, rows: Tensor, positions: Tensor, tokens: Tensor, probability: Tensor, steps: Tensor | int) -> None:
        nats = self.canvas.nats
        if bool(((tokens != self.truth[rows, positions]) | nats[rows, positions].isnan()).any()):
            raise Unbounded("it writes tokens that it did not draw")
        super().put(rows, positions, tokens, torch.ones_like(probability), steps)

        discarded = self.canvas.hidden & ~nats.isnan()
        if self.strict and bool(discarded.any()):
            raise Unbounded("it draws tokens and discards them")
        if self.strict and bool(self.canvas.contexts.any()):
            raise Unbounded("it chooses tokens by looking ahead")
        nats[discarded] = torch.nan

    def hide(self, rows: Tensor, positions: Tensor, steps: Tensor | int) -> None:
        raise Unbounded("it hides revealed tokens again")


def teach(
    denoiser: Denoiser, given: Tensor, truth: Tensor, order: Tensor, rng: Randomness, entropies: bool = False
) -> Tensor:
    """(B, L) nats of each token of the truth (B, L), revealed in an order (B, L); 0 for given tokens.

    given (B, L): the start, V where hidden.
    """
    canvas = TaughtCanvas(denoiser, given.clone(), rng)
    canvas.truth, canvas.entropies = truth, entropies
    for rows, positions, marginals in walk(canvas, order):
        canvas.reveal((rows, positions), canvas.draw(marginals, rows, positions))
    return canvas.nats.nan_to_num(0.0, posinf=torch.inf)


def teach_sampler(
    denoiser: Denoiser, given: Tensor, truth: Tensor, sampler: Sampler, delta: Tensor, rng: Randomness
) -> Tensor:
    """(B, L) nats of each token of the truth (B, L), on the sampler's path to it; infinite where it has no such path.

    Raises Unbounded where their sum does not bound p(x).
    """
    if sampler.removes == "uniform":
        raise Unbounded("it draws every token again in each step")

    lesson = Lesson(denoiser, given, rng, delta, truth, strict=True)
    fill(sampler, lesson)

    nats = lesson.canvas.nats
    if not torch.equal(lesson.tokens, truth) or not torch.equal(~nats.isnan(), given == denoiser.vocabulary):
        raise Unbounded("not all of its tokens are drawn from its canvas")
    return torch.where(nats.isnan(), 0.0, nats)


def read(denoiser: Denoiser, truth: Tensor) -> Marginals:
    """The marginal of a causal reader for each token of the truth (B, L), given those before it, row by row."""
    start = torch.full((len(truth), 1), denoiser.vocabulary)
    rows, length = truth.shape
    return as_marginals(denoiser.causal(rows, length).extend(torch.cat([start, truth[:, :-1]], 1)))
