"""The output distribution of ancestral sampling on tiny languages, by enumeration: exact SER, TER and divergence.

Before step k the mass of a sequence is spread over the sets R of revealed positions. With rho_k = delta_k / (1-p_k),
    A_{k+1}(R', x) = sum_{R in R'} A_k(R, x) rho_k^|R' - R| (1 - rho_k)^(L - |R'|) prod_{j in R' - R} p(x_j | x_R),
and p(x) is the mass at the full set.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.denoisers import Denoiser
from unmask.denoisers.denoiser import checked
from unmask.samplers.schedules import Schedule, as_delta

MAX_SEQUENCES = 20_000
MAX_LENGTH = 6
AT_ONCE = 2**15  # numbers that are moved together: at most the size of a cache


def sequences(vocabulary: int, length: int) -> Tensor:
    """All V^L sequences, in lexicographic order."""
    arguments.whole("vocabulary", vocabulary)
    arguments.length(length)
    if length > MAX_LENGTH or vocabulary**length > MAX_SEQUENCES:
        size = f"{vocabulary**length:,} sequences of length {length}"
        limit = f"{MAX_SEQUENCES:,}, and a length up to {MAX_LENGTH}"
        raise UnmaskError(f"there are {size}; expected at most {limit}. Use ter_upper and a sampled SER.")
    return torch.tensor(list(itertools.product(range(vocabulary), repeat=length)))


def output_distribution(denoiser: Denoiser, length: int, delta: Tensor, given: Tensor | None = None) -> Tensor:
    """p(x) of ancestral sampling for every x of `sequences`, float64 (V^L); p(x | c) where tokens (L) are given."""
    every, delta = sequences(checked(denoiser).vocabulary, length), as_delta(delta)
    sets = [torch.tensor(bits, dtype=torch.bool) for bits in itertools.product([False, True], repeat=length)]
    fits = {}  # probability of each token of x given the revealed set: (V^L, L)
    for number, revealed in enumerate(sets[:-1]):
        context = torch.where(revealed, every, denoiser.vocabulary)
        distinct, which = context.unique(dim=0, return_inverse=True)
        marginals = denoiser.probabilities(distinct)
        fits[number] = marginals[which.unsqueeze(1), torch.arange(length), every]
    moves = [  # (from, to, number revealed, number that stays hidden)
        (start, end, int((larger & ~revealed).sum()), length - int(larger.sum()))
        for start, revealed in enumerate(sets[:-1])
        for end, larger in enumerate(sets)
        if bool((larger | ~revealed).all())
    ]
    factors = torch.stack([fits[start][:, sets[end] & ~sets[start]].prod(1) for start, end, *_ in moves])
    at_once = max(AT_ONCE // len(every), 1)
    some = list(zip(torch.tensor(moves).split(at_once), factors.split(at_once), strict=True))
    mass = torch.zeros((len(sets), len(every)), dtype=torch.float64)
    shown = torch.zeros(length, dtype=torch.bool) if given is None else given != denoiser.vocabulary
    agrees = torch.ones(len(every), dtype=torch.bool) if given is None else (~shown | (every == given)).all(1)
    mass[next(number for number, revealed in enumerate(sets) if torch.equal(revealed, shown))] += agrees
    for rho in Schedule(delta).rho.tolist():
        goes, waits = (torch.tensor([p**n for n in range(length + 1)], dtype=torch.float64) for p in (rho, 1 - rho))
        new = torch.zeros_like(mass)
        new[-1] = mass[-1]
        for part, factor in some:
            starts, ends, counts, stays = part.unbind(1)
            moved = mass[starts] * goes[counts].unsqueeze(1) * waits[stays].unsqueeze(1) * factor
            new.index_add_(0, ends, moved)
        mass = new
    return mass[-1]
