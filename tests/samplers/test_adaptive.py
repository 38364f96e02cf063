"""The output distribution of samplers that look before they choose, by enumerating what they can meet; and wrong ones.

The same alarm as in test_distributions.py: 1e-6 a test, fixed seeds, and a row where the law is zero fails at once.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from tests.brute import distribution, p_value, sequences, tiny_languages
from tests.samplers.test_distributions import ALARM, CASES, denoiser_of, fixed, labels, order_distribution, passes, said
from tests.samplers.test_reference import OWN, PUBLISHED, REMASKING, SCORES, entropy, remdm_rates
from unmask import generate
from unmask.core.chance import Stream
from unmask.denoisers import Ideal
from unmask.languages import random_ngram
from unmask.samplers import ranking, schedules
from unmask.samplers.contract import Choice
from unmask.samplers.rules.adaptive import EntropyBounded, EntropySum
from unmask.samplers.rules.gibbs import Gibbs
from unmask.samplers.rules.remdm import ReMDM


def as_array(states, vocabulary, length):
    return np.array([states.get(tuple(x), 0.0) for x in sequences(vocabulary, length).tolist()])


def adaptive_law(name, sets, steps=None):
    """sets(marginals of the hidden, step) -> [(probability, positions)]: what a step reveals, tokens drawn after."""
    denoiser, length = denoiser_of(name)
    v = denoiser.vocabulary
    states, turn = {(v,) * length: 1.0}, 0
    while any(v in context for context in states) and turn != steps:
        following = defaultdict(float)
        for context, mass in states.items():
            p = said(name, context)
            hidden = {j: p[j] for j in range(length) if context[j] == v}
            for chance, places in sets(hidden, turn) if hidden else [(1.0, ())]:
                for tokens in itertools.product(range(v), repeat=len(places)):
                    weight = mass * chance * math.prod(p[j, t] for j, t in zip(places, tokens, strict=True))
                    if weight > 0:
                        new = list(context)
                        for j, t in zip(places, tokens, strict=True):
                            new[j] = t
                        following[tuple(new)] += weight
        states, turn = following, turn + 1
    return as_array(states, v, length)


def ranked(score, cut):
    """Sets of a sampler that reveals the first cut(marginals in order, step) by score, ties in any order."""

    def sets(hidden, turn):
        found = defaultdict(float)
        orders = list(itertools.permutations(hidden))
        for order in orders:
            places = sorted(order, key=lambda j: -round(SCORES[score](hidden[j].tolist()) * 1e9))
            found[tuple(sorted(places[: cut([hidden[j].tolist() for j in places], turn)]))] += 1 / len(orders)
        return [(chance, places) for places, chance in found.items()]

    return sets


def by_counts(steps, length):
    return lambda p, turn: length // steps + (turn < length % steps)


def largest(condition):
    return lambda p, turn: max(n for n in range(1, len(p) + 1) if n == 1 or condition(p, n))


def sure(p, n):
    return (n + 1) * (1 - max(p[n - 1])) < 1.3


FREE = {
    "threshold(threshold=0.6)": ("confidence", lambda p, n: max(p[n - 1]) > 0.6),
    "factor(factor=1.3)": ("confidence", lambda p, n: (n + 1) * (1 - max(p[n - 1])) < 1.3),
    "factor(factor=1.3,published=True)": (
        "confidence",
        lambda p, n: (n == len(p) and (n == 2 or sure(p, n - 1))) or sure(p, n),
    ),
    "entropy-bounded(gamma=0.8)": ("entropy", lambda p, n: sum(map(entropy, p[: n - 1])) <= 0.8 + 1e-9),
    "entropy-bounded(gamma=0.8,proxy=margin)": (
        "margin",
        lambda p, n: sum(map(entropy, p[:n])) - max(map(entropy, p[:n])) <= 0.8 + 1e-9,
    ),
    "entropy-sum(threshold=1.1)": ("chance", lambda p, n: sum(map(entropy, p[: n - 1])) <= 1.1 + 1e-9),
}


@pytest.mark.parametrize(
    ("name", "sampler"),
    [("2-gram", "top-probability"), ("interval", "margin"), ("2-gram", "entropy"), ("leak", "margin")],
)
def test_confidence_samplers_follow_their_law(name, sampler):
    score = "confidence" if sampler == "top-probability" else sampler
    for steps in (1, 2, 4):
        p = adaptive_law(name, ranked(score, by_counts(steps, CASES[name][1])))
        assert p.sum() == pytest.approx(1, abs=1e-9)
        assert passes(name, p, sampler=sampler, steps=steps, seed=steps), steps
    if name != "leak":  # choose, then sample: exact at one token a round
        np.testing.assert_allclose(p, distribution(*CASES[name]), atol=1e-9)


@pytest.mark.parametrize(
    ("name", "sampler"), [*(("2-gram", sampler) for sampler in FREE), ("final", "entropy-bounded(gamma=0.8)")]
)
def test_samplers_with_a_pace_of_their_own_follow_their_law(name, sampler):
    score, condition = FREE[sampler]
    p = adaptive_law(name, ranked(score, largest(condition)))
    assert p.sum() == pytest.approx(1, abs=1e-9)
    assert passes(name, p, sampler=sampler, seed=3)


@dataclass(frozen=True)
class SumOnly(EntropyBounded):
    """Mutant of EB: bounds the sum of all entropies, the largest too."""

    def choose(self, view):
        place = ranking.in_order(view, ranking.SCORES[self.proxy](view), self.ties)
        total = ranking.arranged(view, view.entropy, place).cumsum(1).gather(1, place)
        return Choice(view.hidden & ((total <= self.gamma + 1e-9) | (place == 0)))


def test_a_wrong_entropy_bound_is_caught():
    score, condition = FREE["entropy-bounded(gamma=0.8,proxy=margin)"]
    p = adaptive_law("2-gram", ranked(score, largest(condition)))
    assert passes("2-gram", p, sampler=EntropyBounded(0.8, "margin"))
    assert not passes("2-gram", p, sampler=SumOnly(0.8, "margin"))


# ------------------------------------------------------------------------------------------------ dependence of sets


@dataclass(frozen=True)
class Watched(EntropyBounded):
    """A sampler whose choices are written down: (context, positions)."""

    inner: object = None
    seen: list = None

    def choose(self, view):
        choice = self.inner.choose(view)
        for tokens, reveal in zip(view.tokens.tolist(), choice.reveal.tolist(), strict=True):
            self.seen.append((tuple(tokens), tuple(j for j, now in enumerate(reveal) if now)))
        return choice


def choices(sampler, language, length, rows=30):
    """Every (context, positions) met that is possible."""
    seen: list = []
    generate(language, sampler=Watched(inner=sampler, seen=seen), length=length, rows=rows, seed=2)
    every = sequences(language.vocabulary, length)
    q = distribution(language, length)
    for context, places in sorted(set(seen)):
        fit = np.all([(every[:, j] == t) | (t == language.vocabulary) for j, t in enumerate(context)], 0)
        met = q * fit > 0
        if places and met.any():
            yield context, places, every[met], q[met] / q[met].sum()


def nats(p, every, places):
    """H of these positions together."""
    masses = np.bincount(every[:, list(places)] @ (every.max() + 1) ** np.arange(len(places)), p)
    masses = masses[masses > 0]
    return -float(masses @ np.log(masses))


TINY = ["2-gram, pruned", "3-gram, pruned", "hmm, sparse", "hmm, final", "brackets, 2 kinds", "interval 3, partial"]


@pytest.mark.parametrize("name", TINY)
def test_the_entropy_bound_bounds_the_dependence(name):
    """TC(X_U | x_R) <= gamma for each set U that EB reveals, and for entropy-sum with its threshold."""
    language, length = tiny_languages()[name]
    together = 0
    for sampler in (EntropyBounded(0.7), EntropyBounded(0.7, "margin"), EntropySum(0.7)):
        for _, places, every, p in choices(sampler, language, length):
            correlation = sum(nats(p, every, [j]) for j in places) - nats(p, every, places)
            assert correlation <= 0.7 + 1e-9
            together += len(places) > 1
    assert together > 10


# ---------------------------------------------------------------------------------- what is hidden again, or once more


def remdm_law(name, strategy, delta, o):
    """States are tokens, for conf with the probabilities that they had when they were revealed."""
    denoiser, length = denoiser_of(name)
    v = denoiser.vocabulary
    states = {((v, 1.0),) * length: 1.0}
    for k in range(len(delta)):
        sigma, rate = remdm_rates(strategy, k, delta, o)
        following = defaultdict(float)
        for state, mass in states.items():
            p = said(name, tuple(t for t, _ in state)).tolist()
            weights = {j: math.exp(-psi) for j, (t, psi) in enumerate(state) if t < v}
            options = []
            for j, (t, psi) in enumerate(state):
                if t == v:
                    kept = [round(p[j][x], 12) if strategy == "conf" else 1.0 for x in range(v)]
                    options.append([(1 - rate, (v, 1.0)), *((rate * p[j][x], (x, kept[x])) for x in range(v))])
                else:
                    hide = sigma * weights[j] / sum(weights.values()) if strategy == "conf" else sigma
                    options.append([(hide, (v, 1.0)), (1 - hide, (t, psi))])
            for combination in itertools.product(*([o for o in part if o[0] > 1e-12] for part in options)):
                following[tuple(o for _, o in combination)] += mass * math.prod(w for w, _ in combination)
        states = following
    tokens = defaultdict(float)
    for state, mass in states.items():
        tokens[tuple(t for t, _ in state)] += mass
    return as_array(tokens, v, length)


@pytest.mark.rotates(4)
@pytest.mark.parametrize(("name", "strategy"), [*(("3-gram", strategy) for strategy in REMASKING), ("interval", "cap")])
def test_remdm_follows_its_law(name, strategy):
    o = REMASKING[strategy]
    for steps in (1, 2, 4) if strategy != "loop" else (1, 8):
        p = (
            remdm_law(name, strategy, [1 / steps] * steps, o)
            if steps > 1
            else order_distribution(name, labels([1.0], 4))
        )
        assert p.sum() == pytest.approx(1, abs=1e-9)
        assert passes(name, p, sampler=ReMDM(strategy, **o), steps=steps, seed=steps), steps


def test_the_published_loop_is_another_law():
    """Followed, and not that of the paper's formulas, which it nears as steps grow shorter."""
    apart = []
    for steps in (4, 8, 16):
        ours, theirs = (remdm_law("2-gram", "loop", [1 / steps] * steps, o) for o in (OWN, PUBLISHED))
        assert theirs.sum() == pytest.approx(1, abs=1e-9)
        apart.append(float(abs(ours - theirs).sum()) / 2)
        if steps == 8:
            assert passes("2-gram", theirs, sampler=ReMDM("loop", **PUBLISHED), steps=steps, seed=3)
    assert apart[0] > apart[1] > apart[2] > 1e-4
    assert apart[1] == pytest.approx(0.0046, abs=1e-4)


def test_the_published_factor_is_another_law():
    names = ("factor(factor=1.3)", "factor(factor=1.3,published=True)")
    distributions = [adaptive_law("2-gram", ranked(FREE[name][0], largest(FREE[name][1]))) for name in names]
    assert float(abs(distributions[0] - distributions[1]).sum()) / 2 == pytest.approx(0.138, abs=1e-3)


@dataclass(frozen=True)
class Kept(ReMDM):
    """Mutant: hides again, but reveals as if it did not."""

    def choose(self, view):
        rate = ((view.alpha_next - view.alpha) / (1 - view.alpha)).unsqueeze(1)
        return Choice(view.hidden & (view.rng(Stream.ACCEPT) < rate), hide=super().choose(view).hide)


def farthest_share(maker, strategy, alpha, rows=4000):
    """By how many sigma the share of hidden positions before a step is off 1 - alpha, at most."""
    shares: list[float] = []

    class Shares(maker):
        def choose(self, view):
            shares.append(float(view.hidden.double().mean()))
            return super().choose(view)

    language = CASES["2-gram"][0]
    options = {"schedule": "cosine", "steps": 8, "length": 1, "rows": rows, "seed": 6}
    made = generate(language, sampler=Shares(strategy, **REMASKING[strategy]), **options)
    assert p_value(made.tokens.numpy(), sequences(3, 1), distribution(language, 1)) > ALARM  # at one position exact
    sigma = [max(math.sqrt(a * (1 - a) / rows), 1e-12) for a in alpha]
    return max(abs(share - (1 - a)) / s for share, a, s in zip(shares, alpha, sigma, strict=True))


@pytest.mark.parametrize("strategy", ["cap", "rescale", "switch", "loop"])
def test_remdm_keeps_the_marginals(strategy, monkeypatch):
    """Before each step a position is hidden with probability 1 - alpha, whatever was hidden again."""
    monkeypatch.setattr(Ideal, "rows_at_once", lambda denoiser, length: 4096)
    alpha = [0.0, *schedules.deltas("cosine", 8).cumsum(0).tolist()][:8]
    if strategy == "loop":
        alpha = [0.0, 0.3, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8]
    assert farthest_share(ReMDM, strategy, alpha) < 5
    if strategy != "loop":
        assert farthest_share(Kept, strategy, alpha) > 5


def gibbs_law(name, start, groups):
    """start (V^L), then for each group all of it hidden and drawn from the marginals of the rest."""
    denoiser, length = denoiser_of(name)
    every = sequences(denoiser.vocabulary, length)
    at = {tuple(x): k for k, x in enumerate(every.tolist())}
    for group in groups:
        context = every.copy()
        context[:, group] = denoiser.vocabulary
        marginals = denoiser.posterior(torch.from_numpy(context)).numpy()
        following = np.zeros(len(every))
        for k in np.flatnonzero(start):
            for tokens in itertools.product(range(denoiser.vocabulary), repeat=len(group)):
                new = every[k].copy()
                new[group] = tokens
                following[at[tuple(new.tolist())]] += start[k] * np.prod(marginals[k, group, tokens])
        start = following
    return start


@pytest.mark.rotates(4)
@pytest.mark.parametrize(("name", "stride"), [("2-gram", 0), ("interval", 0), ("interval", 2), ("leak", 2)])
def test_gibbs_follows_its_law(name, stride):
    length = CASES[name][1]
    base = order_distribution(name, labels([0.5, 0.5], length))
    groups = [list(range(k, length, stride or length)) for k in range(stride or length)]
    p = gibbs_law(name, base, groups * 2)
    assert passes(name, p, sampler=Gibbs(sweeps=2, stride=stride), steps=2, seed=8)
    assert not passes(name, base, sampler=Gibbs(sweeps=2, stride=stride), steps=2, seed=8)


def test_gibbs_of_the_language_stays_the_language():
    for name in ("2-gram", "hmm"):
        assert passes(name, distribution(*CASES[name]), sampler="gibbs(inner=left-to-right, sweeps=2)", steps=4, seed=8)


# ------------------------------------------------------------------------------------------- names that users know


def same_tokens(first, second, **options):
    language = random_ngram(2, 5, temperature=2.0, seed=3)
    settings = {"length": 24, "rows": 30, "seed": 1, "steps": 6} | options
    made = [generate(language, sampler=s, **settings).tokens for s in (first, second)]
    return torch.equal(*made)


def test_known_names_are_what_they_are_made_of():
    """But for Dream's counts, which test_repair.py holds against its own loop: in one step all are the same."""
    greedy = "low-confidence(temperature=0, ties=topk)"
    assert same_tokens("llada(block_length=8)", f"blocks(block_length=8, inner='{greedy}')")
    pairs = {
        "dream(alg=entropy, alg_temp=0.2)": "entropy(noise=0.2, ties=topk)",
        "dream(alg=topk_margin, temperature=0)": "margin(temperature=0, ties=topk)",
        "dream(alg=maskgit_plus)": "low-confidence(ties=topk)",
        "dream": "ancestral",
    }
    for name, ours in pairs.items():
        assert same_tokens(name, ours, steps=1, temperature=0.7)
        assert name == "dream" or not same_tokens(name, ours, steps=6, temperature=0.7)
    assert not same_tokens("dream(alg=entropy, alg_temp=0.2)", "dream(alg=entropy)")


def test_random_remasking_is_a_random_order():
    for steps in (1, 2, 4):
        counts = [4 // steps + (k < 4 % steps) for k in range(steps)]
        p = order_distribution("2-gram", fixed(counts))
        assert passes("2-gram", p, sampler="llada(remasking=random, temperature=1)", steps=steps)
