"""Informed correctors (arXiv 2407.21243v4): between steps of a random order, the least likely tokens are redrawn.

    predict   reveal s_k positions, uniformly chosen, like fixed-size
    correct   `correctors` times: of all revealed tokens that were not given, hide the `places` with the lowest c_j and
              redraw them, each from its marginal given all others before ("Hogwild" Gibbs)

    confidence  c_j = log p(x_j | x_(R - j))        margin  c_j = that, less the largest of the others' log p(v | ..)

Gumbel noise times `noise` is added to c_j before the lowest are chosen. 0 takes the worst, large noise takes any; with
one position at a time that is a Gibbs sampler, which preserves the model's distribution. Choosing by the revealed
tokens does not, and the sampler claims no distribution. The paper has a hollow transformer, which gives
p(x_j | x_(R - j)) of every position in one model call, like exact denoisers; others need one call per revealed
position. Each corrector step is one more model call.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import MAX_VISIT, Stream
from unmask.denoisers import Marginals
from unmask.samplers import Sampler, Session, orders
from unmask.samplers.rules.fixed_orders import FixedSize

SCORES = ("confidence", "margin")
LEAST = 1e-300  # of a probability whose logarithm is taken


@dataclass(frozen=True)
class InformedCorrector(Sampler):
    """A random order, and after each step the least likely tokens are redrawn, given all others."""

    revises = True
    chooses_before_drawing = True
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
        order = FixedSize().order(session.delta, session.hidden, session.rng)
        turn = torch.zeros_like(session.lengths)  # (B): steps and corrections so far
        for rows, positions in orders.steps(order):
            going = ~session.settled[rows]
            rows, positions = rows[going], positions[going]
            fraction = canvas.hidden.sum(1).double() / canvas.lengths
            marginals = canvas.at(rows, positions, None if canvas.time_free else fraction)
            turn[rows.unique()] += 1
            tokens = canvas.draw(marginals, rows, positions)
            session.write(rows, positions, tokens, marginals.of(tokens), turn[rows])
            session.check_stop()
            now = torch.zeros_like(session.settled).index_fill_(0, rows, True)
            for _ in range(self.correctors):
                self._correct(session, now & ~session.settled, turn)
                session.check_stop()

    def _correct(self, session: Session, now: Tensor, turn: Tensor) -> None:
        """Redraw the worst positions of these rows, Bool (B)."""
        canvas = session.canvas
        revealed = session.hidden & ~canvas.hidden & now.unsqueeze(1)
        rows, positions = revealed.nonzero(as_tuple=True)
        if not len(rows):
            return
        marginals = canvas.around(rows, positions)
        turn += now
        noise = session.rng.uniform(Stream.TIE, rows, positions, turn[rows])
        scores = torch.full(revealed.shape, torch.inf, dtype=torch.float64)
        gumbel = self.noise * (-noise.log()).log()
        scores[rows, positions] = self._scores(marginals, canvas.tokens[rows, positions]) - gumbel
        scores = (scores / marginals.resolution).round()
        first = torch.ones_like(scores)
        first[rows, positions] = noise
        by_chance = first.argsort(dim=1)
        place = by_chance.gather(1, scores.gather(1, by_chance).argsort(dim=1, stable=True)).argsort(dim=1)
        chosen = (place[rows, positions] < self.places).nonzero().squeeze(1)
        rows, positions, marginals = rows[chosen], positions[chosen], marginals[chosen]
        tokens = canvas.draw(marginals, rows, positions)
        session.hide(rows, positions, turn[rows])
        session.write(rows, positions, tokens, marginals.of(tokens), turn[rows])

    def _scores(self, marginals: Marginals, tokens: Tensor) -> Tensor:
        """c_j (K) of the revealed tokens (K)."""
        own, top = marginals.of(tokens), marginals.confidence
        if self.score == "confidence":
            return own.clamp(min=LEAST).log()
        rival = torch.where(tokens == marginals.best, top - marginals.margin, top)
        return own.clamp(min=LEAST).log() - rival.clamp(min=LEAST).log()
