"""Test of a claimed distribution by betting against it, on languages whose sequences can all be enumerated.

A bet on an alternative q' multiplies the stake by q'(x) / q(x). Under the claim q its mean is 1, whatever was observed
before and however positions were chosen. By Markov's inequality a fortune of 1 / p has a probability of at most p. This
also holds for skewed distributions and rare cells, where a chi-square test fails. The fortune is the mean over several
bets: q at another temperature, and estimates that learn q' from the samples, with prior Dirichlet(A q).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.denoisers import Denoiser
from unmask.diagnosis.conformance.cases import Case
from unmask.languages.base import codes
from unmask.metrics import sequences
from unmask.samplers import Generation
from unmask.samplers.contract import Distribution

ALARM = 1e-6
TEMPERATURES = (0.25, 0.5, 0.8, 0.9, 1.1, 1.25, 2.0, 4.0)
BELIEFS = (3.0, 30.0, 300.0, 3000.0)  # A: weight of the prior, in samples


def p_value(generation: Generation, case: Case, distribution: Distribution, delta: Tensor) -> float:
    if distribution == "order":
        return by_order(generation, case.denoiser)

    every = sequences(case.denoiser.vocabulary, case.length)
    if distribution == "causal":
        claimed = causal_distribution(case.denoiser, every)
    elif distribution == "language":
        claimed = case.language.log_prob(every).exp()
    elif callable(distribution):
        claimed = distribution(case.denoiser, case.length, delta).double()
        if claimed.shape != (len(every),) or abs(float(claimed.sum()) - 1) > 1e-6 or bool((claimed < 0).any()):
            raise UnmaskError(
                f"the distribution on {case.name} has shape {tuple(claimed.shape)} and sum {float(claimed.sum()):.6g}",
                f"expected {len(every)} probabilities",
            )
    else:
        raise UnmaskError(
            f"the claimed distribution is {distribution!r}; expected order, causal, language or a function"
        )

    counts = codes(generation.tokens, case.denoiser.vocabulary, case.length).squeeze(1).bincount(minlength=len(every))
    return against_distributions(counts, claimed, torch.zeros_like(counts))


def against_distributions(counts: Tensor, distributions: Tensor, groups: Tensor) -> float:
    """p-value of counts (C) under the probabilities of several distributions, one per group (C) from 0.

    0 if something impossible occurred.
    """
    if bool((counts[distributions <= 0] > 0).any()):
        return 0.0
    possible = distributions > 0
    seen = counts[possible].double()
    distribution = distributions[possible].double()
    group = groups[possible]

    def total(values: Tensor) -> Tensor:
        """Sum over each group."""
        return torch.zeros(int(group.max()) + 1, dtype=torch.float64).index_add_(0, group, values)

    logs, size = distribution.log() - total(distribution).log()[group], total(seen)
    fortunes = []
    for heat in TEMPERATURES:
        bent = logs / heat
        fortunes.append(seen @ (bent - total(bent.exp()).log()[group] - logs))

    for belief in BELIEFS:
        prior = belief * logs.exp()
        known = torch.lgamma(torch.tensor(belief)) - torch.lgamma(belief + size)
        fortunes.append(known.sum() + (torch.lgamma(prior + seen) - torch.lgamma(prior) - seen * logs).sum())

    return math.exp(min(0.0, math.log(len(fortunes)) - float(torch.stack(fortunes).logsumexp(0))))


def causal_distribution(denoiser: Denoiser, every: Tensor) -> Tensor:
    """(K): prod_j p(x_j | x_<j) of sequences (K, L)."""
    distribution = torch.ones(len(every), dtype=torch.float64)
    for j in range(every.shape[1]):
        prefix = torch.where(torch.arange(every.shape[1]) < j, every, denoiser.vocabulary)
        distribution *= denoiser.probabilities(prefix, torch.tensor([j]))[:, 0].gather(1, every[:, j, None]).squeeze(1)
    return distribution


def by_order(generation: Generation, denoiser: Denoiser) -> float:
    """p-value of the tokens given the positions that each step revealed.

    The tokens that a step reveals at positions M in context x_R have the distribution prod_{j in M} p(x_j | x_R), if M
    was chosen before. All tokens of a step are tested together, so dependence between them shows.
    """
    vocabulary = denoiser.vocabulary
    moves = []
    for turn in range(1, int(generation.order.max()) + 1):
        now = generation.order == turn
        context = torch.where(generation.order < turn, generation.tokens, vocabulary)
        moves.append(torch.stack([context, now.long(), generation.tokens], 1)[now.any(1)])

    context, now, tokens = torch.cat(moves).unbind(1)
    keys, which = torch.cat([context, now], 1).unique(dim=0, return_inverse=True)
    member = torch.zeros(len(keys), dtype=torch.int64).scatter_(0, which, torch.arange(len(which)))  # one of each group
    marginals = denoiser.probabilities(context[member])
    drawn = (tokens * now * vocabulary ** (now.cumsum(1) - 1).clamp(min=0)).sum(1)  # as a number

    seen, distributions = [], []
    for group, members in enumerate(drawn[which.argsort()].split(which.bincount().tolist())):
        distribution = torch.ones(1, dtype=torch.float64)
        for j in now[member[group]].nonzero().squeeze(1):
            distribution = torch.outer(marginals[group, j], distribution).reshape(-1)
        seen.append(members.bincount(minlength=len(distribution)))
        distributions.append(distribution)

    groups = torch.arange(len(distributions)).repeat_interleave(torch.tensor(list(map(len, distributions))))
    return against_distributions(torch.cat(seen), torch.cat(distributions), groups)
