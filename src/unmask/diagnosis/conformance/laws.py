"""Does the output follow the law that is claimed? Chi-square on languages whose every sequence can be listed.

Each test raises a false alarm with probability 1e-6 or less; what the law makes impossible fails at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.core.pvalues import against_law
from unmask.denoisers import Denoiser
from unmask.diagnosis.conformance.cases import Case
from unmask.generation import Generation
from unmask.metrics import sequences
from unmask.samplers.contract import Law

ALARM = 1e-6


def p_value(made: Generation, case: Case, law: Law, delta: Tensor) -> float:
    if law == "order":
        return by_order(made, case.denoiser)
    every = sequences(case.denoiser.vocabulary, case.length)
    if law == "causal":
        claimed = causal_law(case.denoiser, every)
    elif law == "language":
        claimed = case.language.log_prob(every).exp()
    elif callable(law):
        claimed = law(case.denoiser, case.length, delta).double()
        if claimed.shape != (len(every),) or abs(float(claimed.sum()) - 1) > 1e-6 or bool((claimed < 0).any()):
            what = f"shape {tuple(claimed.shape)} and sum {float(claimed.sum()):.6g}"
            raise UnmaskError(f"the law on {case.name} has {what}; expected {len(every)} probabilities")
    else:
        raise UnmaskError(f"the law is {law!r}; expected order, causal, language or a function")
    return against_law(torch.bincount(code(made.tokens, case.denoiser.vocabulary), minlength=len(every)), claimed)


def causal_law(denoiser: Denoiser, every: Tensor) -> Tensor:
    """prod_j p(x_j | x_<j) of sequences (K, L)."""
    law = torch.ones(len(every), dtype=torch.float64)
    for j in range(every.shape[1]):
        prefix = torch.where(torch.arange(every.shape[1]) < j, every, denoiser.vocabulary)
        law *= denoiser.probabilities(prefix, torch.tensor([j]))[:, 0].gather(1, every[:, j, None]).squeeze(1)
    return law


def by_order(made: Generation, denoiser: Denoiser) -> float:
    """Of the tokens, given where each round revealed them.

    What a round writes at places M in context x_R has law prod_{j in M} p(x_j | x_R), where M was chosen before: all
    together, so that places of one round that know of each other show. Expected counts of different M are pooled with
    one degree of freedom taken off for all of them, which errs on the side of the sampler.
    """
    length, vocabulary = made.tokens.shape[1], denoiser.vocabulary
    moves = []
    for turn in range(1, int(made.order.max()) + 1):
        now = made.order == turn
        context = torch.where(made.order < turn, made.tokens, vocabulary)
        moves.append(torch.stack([context, now.long(), made.tokens], 1)[now.any(1)])
    context, now, tokens = torch.cat(moves).unbind(1)
    keys, which = (code(context, vocabulary + 1) * 2**length + code(now, 2)).unique(return_inverse=True)
    member = torch.zeros_like(keys).scatter_(0, which, torch.arange(len(which)))  # one of each group
    marginals = denoiser.probabilities(context[member])
    codes = (tokens * now * vocabulary ** (now.cumsum(1) - 1).clamp(min=0)).sum(1)
    seen, wanted = [], []
    for group, members in enumerate(codes[which.argsort()].split(which.bincount().tolist())):
        law = torch.ones(1, dtype=torch.float64)
        for j in now[member[group]].nonzero().squeeze(1):
            law = torch.outer(marginals[group, j], law).reshape(-1)
        seen.append(members.bincount(minlength=len(law)))
        wanted.append(len(members) * law)
    expected = torch.cat(wanted)
    return against_law(torch.cat(seen), expected / expected.sum())


def code(tokens: Tensor, vocabulary: int) -> Tensor:
    """Each sequence (B, L) as a number: its place in `sequences`."""
    return tokens @ (vocabulary ** torch.arange(tokens.shape[1] - 1, -1, -1))
