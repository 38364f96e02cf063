"""Self-speculative sampling (theory.md 10): the masked model drafts in one model call, and verifies in one batch.

The target is the same denoiser with one token at a time, in a uniformly random order pi of the row. In each step, with
R revealed and pi_1 .. pi_K next:

    draft y_1 .. y_K from d_j = p(. | x_R), one model call; compute a_j = p(. | x_R, y_<j) at pi_j in a batch of K - 1
    contexts; keep the verified drafts; y_1 is always kept, since d_1 = a_1

The output distribution is that of N = L, for any drafts. This saves batched calls in sequence, two per step of 2 to K
tokens (`forwards`), but no computation: each context is a model call, K per step. Steps and schedule are not used.

This is any-subset speculative decoding (ASSD, arXiv 2504.20456v1), whose model has the density of all drafts in one
call; a masked model needs one context each. ASSD goes by position and reads given tokens first: order_by="position".
Its distribution is that of one token after another from the left, given all given tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Stream
from unmask.denoisers import Marginals, Table
from unmask.denoisers.contracts import of_rows
from unmask.samplers.contract import SAMPLERS, Sampler, Some
from unmask.samplers.rules.speculative import Drafts, verify
from unmask.samplers.session import Session


@SAMPLERS.register("self-speculative")
@dataclass(frozen=True)
class SelfSpeculative(Sampler):
    """The masked model drafts and verifies itself: the distribution of one token at a time; steps are not used."""

    distribution = "language"
    draft_length: Some = 4
    order_by: str = "chance"

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.word("order", self.order_by, ("chance", "position"))

    def run(self, session: Session) -> None:
        hidden, vocabulary = session.hidden, session.denoiser.vocabulary
        by = session.rng.grid(Stream.ORDER, hidden.shape[1])
        if self.order_by == "position":
            by = torch.arange(hidden.shape[1], dtype=by.dtype).expand(hidden.shape)
        order = torch.where(hidden, by, torch.inf).argsort(dim=1, stable=True)  # pi, then given positions

        total = hidden.sum(1)
        done = torch.zeros_like(total)
        turn = 0
        timeless = session.denoiser.time_free

        while bool((going := (done < total) & ~session.settled).any()):
            turn += 1
            index = done.unsqueeze(1) + torch.arange(self.draft_length)
            inside = (index < total.unsqueeze(1)) & going.unsqueeze(1)
            time = 1 - index.double() / total.clamp(min=1).unsqueeze(1)  # hidden at each decision: the time

            places = order.gather(1, index.clamp(max=order.shape[1] - 1))
            drafts = Drafts.of(session, places, inside, None if timeless else time[:, 0])
            ahead = inside & (torch.arange(self.draft_length) > 0)
            target = _look_ahead(session, drafts, ahead, None if timeless else time)
            accepted, replaced = verify(session, drafts, ahead, target, turn)
            done = done + accepted + (replaced < vocabulary)
            session.check_stop()


def _look_ahead(session: Session, drafts: Drafts, ahead: Tensor, time: Tensor | None) -> Marginals:
    """The marginals of the positions ahead, Bool (B, K), given the drafts before them."""
    rows, columns = ahead.nonzero(as_tuple=True)
    if not len(rows):
        return Table(torch.empty((0, session.denoiser.vocabulary), dtype=torch.float64))
    contexts = session.canvas.tokens[rows]
    for k in range(drafts.places.shape[1] - 1):
        read = (columns > k).nonzero().squeeze(1)
        contexts[read, drafts.places[rows[read], k]] = drafts.tokens[rows[read], k]
    return session.canvas.ask(contexts, rows, drafts.places[ahead], of_rows(time, ahead))
