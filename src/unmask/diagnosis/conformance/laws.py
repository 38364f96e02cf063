"""Does the output follow the law that is claimed? A bet against it, on languages whose every sequence can be listed.

Whoever bets on other laws of what comes next multiplies his stake by q'(x) / q(x), whose mean under the claim q is 1
whatever was seen before and however the places were chosen by it. So by Markov's inequality a fortune of 1 / p has
probability p at most: for skewed laws and rare cells too, where a chi-square is no chi-square. The fortune is the mean
over bettors: those on q at another temperature, and those who learn each law as they go, from Dirichlet(A q).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.denoisers import Denoiser
from unmask.diagnosis.conformance.cases import Case
from unmask.generation import Generation
from unmask.metrics import sequences
from unmask.samplers.contract import Law

ALARM = 1e-6
TEMPERATURES = (0.25, 0.5, 0.8, 0.9, 1.1, 1.25, 2.0, 4.0)
BELIEFS = (3.0, 30.0, 300.0, 3000.0)  # A: how many draws the claim is worth to those who learn


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
    counts = torch.bincount(code(made.tokens, case.denoiser.vocabulary), minlength=len(every))
    return against_laws(counts, claimed, torch.zeros_like(counts))


def against_laws(counts: Tensor, laws: Tensor, groups: Tensor) -> float:
    """P(so much evidence) at most, of counts (C) whose cells are those of several laws (C), by group (C) from 0.

    0 where something impossible has occurred.
    """
    if bool((counts[laws <= 0] > 0).any()):
        return 0.0
    possible = laws > 0
    seen, law, group = counts[possible].double(), laws[possible].double(), groups[possible]

    def total(values: Tensor) -> Tensor:
        """Over each group."""
        return torch.zeros(int(group.max()) + 1, dtype=torch.float64).index_add_(0, group, values)

    logs, size = law.log() - total(law).log()[group], total(seen)
    fortunes = []
    for heat in TEMPERATURES:
        bent = logs / heat
        fortunes.append(seen @ (bent - total(bent.exp()).log()[group] - logs))
    for belief in BELIEFS:
        prior = belief * logs.exp()
        known = torch.lgamma(torch.tensor(belief)) - torch.lgamma(belief + size)
        fortunes.append(known.sum() + (torch.lgamma(prior + seen) - torch.lgamma(prior) - seen * logs).sum())
    return min(1.0, math.exp(math.log(len(fortunes)) - float(torch.stack(fortunes).logsumexp(0))))


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
    together, so that places of one round that know of each other show.
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
    seen, laws = [], []
    for group, members in enumerate(codes[which.argsort()].split(which.bincount().tolist())):
        law = torch.ones(1, dtype=torch.float64)
        for j in now[member[group]].nonzero().squeeze(1):
            law = torch.outer(marginals[group, j], law).reshape(-1)
        seen.append(members.bincount(minlength=len(law)))
        laws.append(law)
    groups = torch.arange(len(laws)).repeat_interleave(torch.tensor([len(law) for law in laws]))
    return against_laws(torch.cat(seen), torch.cat(laws), groups)


def code(tokens: Tensor, vocabulary: int) -> Tensor:
    """Each sequence (B, L) as a number: its place in `sequences`."""
    return tokens @ (vocabulary ** torch.arange(tokens.shape[1] - 1, -1, -1))
