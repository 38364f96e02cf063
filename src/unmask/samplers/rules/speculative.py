"""Speculative decoding: the masked model drafts, the causal reader verifies (theory.md 10).

    draft y_1..y_K from the marginals d_1..d_K of one model call; read them causally in one call: a_1..a_K+1
    keep the verified drafts (speculation.py), each separately or with verify="block" jointly as a block; if all are
    kept draw one more from a_K+1

The output distribution is exactly that of the AR model, for any drafts. Model calls of both models are counted
separately. The schedule is not used.
"""

from dataclasses import dataclass

import torch

from unmask.core import arguments
from unmask.core.chance import Stream
from unmask.denoisers import as_marginals
from unmask.samplers.contract import CANVAS, CAUSAL, SAMPLERS, Sampler
from unmask.samplers.rules.autoregressive import read_prompt
from unmask.samplers.rules.speculation import Drafts, numbered, verify, verify_jointly
from unmask.samplers.session import Session


@SAMPLERS.register("speculative")
@dataclass(frozen=True)
class Speculative(Sampler):
    """The masked model drafts, the AR model verifies; steps and schedule are not used."""

    distribution = "causal"
    reads = CANVAS | CAUSAL
    draft_length: int = 8
    verify: str = "token"

    def __post_init__(self) -> None:
        arguments.word("way to verify", self.verify, ("token", "block"))
        arguments.whole("draft_length", self.draft_length, 1, arguments.MOST_LENGTH)

    def run(self, session: Session) -> None:
        vocabulary, ends = session.denoiser.vocabulary, session.valid.sum(1)
        lengths, last = read_prompt(session)
        steps, turn = torch.arange(self.draft_length), 0
        while bool((going := (lengths < ends) & ~session.settled).any()):
            turn += 1
            places = lengths.unsqueeze(1) + steps  # (B, K)
            drafts = Drafts.of(session, places, (places < ends.unsqueeze(1)) & going.unsqueeze(1))
            count = drafts.inside.sum(1)  # drafts of a row
            more = going & (lengths + count < ends)  # rows that continue after all drafts
            needed = torch.nn.functional.pad(drafts.inside, (0, 1))  # Bool (B, K+1): after `last`, y_1, .., y_K
            needed.scatter_(1, count.unsqueeze(1), more.unsqueeze(1))
            read = torch.cat([last.unsqueeze(1), drafts.tokens], 1)
            causal = as_marginals(session.causal.extend(read, torch.where(going, count + 1, 0), needed))
            number = numbered(needed)
            target = causal[number[:, :-1][drafts.inside]]
            if self.verify == "block":
                accepted, replaced = verify_jointly(session, drafts, target, turn)
            else:
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
