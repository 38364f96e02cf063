"""Adaptive parallel decoding (APD, arXiv 2506.00413; code: danielmisrael/apd): as many from the left as two agree on.

    draft y_1 .. y_K from the marginals d_1 .. d_K of one look at the prefix; read them causally at once: a_1 .. a_K
    t_j ~ d_j^R a_j^(1-R)        keep y_1, and those after it up to the first that t_j would not have drawn as well

Both draw by Gumbel's maxima, from the same noise: what d_j has drawn as v is v for t_j too with probability

    P(both v) / d(v) = 1 / sum_w max(d(w), t(w) d(v) / t(v))

which is what stands here, in place of noise for every symbol; `tests` draws the noise. What is refused is not replaced,
but drafted anew in the next look. So the law is neither that of the AR model, not even at R = 0, nor of one token at a
time, and none is claimed; at R = 1 all is kept at once. The paper has R of 0.1 to 0.9 (`weight`) and windows of 100 to
200 tokens (`lookahead`); its cache of the last W tokens is another model. Steps and schedule are not used.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Stream
from unmask.denoisers import Marginals, as_marginals
from unmask.samplers.autoregressive import read_prompt
from unmask.samplers.contract import CANVAS, CAUSAL, SAMPLERS, Sampler
from unmask.samplers.session import Session
from unmask.samplers.speculation import Drafts


@SAMPLERS.register("apd")
@dataclass(frozen=True)
class AdaptiveParallel(Sampler):
    """APD: the masked model drafts to the right, as far as a mixture with the AR model agrees; steps are not used."""

    reads = CANVAS | CAUSAL
    weight: float = 0.5
    lookahead: int = 32

    def __post_init__(self) -> None:
        arguments.number("weight", self.weight, most=1.0)
        arguments.whole("lookahead", self.lookahead, 1, arguments.MOST_LENGTH)

    def run(self, session: Session) -> None:
        ends = session.valid.sum(1)
        lengths, last = read_prompt(session)
        steps, turn = torch.arange(self.lookahead), 0
        while bool((going := (lengths < ends) & ~session.settled).any()):
            turn += 1
            places = lengths.unsqueeze(1) + steps  # (B, K)
            share = (ends - lengths).double() / ends
            timed = None if session.denoiser.time_free else share
            drafts = Drafts.of(session, places, (places < ends.unsqueeze(1)) & going.unsqueeze(1), timed)
            inside = drafts.inside
            read = torch.cat([last.unsqueeze(1), drafts.tokens[:, :-1]], 1)  # y_K is read when it is kept
            verdict = as_marginals(session.causal.extend(read, inside.sum(1), inside))
            kept = self._kept(session, drafts, verdict)
            row, column = (steps < kept.unsqueeze(1)).nonzero(as_tuple=True)
            chance = torch.ones(places.shape, dtype=torch.float64)
            chance[inside] = drafts.said.of(drafts.tokens[inside])
            session.write(row, drafts.places[row, column], drafts.tokens[row, column], chance[row, column], turn)
            lengths = lengths + kept
            session.causal.rewind(torch.where(going, lengths - 1, lengths))
            newest = drafts.tokens.gather(1, (kept - 1).clamp(min=0).unsqueeze(1)).squeeze(1)
            last = torch.where(kept > 0, newest, last)
            session.check_stop()

    def _kept(self, session: Session, drafts: Drafts, verdict: Marginals) -> Tensor:
        """(B): how many drafts of each row both would have drawn, the first in any case."""
        places, inside, tokens, said, visits = drafts
        u = session.luck.uniform(Stream.ACCEPT, torch.arange(len(places)).unsqueeze(1), places, visits)
        agreed = torch.zeros(places.shape, dtype=torch.bool)
        agreed[inside] = u[inside] < agreement(said, self._mixed(said, verdict), tokens[inside])
        agreed[:, 0] = inside[:, 0]
        return agreed.long().cumprod(1).sum(1)

    def _mixed(self, said: Marginals, verdict: Marginals) -> Marginals:
        """t = d^R a^(1-R), normalised."""
        if self.weight in (0, 1):
            return said if self.weight else verdict
        return said.guided(verdict, self.weight - 1)


def agreement(drawn_from: Marginals, other: Marginals, tokens: Tensor) -> Tensor:
    """(K): the probability that the other law draws the same token (K), by Gumbel's maxima of the same noise."""
    here, there = drawn_from.of(tokens), other.of(tokens)
    possible = there > 0
    share = torch.where(possible, here / torch.where(possible, there, 1.0), 0.0)
    return torch.where(possible, 1 / (1 + other.excess(drawn_from, share)), 0.0)
