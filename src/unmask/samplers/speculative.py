"""Speculative decoding: the masked model drafts, the causal reader verifies (theory.md 10).

    draft y_1..y_K from the marginals d_1..d_K of one look at the prefix; read them causally at once: a_1..a_K+1
    accept y_j with probability min(1, a_j(y_j) / d_j(y_j)); at the first refusal draw from (a_j - d_j)+ and stop;
    if all are accepted draw one more from a_K+1.

The output law is the AR law exactly, whatever the drafts are. Evaluations of draft and verifier are counted apart. The
schedule is not used.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.chance import Stream, categorical
from unmask.samplers import checks
from unmask.samplers.contract import SAMPLERS, Sampler, Session
from unmask.samplers.prompts import read_prompt


@SAMPLERS.register("speculative")
@dataclass(frozen=True)
class Speculative(Sampler):
    """The masked model drafts, the AR model verifies; steps and schedule are not used."""

    draft_length: int = 8

    def __post_init__(self) -> None:
        checks.at_least("draft_length", self.draft_length, 1)

    def run(self, session: Session) -> None:
        lengths, last = read_prompt(session)
        turn = 0
        while bool((lengths < session.tokens.shape[1]).any()):
            turn += 1
            lengths, last = self._turn(session, lengths, last, turn)

    def _turn(self, session: Session, lengths: Tensor, last: Tensor, turn: int) -> tuple[Tensor, Tensor]:
        canvas, size = session.canvas, session.tokens.shape[1]
        steps = torch.arange(self.draft_length)
        places = lengths.unsqueeze(1) + steps  # (B, K)
        inside = places < size
        rows, columns = inside.nonzero(as_tuple=True)
        positions = places[rows, columns]
        drafted = torch.full(places.shape, canvas.vocabulary)
        draft = torch.zeros((*places.shape, canvas.vocabulary), dtype=torch.float64)
        visits = canvas.visits.gather(1, places.clamp(max=size - 1))
        draft[rows, columns] = canvas.at(rows, positions).double()
        drafted[rows, columns] = canvas.draw(draft[rows, columns], rows, positions)

        asked = inside.sum(1)  # drafts of a row; a row that is complete asks for none
        read = torch.cat([last.unsqueeze(1), drafted], 1)
        verdict = session.causal.extend(read, torch.where(asked > 0, asked + 1, 0))  # (B, K+1, V)
        u = canvas.luck.uniform(Stream.ACCEPT, torch.arange(len(places)).unsqueeze(1), places, visits)
        accepted = agreed(draft, verdict, drafted, u)

        kept = inside & (steps < accepted.unsqueeze(1))
        row, column = kept.nonzero(as_tuple=True)
        tokens = drafted[row, column]
        probability = verdict[row, column].gather(1, tokens.unsqueeze(1)).squeeze(1)
        session.write(row, places[row, column], tokens, probability, turn)

        lengths = lengths + accepted
        row = ((asked > 0) & (lengths < size)).nonzero().squeeze(1)  # where one more token follows
        after = accepted[row]
        target = verdict[row, after]
        stopped = (after < asked[row]).unsqueeze(1)
        ours = draft[row, after.clamp(max=self.draft_length - 1)]
        weights = torch.where(stopped, residual(target, ours), target)
        tokens = categorical(weights, canvas.luck.uniform(Stream.RESIDUAL, row, lengths[row]))
        session.write(row, lengths[row], tokens, target.gather(1, tokens.unsqueeze(1)).squeeze(1), turn)

        session.causal.rewind(lengths)
        last = last.clone()
        last[row] = tokens
        lengths = lengths.clone()
        lengths[row] += 1
        return lengths, last


def agreed(draft: Tensor, target: Tensor, drafted: Tensor, u: Tensor) -> Tensor:
    """(B) how many of drafted (B, K), V where there is none, come before the first refusal.

    Marginals (B, K.., V), u (B, K) uniform: y_j is kept with probability min(1, a_j(y_j) / d_j(y_j)).
    """
    known = drafted < draft.shape[-1]
    tokens = torch.where(known, drafted, 0).unsqueeze(-1)
    ours, theirs = (marginals.gather(2, tokens).squeeze(-1) for marginals in (draft, target))
    return ((u * ours < theirs) & known).long().cumprod(1).sum(1)


def residual(target: Tensor, draft: Tensor) -> Tensor:
    """(a - d)+: the mass that the target has over the draft, which no accepted draft has delivered."""
    return (target - draft).clamp(min=0)
