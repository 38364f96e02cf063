"""Speculative decoding: the masked model drafts, the causal reader verifies (theory.md 10).

    draft y_1..y_K from the marginals d_1..d_K of one model call; read them causally in one call: a_1..a_K+1
    keep y_j with probability min(1, a_j(y_j) / d_j(y_j)); at the first rejection draw from (a_j - d_j)+ and stop
    if all are kept draw one more from a_K+1

The output distribution is exactly that of the AR model, for any drafts. Model calls of both models are counted
separately. The schedule is not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from unmask.core.chance import Stream
from unmask.denoisers import Marginals, as_marginals
from unmask.samplers.contract import CANVAS, CAUSAL, SAMPLERS, Sampler, Some
from unmask.samplers.rules.autoregressive import read_prompt
from unmask.samplers.session import Session


class Drafts(NamedTuple):
    """K drafted positions of each row in the order in which they are decided."""

    places: Tensor  # (B, K)
    inside: Tensor  # Bool (B, K): the existing ones, which come first in a row
    tokens: Tensor  # (B, K), V elsewhere
    marginals: Marginals  # of the positions inside, row by row: the distributions of the drafts
    visits: Tensor  # (B, K): earlier draws there

    @classmethod
    def of(cls, session: Session, places: Tensor, inside: Tensor, time: Tensor | None = None) -> Drafts:
        """Draw drafts in one model call; the positions of a row must not repeat."""
        canvas = session.canvas
        places = torch.where(inside, places, 0)
        rows = inside.nonzero(as_tuple=True)[0]
        visits = canvas.visits.gather(1, places)
        marginals = canvas.at(rows, places[inside], time)
        tokens = torch.full(places.shape, canvas.vocabulary)
        tokens[inside] = canvas.draw(marginals, rows, places[inside])
        return cls(places, inside, tokens, marginals, visits)


def numbered(mask: Tensor) -> Tensor:
    """(B, K): where mask, Bool (B, K), is true, the count of earlier true entries, row by row."""
    return mask.reshape(-1).cumsum(0).view_as(mask) - 1


def verify(session: Session, drafts: Drafts, checked: Tensor, target: Marginals, turn: int) -> tuple[Tensor, Tensor]:
    """Write the accepted drafts in this step, and a replacement of the first rejected one.

    Return the number of accepted drafts of each row (B), and the replacement (B), V where all are accepted.

    checked, Bool (B, K): the positions that the target covers, row by row; all others are accepted.
    """
    places, inside, tokens, sources, visits = drafts
    u = session.rng.uniform(Stream.ACCEPT, torch.arange(len(places)).unsqueeze(1), places, visits)
    chance = torch.zeros(places.shape, dtype=torch.float64)
    chance[inside] = sources.of(tokens[inside])

    keep = inside.clone()
    expected = target.of(tokens[checked])
    keep[checked] = u[checked] * chance[checked] < expected
    chance[checked] = expected
    accepted = keep.long().cumprod(1).sum(1)
    row, column = (torch.arange(places.shape[1]) < accepted.unsqueeze(1)).nonzero(as_tuple=True)
    session.write(row, places[row, column], tokens[row, column], chance[row, column], turn)

    replaced = torch.full_like(accepted, session.denoiser.vocabulary)
    row = (accepted < inside.sum(1)).nonzero().squeeze(1)
    if len(row):
        column = accepted[row]
        distribution = target[numbered(checked)[row, column]]
        rest = distribution.beyond(sources[numbered(inside)[row, column]])
        positions = places[row, column]
        replaced[row] = rest.draw(session.rng.uniform(Stream.RESIDUAL, row, positions))
        session.write(row, positions, replaced[row], distribution.of(replaced[row]), turn)
    return accepted, replaced


@SAMPLERS.register("speculative")
@dataclass(frozen=True)
class Speculative(Sampler):
    """The masked model drafts, the AR model verifies; steps and schedule are not used."""

    distribution = "causal"
    reads = CANVAS | CAUSAL
    draft_length: Some = 8

    def run(self, session: Session) -> None:
        vocabulary = session.denoiser.vocabulary
        ends = session.valid.sum(1)
        steps = torch.arange(self.draft_length)
        lengths, last = read_prompt(session)
        turn = 0

        while bool((going := (lengths < ends) & ~session.settled).any()):
            turn += 1
            places = lengths.unsqueeze(1) + steps  # (B, K)
            drafts = Drafts.of(session, places, (places < ends.unsqueeze(1)) & going.unsqueeze(1))

            # the causal marginals that are needed: of each draft, and one more where all drafts may be kept
            count = drafts.inside.sum(1)  # drafts of a row
            more = going & (lengths + count < ends)  # rows that continue after all drafts
            needed = torch.nn.functional.pad(drafts.inside, (0, 1))  # Bool (B, K+1): after `last`, y_1, .., y_K
            needed.scatter_(1, count.unsqueeze(1), more.unsqueeze(1))
            read = torch.cat([last.unsqueeze(1), drafts.tokens], 1)
            causal = as_marginals(session.causal.extend(read, torch.where(going, count + 1, 0), needed))
            number = numbered(needed)
            target = causal[number[:, :-1][drafts.inside]]
            accepted, replaced = verify(session, drafts, drafts.inside, target, turn)
            lengths = lengths + accepted

            row = (more & (accepted == count)).nonzero().squeeze(1)
            if len(row):
                distribution = causal[number[row, count[row]]]
                replaced[row] = distribution.draw(session.rng.uniform(Stream.RESIDUAL, row, lengths[row]))
                session.write(row, lengths[row], replaced[row], distribution.of(replaced[row]), turn)

            session.causal.rewind(lengths)
            written = replaced < vocabulary
            last = torch.where(written, replaced, last)
            lengths = lengths + written
            session.check_stop()
