"""The exact distribution of a step of low-confidence, which draws all hidden tokens and keeps the most probable ones.

Given the ours positions S, their tokens are not independent, so the ratio of the marginals to the model's own chain is
no divergence. With scores kappa_j(v) = c_j(v), compared to the resolution, and equal scores in random order,

    r(S, x_S | x_R) = prod_{i in S} c_i(x_i) P(no other position has a score above t),   t = min_{i in S} kappa_i(x_i)
    P(S | x_R)      = sum over x_S of r(S, x_S | x_R), as a sum over the scores t

    gap = log r(S, x_S | x_R) - log P(S | x_R) - log c_s(x_S | x_R),   with mean KL(r(. | S) || c_s) >= 0

Ties are resolved by a uniform u of each position: those with score t and a higher u win. All sums over ties are
integrals of polynomials in u, exact by Gauss and Legendre.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from unmask.diagnosis.gap.reader import DENSE, Reader

NUMBERS = 2**21  # masses that are held together
NO_LEVEL = 2**62


def corrections(reader: Reader, steps: Tensor, blocks: Tensor) -> Tensor:
    """(C) nats: log r(S, x_S | x_R) - log P(S | x_R) - sum_i log c_i(x_i) of these steps (C).

    Added to the log ratio of the marginals to the chain, it gives the gap. blocks (B, L): a step chooses among the
    hidden positions of its block."""
    wide = max(reader.denoiser.vocabulary / DENSE, 1.0)
    places = torch.full((len(steps),), wide * blocks.shape[1])
    each = reader.each(lambda part: _corrections(reader, steps[part], blocks), steps, 1, places)
    return torch.cat([torch.zeros(0, dtype=torch.float64), *(nats for _, nats in each)])


def _corrections(reader: Reader, steps: Tensor, blocks: Tensor) -> Tensor:
    path, row = reader.path, reader.path.row[steps]
    tokens = path.contexts(steps)
    own = blocks[row, path.position[path.first[steps]]]
    there = (tokens == path.vocabulary) & (blocks[row] == own.unsqueeze(1))
    owner, entry = reader.entries(steps)
    drawn, chose = torch.zeros_like(tokens), torch.zeros_like(there)
    drawn[owner, path.position[entry]] = path.token[entry]
    chose[owner, path.position[entry]] = True
    context, position = there.nonzero(as_tuple=True)
    marginals, dead = reader.ask(steps, tokens, context, position)
    # (C, H): the hidden positions of each step, side by side
    column = torch.arange(len(context)) - there.sum(1).cumsum(0).sub(there.sum(1))[context]
    shape = len(steps), int(there.sum(1).max()), reader.denoiser.vocabulary
    draws, scores = torch.zeros(shape, dtype=torch.float64), torch.zeros(shape, dtype=torch.int64)
    draws[context, column] = reader.drawn(marginals).dense().double()
    scores[context, column] = (marginals.dense().double() / marginals.resolution).round().long()
    ours, chosen = torch.zeros(shape[:2], dtype=torch.bool), torch.zeros(shape[:2], dtype=torch.int64)
    ours[context, column], chosen[context, column] = chose[context, position], drawn[context, position]
    rest = torch.zeros_like(ours).index_put_((context, column), ~chose[context, position])
    size = max(NUMBERS // max(shape[1] * int(ours.sum(1).max()) * shape[2], 1), 1)
    every = zip(*(part.split(size) for part in (draws, scores, ours, rest, chosen)), strict=True)
    joint, positions = (torch.cat(logs) for logs in zip(*(log_chosen(*part) for part in every), strict=True))
    alone = torch.where(ours, draws.gather(2, chosen.unsqueeze(2)).squeeze(2), 1.0).log().sum(1)
    return torch.where(dead, torch.inf, joint - positions - alone)


def log_chosen(draws: Tensor, scores: Tensor, chosen: Tensor, rest: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """(C) twice: log r(S, x_S | x_R) and log P(S | x_R).

    draws (C, H, V): probabilities at hidden positions. scores (C, H, V): whole numbers from 0; the highest win.
    chosen, Bool (C, H): S. rest: the other positions. tokens (C, H): those of S.
    """
    ranked, order = scores.sort(2)
    mass = torch.nn.functional.pad(draws.gather(2, order).cumsum(2), (1, 0))

    def masses(levels: Tensor) -> tuple[Tensor, Tensor]:
        """(C, H, T) twice: the probability of a score below each level (C, T), and of one equal to it."""
        every = levels.unsqueeze(1).expand(-1, ranked.shape[1], -1).contiguous()
        below = mass.gather(2, torch.searchsorted(ranked, every))
        return below, mass.gather(2, torch.searchsorted(ranked, every, right=True)) - below

    ours, others = chosen.unsqueeze(2), rest.unsqueeze(2)
    level = scores.gather(2, tokens.unsqueeze(2)).squeeze(2).masked_fill(~chosen, NO_LEVEL)
    lowest = level.amin(1)
    ties = (level == lowest.unsqueeze(1)).sum(1).double()
    below, equal = masses(lowest.unsqueeze(1))
    won = torch.zeros(len(draws), dtype=torch.float64)  # no other position wins against the lowest of S
    for u, weight in _nodes(_most(equal)):
        won += weight * ties * (1 - u) ** (ties - 1) * torch.where(others, below + u * equal, 1.0).prod(1).squeeze(1)
    own = torch.where(chosen, draws.gather(2, tokens.unsqueeze(2)).squeeze(2), 1.0)
    joint = own.log().sum(1) + won.log()

    # P(S): the density of the lowest key (t, u) in S, times the probability that all others are below it
    total = torch.zeros_like(won)
    for levels in _levels(scores, chosen).split(max(NUMBERS // max(chosen.numel(), 1), 1), 1):
        below, equal = masses(levels)
        above = (1 - below - equal).clamp(min=0)
        for u, weight in _nodes(_most(equal)):
            keys = torch.where(ours, above + (1 - u) * equal, 1.0)  # P(key of i >= (t, u))
            density = keys.prod(1) * torch.where(ours & (equal > 0), equal / keys, 0.0).sum(1)
            lost = torch.where(others, below + u * equal, 1.0).prod(1)
            total += weight * torch.where(levels < NO_LEVEL, density * lost, 0.0).sum(1)
    return joint, total.log()


def _levels(scores: Tensor, chosen: Tensor) -> Tensor:
    """(C, T): the distinct scores of the positions of S, ascending, then NO_LEVEL."""
    every = scores.masked_fill(~chosen.unsqueeze(2), NO_LEVEL).flatten(1).sort(1).values
    again = torch.zeros_like(every, dtype=torch.bool)
    again[:, 1:] = every[:, 1:] == every[:, :-1]
    every = every.masked_fill(again, NO_LEVEL).sort(1).values
    return every[:, : int((every < NO_LEVEL).sum(1).max())]


def _most(equal: Tensor) -> int:
    """The largest number of positions with one score, of (C, H, T) masses."""
    return int((equal > 0).sum(1).max())


@cache
def _nodes(ties: int) -> list[tuple[float, float]]:
    """Nodes and weights of the integral over u from 0 to 1, exact for polynomials of degree `ties`."""
    nodes, weights = np.polynomial.legendre.leggauss(ties // 2 + 1)
    return list(zip(((nodes + 1) / 2).tolist(), (weights / 2).tolist(), strict=True))
