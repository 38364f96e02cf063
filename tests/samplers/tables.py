"""A denoiser that is a table of quarters, and luck that is a table: outcomes can be counted instead of sampled."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch

from unmask.core.chance import Stream
from unmask.denoisers import Denoiser

QUARTERS = {2: [(1, 3), (3, 1)], 3: [(1, 1, 2), (2, 1, 1), (0, 1, 3), (3, 1, 0), (2, 2, 0), (1, 0, 3)]}


class Quarters(Denoiser):
    """p(x_j | x_R): for each context and position some quarters, chosen at random."""

    def __init__(self, vocabulary, length, seed=0):
        self.vocabulary, self.length = vocabulary, length
        pick = np.random.default_rng(seed).integers(
            len(QUARTERS[vocabulary]), size=((vocabulary + 1) ** length, length)
        )
        self.table = torch.tensor(QUARTERS[vocabulary], dtype=torch.float64)[torch.from_numpy(pick)] / 4

    def posterior(self, tokens, positions=None, time=None):
        code = torch.zeros(len(tokens), dtype=torch.int64)
        for column in tokens.T:
            code = code * (self.vocabulary + 1) + column
        out = self.table[code]
        shown = tokens < self.vocabulary
        out = torch.where(shown.unsqueeze(-1), torch.nn.functional.one_hot(tokens, self.vocabulary + 1)[..., :-1], out)
        places = torch.arange(self.length) if positions is None else positions
        places = places.expand(len(tokens), -1)
        return out.gather(1, places.unsqueeze(-1).expand(-1, -1, self.vocabulary))

    def one_by_one(self, order):
        """The distribution of revealing in this order, a dict of sequences."""
        distribution = {}
        for x in itertools.product(range(self.vocabulary), repeat=self.length):
            context = torch.full((1, self.length), self.vocabulary)
            mass = 1.0
            for j in order:
                mass *= float(self.posterior(context)[0, j, x[j]])
                context[0, j] = x[j]
            distribution[x] = mass
        return distribution


class Counted:
    """Luck whose rows are all combinations of a uniform's cells: {(stream, position, visit): cells}; others are 1/2."""

    seed = 0

    def __init__(self, cells, length, order):
        self.rows = math.prod(cells.values())
        self.row_ids = torch.arange(self.rows)
        self.order = torch.empty(length, dtype=torch.float64)
        self.order[list(order)] = torch.linspace(0.1, 0.9, length, dtype=torch.float64)
        self.values = torch.full((len(Stream), length, 4, self.rows), 0.5, dtype=torch.float64)
        rest = self.row_ids
        for (stream, position, visit), count in cells.items():
            self.values[stream, position, visit] = (rest % count + 0.5) / count
            rest = rest // count

    def uniform(self, stream, rows, positions, visits=0):
        length = self.values.shape[1]
        rows, positions, visits = torch.broadcast_tensors(rows, positions, torch.as_tensor(visits))
        return self.values[int(stream), positions.clamp(max=length - 1), visits, rows]

    def grid(self, stream, length, visits=0):
        return self.order.expand(self.rows, -1)

    def tokens(self, marginals, rows, positions, visits):
        u = self.uniform(Stream.TOKEN, rows, positions, visits[rows, positions])
        visits[rows, positions] += 1
        return marginals.draw(u)
