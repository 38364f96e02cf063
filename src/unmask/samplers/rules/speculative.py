"""Verification of drafts: keep them up to the first rejection, which is replaced (theory.md 10).

    keep y_j with probability min(1, a_j(y_j) / d_j(y_j)); at the first rejection draw from (a_j - d_j)+ and stop

d_j is the distribution of the draft and a_j the target. The output follows the target distribution for any drafts.

Speculative decoding: the masked model drafts, the causal reader verifies (theory.md 10).

    draft y_1..y_K from the marginals d_1..d_K of one model call; read them causally in one call: a_1..a_K+1
    keep the verified drafts; if all are kept draw one more from a_K+1

The output distribution is exactly that of the AR model, for any drafts. Model calls of both models are counted
separately. The schedule is not used.

Self-speculative sampling (theory.md 10): the masked model drafts in one model call, and verifies in one batch.

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
from typing import NamedTuple

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Stream
from unmask.core.errors import UnmaskError
from unmask.denoisers import Marginals, Table, as_marginals
from unmask.denoisers.contracts import of_rows
from unmask.samplers.contract import CANVAS, CAUSAL, SAMPLERS, Sampler, Some
from unmask.samplers.session import Session


@SAMPLERS.register("autoregressive")
class Autoregressive(Sampler):
    """The AR baseline: one token after another; steps and schedule are not used."""

    distribution = "causal"
    reads = CAUSAL

    def run(self, session: Session) -> None:
        lengths, last = read_prompt(session)
        ends = session.valid.sum(1)
        size = session.tokens.shape[1]

        if session.stop is None and not session.uses("canvas") and bool((ends == size).all()):
            probability = session.causal.finish(last, session.tokens, session.rng)
            if probability is not None:
                session.order = (torch.arange(1, size + 1) - lengths.unsqueeze(1)).clamp(min=0)
                session.probability = probability
                return

        visits = torch.zeros_like(session.tokens)
        turn = 0
        while bool((going := (lengths < ends) & ~session.settled).any()):
            turn += 1
            rows = going.nonzero().squeeze(1)
            marginals = as_marginals(session.causal.extend(last.unsqueeze(1), going.long(), going.unsqueeze(1)))
            positions = lengths[rows]
            tokens = session.rng.tokens(marginals, rows, positions, visits)
            session.write(rows, positions, tokens, marginals.of(tokens), turn)

            last[rows] = tokens
            lengths[rows] += 1
            session.check_stop()


def read_prompt(session: Session) -> tuple[Tensor, Tensor]:
    """Read the given prefixes: (their lengths (B), the last token (B) of each, which is not yet read)."""
    vocabulary = session.denoiser.vocabulary
    shown = (session.given != vocabulary) & session.valid
    lengths = shown.sum(1)
    prefix = torch.arange(shown.shape[1]) < lengths.unsqueeze(1)
    if not bool((shown == prefix).all()):
        row = int((shown != prefix).any(1).int().argmax())
        raise UnmaskError(f"row {row} has given tokens after a hidden one; expected a prefix for autoregression")

    start = torch.full((len(lengths), 1), vocabulary)
    whole = torch.cat([start, session.given], 1)
    if bool((lengths > 0).any()):
        read = whole[:, : int(lengths.max())]
        session.causal.extend(read, lengths, torch.zeros_like(read, dtype=torch.bool))
    return lengths, whole.gather(1, lengths.unsqueeze(1)).squeeze(1)


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
        hidden = session.hidden
        vocabulary = session.denoiser.vocabulary
        by = session.rng.grid(Stream.ORDER, hidden.shape[1])
        if self.order_by == "position":
            by = torch.arange(hidden.shape[1], dtype=by.dtype).expand(hidden.shape)
        order = torch.where(hidden, by, torch.inf).argsort(dim=1, stable=True)  # pi, then given positions

        total = hidden.sum(1)
        done = torch.zeros_like(total)
        turn = 0

        while bool((going := (done < total) & ~session.settled).any()):
            turn += 1
            index = done.unsqueeze(1) + torch.arange(self.draft_length)
            inside = (index < total.unsqueeze(1)) & going.unsqueeze(1)
            fraction = 1 - index.double() / total.clamp(min=1).unsqueeze(1)  # hidden at each decision: the time
            timed = not session.denoiser.time_free

            places = order.gather(1, index.clamp(max=order.shape[1] - 1))
            drafts = Drafts.of(session, places, inside, fraction[:, 0] if timed else None)
            ahead = inside & (torch.arange(self.draft_length) > 0)
            target = _look_ahead(session, drafts, ahead, fraction if timed else None)
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
