"""Informed correctors (arXiv 2407.21243v4): between rounds of a random order, the least likely tokens are drawn again.

    predict   reveal s_k positions, uniformly chosen, as fixed-size does
    correct   `correctors` times: of all that stands and was not given, hide the `places` with the lowest c_j and draw
              them anew, all of them from what is said of each given all others before ("Hogwild" Gibbs)

    confidence  c_j = log p(x_j | x_(R - j))        margin  c_j = that, less the largest of the others' log p(v | ..)

Gumbel noise times `noise` is added to c_j before the lowest are chosen: 0 takes the worst, much of it takes any, and
with one place at a time that is a Gibbs sampler, which leaves the model's law as it is. To choose by what stands there
does not, and no law is claimed. The paper has a hollow transformer, which says p(x_j | x_(R - j)) of every place in one
evaluation, as exact denoisers do; with any other each place that stands is one. Each step is an evaluation more.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import MAX_VISIT, Stream
from unmask.denoisers import Marginals
from unmask.samplers.contract import SAMPLERS, Sampler
from unmask.samplers.session import Session
from unmask.schedules import orders

SCORES = ("confidence", "margin")
LEAST = 1e-300  # of a probability whose logarithm is taken


@SAMPLERS.register("informed-corrector")
@dataclass(frozen=True)
class InformedCorrector(Sampler):
    """A random order, and after each round the least likely tokens once more, given all others."""

    revises = True
    correctors: int = 1
    places: int = 4
    score: str = "margin"
    noise: float = 0.0

    def __post_init__(self) -> None:
        arguments.whole("correctors", self.correctors, 0, MAX_VISIT // 2)
        arguments.whole("places", self.places, 1, arguments.MOST_LENGTH)
        arguments.word("score", self.score, SCORES)
        arguments.number("noise", self.noise)

    def run(self, session: Session) -> None:
        canvas = session.canvas
        order = orders.shuffled(session.delta, session.hidden, session.luck)
        turn = torch.zeros_like(session.lengths)  # (B): rounds and corrections so far
        for rows, positions in orders.rounds(order):
            going = ~session.settled[rows]
            rows, positions = rows[going], positions[going]
            share = canvas.hidden.sum(1).double() / canvas.lengths
            said = canvas.at(rows, positions, None if canvas.time_free else share)
            turn[rows.unique()] += 1
            tokens = canvas.draw(said, rows, positions)
            session.write(rows, positions, tokens, said.of(tokens), turn[rows])
            session.check_stop()
            now = torch.zeros_like(session.settled).index_fill_(0, rows, True)
            for _ in range(self.correctors):
                self._correct(session, now & ~session.settled, turn)
                session.check_stop()

    def _correct(self, session: Session, now: Tensor, turn: Tensor) -> None:
        """Draw the worst places of these rows, Bool (B), again."""
        canvas = session.canvas
        standing = session.hidden & ~canvas.hidden & now.unsqueeze(1)
        rows, positions = standing.nonzero(as_tuple=True)
        if not len(rows):
            return
        said = canvas.around(rows, positions)
        turn += now
        noise = session.luck.uniform(Stream.TIE, rows, positions, turn[rows])
        scores = torch.full(standing.shape, torch.inf, dtype=torch.float64)
        scores[rows, positions] = self._scores(said, canvas.tokens[rows, positions]) - self.noise * (-noise.log()).log()
        scores = (scores / said.resolution).round()
        first = torch.ones_like(scores)
        first[rows, positions] = noise
        by_chance = first.argsort(dim=1)
        place = by_chance.gather(1, scores.gather(1, by_chance).argsort(dim=1, stable=True)).argsort(dim=1)
        chosen = (place[rows, positions] < self.places).nonzero().squeeze(1)
        rows, positions, said = rows[chosen], positions[chosen], said[chosen]
        tokens = canvas.draw(said, rows, positions)
        session.hide(rows, positions, turn[rows])
        session.write(rows, positions, tokens, said.of(tokens), turn[rows])

    def _scores(self, said: Marginals, tokens: Tensor) -> Tensor:
        """c_j (K) of the tokens (K) that stand."""
        own, top = said.of(tokens), said.confidence
        if self.score == "confidence":
            return own.clamp(min=LEAST).log()
        rival = torch.where(tokens == said.best, top - said.margin, top)
        return own.clamp(min=LEAST).log() - rival.clamp(min=LEAST).log()
