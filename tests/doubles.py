"""Denoisers, samplers, random numbers and stop rules of tests: each says, counts or watches one thing."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch

from unmask.core.chance import Stream
from unmask.denoisers import Cost, Denoiser, Engine
from unmask.languages import random_ngram
from unmask.samplers import Sampler

LANGUAGE = random_ngram(2, 4, seed=1)
QUARTERS = {2: [(1, 3), (3, 1)], 3: [(1, 1, 2), (2, 1, 1), (0, 1, 3), (3, 1, 0), (2, 2, 0), (1, 0, 3)]}


# ------------------------------------------------------------------------------------------------------------ denoisers


class Everywhere(Denoiser):
    """Writes `marginals`, (B, L, V) of tokens (B, L); revealed positions are certain."""

    def marginals(self, tokens):
        raise NotImplementedError

    def posterior(self, tokens, positions=None, time=None):
        known = torch.nn.functional.one_hot(tokens, self.vocabulary + 1)[..., :-1].double()
        p = torch.where((tokens < self.vocabulary).unsqueeze(2), known, self.marginals(tokens))
        places = torch.arange(tokens.shape[1]) if positions is None else positions
        return p.gather(1, places.expand(len(tokens), -1).unsqueeze(2).expand(-1, -1, self.vocabulary))


class Fixed(Everywhere):
    """The same marginals (L, V) in every context."""

    def __init__(self, p, language=None):
        self.language, self.vocabulary, self.p = language, p.shape[1], p

    def marginals(self, tokens):
        return self.p.expand(len(tokens), -1, -1)


class Flat(Everywhere):
    """The same two probabilities at every position; another one may read."""

    vocabulary = 2

    def __init__(self, first, reader=None):
        self.distribution, self.reader = torch.tensor([first, 1 - first], dtype=torch.float64), reader

    def marginals(self, tokens):
        return self.distribution.expand(*tokens.shape, 2)

    def causal(self, rows, length, valid=None):
        return super().causal(rows, length, valid) if self.reader is None else self.reader.causal(rows, length, valid)


class Timed(Everywhere):
    """Even marginals, without a language; records the times that it is told."""

    vocabulary = 2
    time_free = False

    def __init__(self):
        self.times = []

    def posterior(self, tokens, positions=None, time=None):
        self.times.append(time)
        return super().posterior(tokens, positions)

    def marginals(self, tokens):
        return torch.full((*tokens.shape, 2), 0.5, dtype=torch.float64)


class Quarters(Everywhere):
    """For each context and position some quarters, chosen at random: outcomes can be counted instead of sampled."""

    def __init__(self, vocabulary, length, seed=0):
        self.vocabulary, self.length = vocabulary, length
        pick = np.random.default_rng(seed).integers(
            len(QUARTERS[vocabulary]), size=((vocabulary + 1) ** length, length)
        )
        self.table = torch.tensor(QUARTERS[vocabulary], dtype=torch.float64)[torch.from_numpy(pick)] / 4

    def marginals(self, tokens):
        return self.table[tokens @ (self.vocabulary + 1) ** torch.arange(self.length - 1, -1, -1)]

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


class Asked(Denoiser):
    """Writes `posterior` alone, and counts its calls, their rows and the tokens of these rows."""

    ideal = True

    def __init__(self, language=LANGUAGE):
        self.language, self.vocabulary = language, language.vocabulary
        self.counted = Cost()

    def posterior(self, tokens, positions=None, time=None):
        self.counted = self.counted + Cost(1, len(tokens), tokens.numel())
        return self.language.posterior(tokens, positions)


class Computing(Denoiser):
    """Writes `engine` alone, and counts."""

    ideal = True

    def __init__(self, language=LANGUAGE):
        self.language, self.vocabulary = language, language.vocabulary
        self.counted = Cost()

    def engine(self, tokens, given=None, valid=None):
        return self.counting(tokens, self) if valid is None else super().engine(tokens, given, valid)

    class counting(Engine):
        """Evaluates each row in which it is asked anything, every time."""

        def __init__(self, tokens, denoiser):
            super().__init__(tokens)
            self.denoiser = denoiser

        def count(self, rows):
            cost = Cost(int(len(rows) > 0), len(rows), len(rows) * self.tokens.shape[1])
            self.denoiser.counted = self.denoiser.counted + cost

        def at(self, rows, positions, time):
            self.count(rows.unique())
            self.spend_on(rows)
            return self.denoiser.language.posterior(self.tokens)[rows, positions]


class Hollow(Computing):
    """The same, which may be asked about revealed positions too: what is said of one is given all the others."""

    class counting(Computing.counting):
        """Each position by a context that hides it; but one evaluation for all that stands as it does."""

        hollow = True

        def __init__(self, tokens, denoiser):
            super().__init__(tokens, denoiser)
            self.changed = torch.ones(len(tokens), dtype=torch.bool)

        def renew(self, rows, positions):
            self.changed[rows] = True

        def at(self, rows, positions, time):
            which = rows.unique()
            which = which[self.changed[which]]
            self.changed[which] = False
            self.count(which)
            self.spend_on(which)
            contexts = self.tokens[rows]
            contexts[torch.arange(len(rows)), positions] = self.denoiser.vocabulary
            return self.denoiser.language.posterior(contexts, positions.unsqueeze(1))[:, 0]


# ------------------------------------------------------------------------------------------------------------- samplers


class Ordering(Sampler):
    """A sampler with this function as its method."""

    def __init__(self, order):
        self._order = order

    def order(self, delta, hidden, rng):
        return self._order(delta, hidden, rng)


class Choosing(Sampler):
    revises = False

    def __init__(self, choose, pace="counts", revises=False):
        self._choose, self.pace, self.revises = choose, pace, revises

    def choose(self, view):
        return self._choose(view)


class Running(Sampler):
    def __init__(self, run):
        self._run = run

    def run(self, session):
        self._run(session)


# ---------------------------------------------------------------------------------------- random numbers and stop rules


class Counted:
    """Randomness: rows are all combinations of a uniform's cells, {(stream, position, visit): cells}; others 1/2."""

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


class Watching:
    """Another stop rule or None, and a function that receives the rows after each step."""

    def __init__(self, see, rule=None):
        self.see, self.rule, self.fill = see, rule, 0 if rule is None else rule.fill

    def ended(self, progress):
        self.see(progress)
        return torch.full((len(progress.tokens),), -1) if self.rule is None else self.rule.ended(progress)
