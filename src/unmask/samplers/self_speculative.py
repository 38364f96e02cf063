"""Self-speculative sampling (theory.md 10): the masked model drafts in one look, and verifies itself in a batch.

The target is the same denoiser, one token at a time in a uniformly random order pi of the row. In each turn, with R
revealed and pi_1 .. pi_K next:

    draft y_1 .. y_K from d_j = p(. | x_R), one look; evaluate a_j = p(. | x_R, y_<j) at pi_j, K - 1 contexts in a batch
    keep y_j with probability min(1, a_j(y_j) / d_j(y_j)); at the first refusal draw from (a_j - d_j)+ and stop

The output law is that of N = L, whatever the drafts are; y_1 is always kept, since d_1 = a_1. What is saved are batched
calls in a row, two a turn of 2 to K tokens (`forwards`), not work: each context is an evaluation, K a turn.
Steps and schedule are not used.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.chance import Stream, categorical
from unmask.samplers import checks
from unmask.samplers.contract import SAMPLERS, Sampler, Session
from unmask.samplers.speculative import agreed, residual


@SAMPLERS.register("self-speculative")
@dataclass(frozen=True)
class SelfSpeculative(Sampler):
    """The masked model drafts and verifies itself: the law of one token at a time; steps are not used."""

    law = "language"
    draft_length: int = 4

    def __post_init__(self) -> None:
        checks.at_least("draft_length", self.draft_length, 1)

    def run(self, session: Session) -> None:
        hidden = session.given == session.denoiser.vocabulary
        luck = session.luck.grid(Stream.ORDER, hidden.shape[1])
        order = torch.where(hidden, luck, torch.inf).argsort(dim=1, stable=True)  # pi, then what was given
        total = hidden.sum(1)
        done, turn = torch.zeros_like(total), 0
        while bool((done < total).any()):
            turn += 1
            done = self._turn(session, order, done, total, turn)

    def _turn(self, session: Session, order: Tensor, done: Tensor, total: Tensor, turn: int) -> Tensor:
        canvas, vocabulary = session.canvas, session.denoiser.vocabulary
        steps = torch.arange(self.draft_length)
        index = done.unsqueeze(1) + steps
        inside = index < total.unsqueeze(1)
        places = order.gather(1, index.clamp(max=order.shape[1] - 1))  # (B, K)
        rows, columns = inside.nonzero(as_tuple=True)
        positions = places[rows, columns]
        share = 1 - index / total.clamp(min=1).unsqueeze(1)  # hidden when each is decided: the time, where it counts

        visits = canvas.visits.gather(1, places)
        draft = torch.zeros((*places.shape, vocabulary), dtype=torch.float64)
        draft[rows, columns] = canvas.at(rows, positions, None if canvas.time_free else share[:, 0].double()).double()
        drafted = torch.full(places.shape, vocabulary)
        drafted[rows, columns] = canvas.draw(draft[rows, columns], rows, positions)

        ahead = columns > 0
        rows, columns, positions = rows[ahead], columns[ahead], positions[ahead]
        contexts = canvas.tokens[rows]
        for k in range(self.draft_length - 1):
            read = (columns > k).nonzero().squeeze(1)
            contexts[read, places[rows[read], k]] = drafted[rows[read], k]
        target = draft.clone()
        if len(rows):
            time = None if canvas.time_free else share[rows, columns].double()
            target[rows, columns] = canvas.ask(contexts, rows, positions, time).double()

        u = canvas.luck.uniform(Stream.ACCEPT, torch.arange(len(places)).unsqueeze(1), places, visits)
        accepted = agreed(draft, target, drafted, u)
        row, column = (steps < accepted.unsqueeze(1)).nonzero(as_tuple=True)
        self._write(session, row, places[row, column], drafted[row, column], target[row, column], turn)

        row = (accepted < inside.sum(1)).nonzero().squeeze(1)  # where a draft was refused
        at = accepted[row]
        weights = residual(target[row, at], draft[row, at])
        tokens = categorical(weights, canvas.luck.uniform(Stream.RESIDUAL, row, places[row, at]))
        self._write(session, row, places[row, at], tokens, target[row, at], turn)
        done = done + accepted
        done[row] += 1
        return done

    def _write(self, session: Session, rows: Tensor, positions: Tensor, tokens: Tensor, p: Tensor, turn: int) -> None:
        session.write(rows, positions, tokens, p.gather(1, tokens.unsqueeze(1)).squeeze(1), turn)
