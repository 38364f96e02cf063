"""Laws of joint draws by enumeration: every order of equal parts, every string of the support."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from itertools import combinations, product

import numpy as np
import torch

from tests.brute import sequences
from unmask.core.chance import Randomness
from unmask.denoisers import Canvas, Denoiser, Ideal
from unmask.languages import HMM, NGram, automata
from unmask.languages.automata import Automaton, windows
from unmask.samplers.joint import Joint, Together
from unmask.samplers.joint.fitting import SMOOTH


def sparse_chain(seed, keep, size=4):
    g = np.random.default_rng(seed)
    moves = np.zeros((size, size))
    for row in moves:
        kept = g.choice(size, keep, replace=False)
        weights = g.random(keep) + 0.2
        row[kept] = weights / weights.sum()
    return NGram(2, np.full(size, 1 / size), moves)


def sparse_hidden(seed, size=4, states=3):
    g = np.random.default_rng(seed)
    moves, emission = np.zeros((states, states)), np.zeros((states, size))
    for s in range(states):
        moves[s, g.choice(states, 2, replace=False)] = 0.5
        emission[s, g.choice(size, 2, replace=False)] = 0.6, 0.4
    return HMM(np.full(states, 1 / states), moves, emission)


def everything(size):
    """The automaton that allows every string: its joint is the product."""
    return Automaton(np.zeros((1, size), np.int64), np.ones(1, bool))


def joints(language, length, sweeps=60):
    own, pairs = automata.support(language), windows(language, 2, length)
    return {
        "product": Joint(everything(language.vocabulary), sweeps),
        "coupled": Joint(own, 0, single=False),
        "fitted": Joint(own, sweeps),
        "alone": Joint(own, sweeps, alone=True),
        "soft": Joint(pairs, sweeps),
        "soft 3": Joint(windows(language, 3, length), sweeps),
    }


def log_step(denoiser: Denoiser, joint: Joint, strings: torch.Tensor, given: tuple, now: tuple) -> np.ndarray:
    """(strings): log J(x_S | x_R) of each string."""
    shown = torch.zeros(strings.shape[1], dtype=torch.bool)
    shown[list(given)] = True
    rows = torch.arange(len(strings)).repeat_interleave(len(now))
    places = rows, torch.tensor(now).repeat(len(strings))
    contexts = torch.where(shown, strings, denoiser.vocabulary)
    together = Together(joint, Canvas(denoiser, contexts, Randomness(0, torch.arange(len(contexts)))))
    together.at(*places, None)
    return together.log_probability(*places, torch.zeros_like(contexts).index_put(places, strings[places])).numpy()


class Laws:
    """language: with its ideal denoiser, or another one."""

    def __init__(self, language, length, denoiser=None):
        strings = sequences(language.vocabulary, length)
        q = language.log_prob(torch.from_numpy(strings)).exp().numpy()
        self.strings, self.q = torch.from_numpy(strings[q > 0]), q[q > 0]
        self.length, self.denoiser = length, denoiser or Ideal(language)
        self.step = cache(lambda joint, given, now: log_step(self.denoiser, joint, self.strings, given, now))

    def log_order(self, joint, parts):
        """(strings): log of the probability of each with these parts, one after another."""
        log, given = np.zeros(len(self.strings)), ()
        for part in parts:
            log = log + self.step(joint, tuple(sorted(given)), part)
            given += part
        return log

    def divergence(self, log):
        return float((self.q * (np.log(self.q) - log)).sum())

    def measure(self, joint, steps):
        """(SER, TV, KL of the law, mean KL of an order) with this many equal parts."""
        law, plans = 0.0, []
        for parts in splits(tuple(range(self.length)), self.length // steps):
            log = self.log_order(joint, parts)
            law, plans = law + np.exp(log), [*plans, self.divergence(log)]
        law = law / len(plans)
        outside = 1 - law.sum()
        return outside, 0.5 * (np.abs(law - self.q).sum() + outside), self.divergence(np.log(law)), np.mean(plans)

    def in_random_order(self, joint, steps):
        """(KL(q || p) of what is written, E KL(q || p_order)), where each position draws its step."""
        labels = product(range(steps), repeat=self.length)
        orders = Counter(
            tuple(tuple(i for i in range(self.length) if each[i] == k) for k in sorted({*each})) for each in labels
        )
        logs = np.stack([self.log_order(joint, order) for order in orders])
        shares = np.array([*orders.values()]) / steps**self.length
        return self.divergence(np.log(shares @ np.exp(logs))), float(shares @ [self.divergence(log) for log in logs])


@lru_cache
def splits(left, size):
    if not left:
        return [()]
    rest = [(part, tuple(j for j in left if j not in part)) for part in combinations(left, size)]
    return [(part, *more) for part, others in rest for more in splits(others, size)]


@dataclass(eq=False)
class Tables:
    """J(x_S | x_R) of one draw by tables of strings."""

    denoiser: Denoiser
    joint: object
    length: int
    cache: dict = field(default_factory=dict)

    @cached_property
    def allowed(self):
        """(strings, weights): those that the automaton accepts, walked symbol by symbol."""
        automaton, strings = self.joint.automaton, sequences(self.denoiser.vocabulary, self.length)
        kinds = automaton.classes[strings]
        weight, state = np.ones(len(strings)), np.zeros(len(strings), int)
        for column in kinds.T:
            move = automaton.moves[state, column]
            weight *= np.where(move < 0, 0, 1 if automaton.weights is None else automaton.weights[state, column])
            state = np.maximum(move, 0)
        weight *= automaton.final[state]
        return strings[weight > 0], weight[weight > 0]

    def law(self, context, step):
        """{x_S: J(x_S | x_R)}; context: tokens, V where hidden; step: the positions S."""
        key = context, step
        if key not in self.cache:
            self.cache[key] = self._law(np.array(context), list(step))
        return self.cache[key]

    def _law(self, context, step):
        strings, weights = self.allowed
        hidden = np.flatnonzero(context == self.denoiser.vocabulary)
        fits = (strings[:, context < self.denoiser.vocabulary] == context[context < self.denoiser.vocabulary]).all(1)
        together = np.array(step) if self.joint.alone else hidden
        inside, weights = strings[fits][:, together], weights[fits]
        if self.joint.alone:  # whatever the later positions hold
            inside = np.unique(inside, axis=0)
            weights = np.ones(len(inside))

        p = self.denoiser.posterior(torch.from_numpy(context)[None])[0].numpy()[together]
        single = len(step) == 1 and self.joint.single
        fitted = [k for k, place in enumerate(together) if place in step or not single]
        f = self._fit(p, inside, weights, fitted)
        mass = weights * np.prod([f[k][inside[:, k]] for k in range(len(together))], axis=0)
        mass /= mass.sum()

        where = [together.tolist().index(place) for place in step]
        law = defaultdict(float)
        for row, m in zip(inside[:, where].tolist(), mass, strict=True):
            law[tuple(row)] += m
        return law

    def _fit(self, p, inside, weights, fitted):
        """Potentials f (K, V), by sweeps from left to right; those of positions that are not fitted are 1."""
        places = range(len(p))

        def mass(f):
            return weights * np.prod([f[k][inside[:, k]] for k in places], axis=0)

        def start(p):
            return np.where(np.isin(places, fitted)[:, None], p, 1.0)

        f = start(p)
        if not mass(f).sum() > 0:
            p = (p + SMOOTH) / (p + SMOOTH).sum(1, keepdims=True)
            f = start(p)

        before = np.inf
        for _ in range(self.joint.sweeps):
            apart = 0.0
            for k in fitted:
                m = np.bincount(inside[:, k], mass(f), len(p[k]))
                m /= m.sum()
                apart += np.abs(m - p[k]).sum()
                f[k] = np.where(m > 0, f[k] * p[k] / np.where(m > 0, m, 1), f[k])
            if apart > 0.9 * before:  # the stop rule
                break
            before = apart
        return f
