"""Autoregression by the causal reader: one token an evaluation, drawn from p(x_j | x_<j). The schedule is not used."""

import torch

from unmask.denoisers.contracts import Finisher
from unmask.samplers.contract import SAMPLERS, Sampler, Session
from unmask.samplers.prompts import read_prompt


@SAMPLERS.register("autoregressive")
class Autoregressive(Sampler):
    """The AR baseline: one token after another; steps and schedule are not used."""

    def run(self, session: Session) -> None:
        lengths, last = read_prompt(session)
        size = session.tokens.shape[1]
        if isinstance(session.causal, Finisher) and not session.uses("canvas"):
            session.order = (torch.arange(1, size + 1) - lengths.unsqueeze(1)).clamp(min=0)
            session.probability = session.causal.finish(last, session.tokens, session.luck)
            return
        visits = torch.zeros_like(session.tokens)
        turn = 0
        while len(rows := (lengths < size).nonzero().squeeze(1)):
            turn += 1
            marginals = session.causal.extend(last.unsqueeze(1), (lengths < size).long())[rows, 0]
            positions = lengths[rows]
            tokens = session.luck.tokens(marginals, rows, positions, visits)
            session.write(rows, positions, tokens, marginals.gather(1, tokens.unsqueeze(1)).squeeze(1), turn)
            last[rows] = tokens
            lengths[rows] += 1
