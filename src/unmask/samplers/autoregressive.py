"""Autoregression by the causal reader: one token an evaluation, drawn from p(x_j | x_<j). The schedule is not used."""

import torch

from unmask.denoisers import as_marginals
from unmask.samplers.contract import CAUSAL, SAMPLERS, Sampler
from unmask.samplers.prompts import read_prompt
from unmask.samplers.session import Session


@SAMPLERS.register("autoregressive")
class Autoregressive(Sampler):
    """The AR baseline: one token after another; steps and schedule are not used."""

    law = "causal"
    reads = CAUSAL

    def run(self, session: Session) -> None:
        lengths, last = read_prompt(session)
        ends = session.valid.sum(1)
        size = session.tokens.shape[1]
        if session.stop is None and not session.uses("canvas") and bool((ends == size).all()):
            probability = session.causal.finish(last, session.tokens, session.luck)
            if probability is not None:
                session.order = (torch.arange(1, size + 1) - lengths.unsqueeze(1)).clamp(min=0)
                session.probability = probability
                return
        visits = torch.zeros_like(session.tokens)
        turn = 0
        while bool((going := (lengths < ends) & ~session.settled).any()):
            turn += 1
            rows = going.nonzero().squeeze(1)
            said = as_marginals(session.causal.extend(last.unsqueeze(1), going.long(), going.unsqueeze(1)))
            positions = lengths[rows]
            tokens = session.luck.tokens(said, rows, positions, visits)
            session.write(rows, positions, tokens, said.of(tokens), turn)
            last[rows] = tokens
            lengths[rows] += 1
            session.check_stop()
