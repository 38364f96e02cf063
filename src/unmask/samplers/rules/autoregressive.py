"""The AR baseline: one token after another, by a causal reader; and the prompts that it reads first."""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.denoisers import as_marginals
from unmask.samplers.contract import CAUSAL, SAMPLERS, Sampler
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
