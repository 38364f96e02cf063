"""Adaptive parallel decoding (APD, arXiv 2506.00413; code: danielmisrael/apd): drafts for which two models agree.

    draft y_1 .. y_K from the marginals d_1 .. d_K of one model call; read them causally in one call: a_1 .. a_K
    t_j ~ d_j^R a_j^(1-R)        keep y_1, and those after it up to the first that t_j would not have drawn as well

Both draw by Gumbel maxima from the same noise: given that d_j has drawn v, t_j draws v too with probability

    P(both v) / d(v) = 1 / sum_w max(d(w), t(w) d(v) / t(v))

This formula replaces the noise of every symbol; `tests` draws the noise. Rejected drafts are not replaced, but drafted
again in the next step. So the distribution is neither that of the AR model, even at R = 0, nor that of one token at a
time, and the sampler claims none; at R = 1 all drafts are kept. The paper has R from 0.1 to 0.9 (`weight`) and windows
of 100 to 200 tokens (`lookahead`); its cache of the last W tokens is a different model. Steps and schedule are not
used.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Stream
from unmask.denoisers import Marginals, as_marginals
from unmask.samplers import CANVAS, CAUSAL, Drafts, Sampler, Session, read_prompt


@dataclass(frozen=True)
class AdaptiveParallel(Sampler):
    """APD: the masked model drafts as far as a mixture with the AR model agrees; steps are not used."""

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
            fraction = (ends - lengths).double() / ends
            timed = None if session.denoiser.time_free else fraction
            drafts = Drafts.of(session, places, (places < ends.unsqueeze(1)) & going.unsqueeze(1), timed)
            inside = drafts.inside
            read = torch.cat([last.unsqueeze(1), drafts.tokens[:, :-1]], 1)  # y_K is read once it is accepted
            causal = as_marginals(session.causal.extend(read, inside.sum(1), inside))
            accepted = self._accepted(session, drafts, causal)
            row, column = (steps < accepted.unsqueeze(1)).nonzero(as_tuple=True)
            chance = torch.ones(places.shape, dtype=torch.float64)
            chance[inside] = drafts.marginals.of(drafts.tokens[inside])
            session.write(row, drafts.places[row, column], drafts.tokens[row, column], chance[row, column], turn)
            lengths = lengths + accepted
            session.causal.rewind(torch.where(going, lengths - 1, lengths))
            newest = drafts.tokens.gather(1, (accepted - 1).clamp(min=0).unsqueeze(1)).squeeze(1)
            last = torch.where(accepted > 0, newest, last)
            session.check_stop()

    def _accepted(self, session: Session, drafts: Drafts, causal: Marginals) -> Tensor:
        """(B): number of drafts of each row that both models would have drawn, at least the first."""
        places, inside, tokens, marginals, visits = drafts
        u = session.rng.uniform(Stream.ACCEPT, torch.arange(len(places)).unsqueeze(1), places, visits)
        agreed = torch.zeros(places.shape, dtype=torch.bool)
        agreed[inside] = u[inside] < agreement(marginals, self._mixed(marginals, causal), tokens[inside])
        agreed[:, 0] = inside[:, 0]
        return agreed.long().cumprod(1).sum(1)

    def _mixed(self, marginals: Marginals, causal: Marginals) -> Marginals:
        """t = d^R a^(1-R), normalised."""
        if self.weight in (0, 1):
            return marginals if self.weight else causal
        return marginals.guided(causal, self.weight - 1)


def agreement(drawn_from: Marginals, other: Marginals, tokens: Tensor) -> Tensor:
    """(K): the probability that the other distribution draws the same token (K) from the same Gumbel noise."""
    here, there = drawn_from.of(tokens), other.of(tokens)
    possible = there > 0
    ratio = torch.where(possible, here / torch.where(possible, there, 1.0), 0.0)
    return torch.where(possible, 1 / (1 + other.excess(drawn_from, ratio)), 0.0)
