"""The output distribution of samplers by enumeration: p(x) of every string of tiny languages, and of every order.

A chi-square test has a fixed seed and a false-alarm rate of brute.ALARM; a row where the law is zero fails at once.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from functools import cache

import numpy as np
import torch

from tests.brute import ALARM, distribution, p_value, sequences, tiny_languages
from tests.samplers.plain import SCORES, entropy, remdm_rates
from unmask import generate
from unmask.denoisers import Ideal, Perturbed, Sharpened
from unmask.languages import Interval, Language, random_ngram
from unmask.samplers import schedules

ROWS = 20_000  # at which every mutant of test_table.py has p < 1e-17
CHAIN = random_ngram(2, 3, temperature=2.0, threshold=0.15, seed=2)
SHARP = {"temperature": 0.6, "top_p": 0.9, "top_k": 2}
CASES = {
    "2-gram": (CHAIN, 4),
    "3-gram": (random_ngram(3, 2, threshold=0.3, seed=5), 4),
    "interval": (Interval(3), 4),
    "hmm": (tiny_languages()["hmm, sparse"][0], 4),
    "final": (tiny_languages()["hmm, final"][0], 4),
    "leak": (Perturbed(CHAIN, "leak", 0.1), 4),
}
SHARPENED = CASES | {"sharp": (Sharpened(Ideal(CHAIN), *SHARP.values()), 4)}


@cache
def denoiser_of(name):
    source, length = SHARPENED[name]
    return (Ideal(source) if isinstance(source, Language) else source), length


@cache
def said(name, context):
    """Marginals (L, V) of a context: the sums over what samplers can meet come by each many times."""
    return denoiser_of(name)[0].posterior(torch.tensor([context]))[0].numpy()


def strings(name):
    denoiser, length = denoiser_of(name)
    return sequences(denoiser.vocabulary, length)


def follows(made, name, p):
    """Whether rows (B, L) have the distribution p over all strings of this length."""
    return p_value(made.numpy(), sequences(denoiser_of(name)[0].vocabulary, made.shape[1]), p) > ALARM


def passes(name, p, rows=ROWS, **options):
    source, length = CASES[name]
    return follows(generate(source, length=length, rows=rows, **options).tokens, name, p)


# ---------------------------------------------------------------------------------------- orders that tokens do not see


@cache
def fits(name):
    """context (a tuple, True where revealed) -> probability of each sequence's tokens there, (V^L, L)."""
    denoiser, length = denoiser_of(name)
    every = torch.from_numpy(strings(name))
    table = {}
    for bits in itertools.product([False, True], repeat=length):
        context = torch.where(torch.tensor(bits), every, denoiser.vocabulary)
        table[bits] = denoiser.posterior(context).gather(2, every.unsqueeze(2)).squeeze(2).numpy()
    return table


def order_distribution(name, orders):
    """sum over (probability, order) of the product over steps, and over each step, of p(x_j | earlier steps)."""
    total = np.zeros(len(strings(name)))
    for probability, order in orders:
        mass = np.full(len(total), probability)
        for now in sorted(set(order)):
            shown = fits(name)[tuple(tau < now for tau in order)]
            for j in (j for j, tau in enumerate(order) if tau == now):
                mass = mass * shown[:, j]
        total += mass
    return total


def labels(delta, length):
    """Every assignment of steps with its probability under i.i.d. labels."""
    steps = range(len(delta))
    return [(math.prod(delta[k] for k in order), order) for order in itertools.product(steps, repeat=length)]


def fixed(counts):
    """Every assignment that gives counts[k] positions to step k, equally likely."""
    base = [k for k, count in enumerate(counts) for _ in range(count)]
    orders = set(itertools.permutations(base))
    return [(1 / len(orders), order) for order in orders]


def even(steps, length):
    return [length // steps + (k < length % steps) for k in range(steps)]


# the distribution of the order of each planned sampler, by its definition


def independent(steps, length):
    return labels(schedules.deltas("linear", steps).tolist(), length)


def shuffled(steps, length):
    return fixed(even(steps, length))


def leftmost(steps, length):
    return [(1.0, tuple(k for k, count in enumerate(even(steps, length)) for _ in range(count)))]


def strided(steps, length):
    return [(1.0, tuple(j % steps for j in range(length)))]


def dyadic(steps, length):
    halvings = [steps - 1 if j == 0 else min(steps - 1, (j & -j).bit_length() - 1) for j in range(length)]
    return [(1.0, tuple(steps - 1 - h for h in halvings))]


def one_by_one(steps, length):
    return fixed([1] * length)


def causal(steps, length):
    return [(1.0, tuple(range(length)))]


def halves(steps, length):
    """Two blocks of two positions, shuffled."""
    first = steps // 2 + steps % 2
    parts = [fixed(even(s, 2)) for s in (first, steps - first)]
    return [(p * q, (*a, *(k + first for k in b))) for (p, a), (q, b) in itertools.product(*parts)]


def planned(order):
    """The law of an order."""
    return lambda name, steps: order_distribution(name, order(steps, denoiser_of(name)[1]))


def language(name, steps):
    """q itself."""
    return distribution(*CASES[name])


# -------------------------------------------------------------------------------------------- rules that see the tokens


def markov(name, moves, steps, start=None):
    """p(x) of steps from a state to moves(state, step) -> (probability, state); a state begins with its context.

    steps: their number; None: until nothing is hidden."""
    denoiser, length = denoiser_of(name)
    states = start or {(denoiser.vocabulary,) * length: 1.0}
    for step in itertools.count() if steps is None else range(steps):
        if steps is None and not any(denoiser.vocabulary in state for state in states):
            break
        following = defaultdict(float)
        for state, mass in states.items():
            for chance, new in moves(state, step):
                following[new] += mass * chance
        states = following

    p = defaultdict(float)
    for state, mass in states.items():
        p[state[:length]] += mass
    return np.array([p[tuple(x)] for x in strings(name).tolist()])


def hidden_of(name, context):
    return [j for j, token in enumerate(context) if token == denoiser_of(name)[0].vocabulary]


def written(context, places, tokens):
    new = dict(zip(places, tokens, strict=True))
    return tuple(new.get(j, token) for j, token in enumerate(context))


def drawn(p, places):
    """(probability, tokens) of independent draws at these positions, of p (L, V)."""
    for tokens in itertools.product(range(p.shape[1]), repeat=len(places)):
        weight = math.prod(p[j, t] for j, t in zip(places, tokens, strict=True))
        if weight > 0:
            yield weight, tokens


def chosen(sets):
    """The law where a step reveals one of sets(marginals of the hidden, step, steps), then draws its tokens."""

    def law(name, steps):
        def moves(context, step):
            p, hidden = said(name, context), hidden_of(name, context)
            for chance, places in sets({j: p[j].tolist() for j in hidden}, step, steps):
                for weight, tokens in drawn(p, places):
                    yield chance * weight, written(context, places, tokens)

        return markov(name, moves, steps)

    return law


def ranked(score, cut):
    """Sets of a sampler that reveals the first cut(marginals in order, step, steps) by score, ties in any order."""

    def sets(hidden, step, steps):
        found = defaultdict(float)
        orders = list(itertools.permutations(hidden))
        for order in orders:
            places = sorted(order, key=lambda j: -round(SCORES[score](hidden[j]) * 1e9))
            found[tuple(sorted(places[: cut([hidden[j] for j in places], step, steps)]))] += 1 / len(orders)
        return [(chance, places) for places, chance in found.items()]

    return sets


def by_schedule(score, length=4):
    """The schedule's number of positions in each step."""
    return chosen(ranked(score, lambda p, step, steps: even(steps, length)[step]))


def while_(score, condition):
    """The most positions for which condition(marginals in order, number) holds, at least one, until none is left."""

    def cut(p, step, steps):
        return max((n for n in range(1, len(p) + 1) if n == 1 or condition(p, n)), default=0)

    law = chosen(ranked(score, cut))
    return lambda name, steps: law(name, None)


def under(factor):
    """Fast-dLLM's (n+1)(1 - c_(n)) < factor."""
    return lambda p, n: (n + 1) * (1 - max(p[n - 1])) < factor


def under_published(factor):
    """Its code, which looks at the position before where all are asked."""
    sure = under(factor)
    return lambda p, n: (n == len(p) and (n == 2 or sure(p, n - 1))) or sure(p, n)


def nats(number, but_largest=False):
    """The sum of entropies, without the last or the largest, is at most this."""

    def condition(p, n):
        h = [*map(entropy, p[:n])]
        return sum(h) - (max(h) if but_largest else h[-1]) <= number + 1e-9

    return condition


def low_confidence(temperature):
    """Every step: all joint draws of the hidden positions, then every way to break the ties of the best counts."""

    def law(name, steps):
        def moves(context, step):
            marginals, hidden = said(name, context), hidden_of(name, context)
            heated = marginals ** (1 / temperature) if temperature else np.eye(len(marginals[0]))[marginals.argmax(1)]
            heated = heated / heated.sum(1, keepdims=True)
            count = even(steps, len(context))[step]
            for weight, tokens in drawn(heated, hidden):
                drew = dict(zip(hidden, tokens, strict=True))
                scores = {j: round(marginals[j, t] * 1e9) for j, t in drew.items()}
                cut = sorted(scores.values(), reverse=True)[count - 1]
                sure = [j for j in hidden if scores[j] > cut]
                tied = list(itertools.combinations([j for j in hidden if scores[j] == cut], count - len(sure)))
                for extra in tied:
                    kept = [*sure, *extra]
                    yield weight / len(tied), written(context, kept, [drew[j] for j in kept])

        return markov(name, moves, steps)

    return law


def remdm(strategy, **o):
    """A state has tokens, and for conf the probabilities that they had when they were revealed."""

    def law(name, steps):
        length, v = denoiser_of(name)[1], denoiser_of(name)[0].vocabulary

        def moves(state, step):
            context, psi = state[:length], state[length:]
            sigma, rate = remdm_rates(strategy, step, [1 / steps] * steps, o)
            p, weights = said(name, context).tolist(), [math.exp(-x) for x in psi]
            shown = sum(w for w, t in zip(weights, context, strict=True) if t < v)
            options = []
            for j, t in enumerate(context):
                if t == v:
                    kept = [round(p[j][x], 12) if strategy == "conf" else 1.0 for x in range(v)]
                    options.append([(1 - rate, (v, 1.0)), *((rate * p[j][x], (x, kept[x])) for x in range(v))])
                else:
                    hide = sigma * weights[j] / shown if strategy == "conf" else sigma
                    options.append([(hide, (v, 1.0)), (1 - hide, (t, psi[j]))])
            for combination in itertools.product(*([o for o in part if o[0] > 1e-12] for part in options)):
                tokens, psis = zip(*(o for _, o in combination), strict=True)
                yield math.prod(w for w, _ in combination), (*tokens, *psis)

        return markov(name, moves, steps, {(v,) * length + (1.0,) * length: 1.0})

    return law


def gibbs(base, sweeps, stride=0):
    """Of the law of a base, each group of positions hidden and drawn from the marginals of the rest, sweep by sweep."""

    def law(name, steps):
        length, v = denoiser_of(name)[1], denoiser_of(name)[0].vocabulary
        size = stride or length
        groups = [list(range(k, length, size)) for k in range(size)] * sweeps

        def moves(context, step):
            context = written(context, groups[step], [v] * len(groups[step]))
            for weight, tokens in drawn(said(name, context), groups[step]):
                yield weight, written(context, groups[step], tokens)

        start = zip(map(tuple, strings(name).tolist()), base(name, steps), strict=True)
        return markov(name, moves, len(groups), {x: mass for x, mass in start if mass > 0})

    return law


ANCESTRAL = planned(independent)
