"""Tiny trunks with random or hand-set weights, that count the rows they are asked to evaluate."""

from __future__ import annotations

import itertools

import numpy as np
import torch

from tests.brute import sequences
from unmask.models.trained import Shape, Trunk

V, L = 3, 4  # 81 sequences


class Counting(Trunk):
    """`evaluated`: how many rows have gone through the blocks, by whatever door."""

    evaluated = 0

    def below(self, tokens, *rest):
        self.evaluated += len(tokens)
        return super().below(tokens, *rest)

    def states(self, tokens, *rest, **options):
        self.evaluated += len(tokens)
        return super().states(tokens, *rest, **options)

    def step(self, recent, *rest):
        self.evaluated += len(recent)
        return super().step(recent, *rest)


def trunk(
    kind="mdm", vocabulary=V, length=L, seed=0, spread=0.5, layers=2, dtype=torch.float64, made=Counting, **changes
):
    """Random weights, far from those that training starts from: every context matters. With an n-gram memory."""
    changes = {"neighbours": 2} | changes
    made = made(Shape(kind, vocabulary, length, hidden=16, layers=layers, heads=2, **changes))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in made.parameters():
            weight.normal_(0, spread, generator=generator)
    return made.to(dtype)


def every_context(vocabulary=V, length=L):
    return torch.from_numpy(sequences(vocabulary + 1, length))


def chances(made):
    """(V+1, .., V+1) contexts -> (L, V): what the trunk says, all of it computed, nothing kept."""
    with torch.enable_grad():
        said = torch.softmax(made(every_context()), -1).detach()
    return said.view(*[V + 1] * L, L, V)


def order_distribution(made, orders):
    """The law of every sequence under (probability, order) pairs: the product over rounds of what was seen before."""
    said, every = chances(made).numpy(), sequences(V, L)
    total = np.zeros(len(every))
    for probability, order in orders:
        mass = np.full(len(every), probability)
        for now in sorted(set(order)):
            seen = np.where(np.array(order) < now, every, V)
            shown = said[tuple(seen.T)]
            for j in (j for j, tau in enumerate(order) if tau == now):
                mass = mass * shown[np.arange(len(every)), j, every[:, j]]
        total += mass
    return total


def labels(steps):
    """Every assignment of steps, equally likely."""
    return [(steps**-L, order) for order in itertools.product(range(steps), repeat=L)]


def causal_distribution(made):
    """prod_j p(x_j | x_<j), each prefix read from the start."""
    every = torch.from_numpy(sequences(V, L))
    read = torch.cat([torch.full((len(every), 1), V), every[:, :-1]], 1)
    with torch.enable_grad():
        said = torch.softmax(made(read), -1).detach()
    return said.gather(2, every.unsqueeze(2)).squeeze(2).prod(1).numpy()
