"""What single rules promise besides the table: dependence within a bound, marginals that ReMDM keeps, names."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from tests.brute import distribution, sequences, tiny_languages
from tests.doubles import Choosing, Ordering
from tests.samplers import laws
from tests.samplers.laws import follows
from tests.samplers.plain import LENGTH, SOURCES
from tests.samplers.table import LOOP, PUBLISHED, ROWS, SWITCH, options
from unmask import UnmaskError, generate
from unmask.core.chance import Stream
from unmask.denoisers import Ideal, Table
from unmask.languages import load, random_ngram
from unmask.samplers import SAMPLERS, Choice, schedules
from unmask.samplers.rules.adaptive import EntropyBounded, EntropySum
from unmask.samplers.rules.remdm import ReMDM

# ------------------------------------------------------------------------------------------------- dependence of sets


def choices(sampler, language, length, rows=30):
    """Every (context, positions) met that is possible."""
    seen: list = []

    def choose(view):
        choice = sampler.choose(view)
        for tokens, reveal in zip(view.tokens.tolist(), choice.reveal.tolist(), strict=True):
            seen.append((tuple(tokens), tuple(j for j, now in enumerate(reveal) if now)))
        return choice

    generate(language, sampler=Choosing(choose, "free"), length=length, rows=rows, seed=2)
    every = sequences(language.vocabulary, length)
    q = distribution(language, length)
    for context, places in sorted(set(seen)):
        fit = np.all([(every[:, j] == t) | (t == language.vocabulary) for j, t in enumerate(context)], 0)
        met = q * fit > 0
        if places and met.any():
            yield context, places, every[met], q[met] / q[met].sum()


def entropy_of(p, every, places):
    """H of these positions together, in nats."""
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
            correlation = sum(entropy_of(p, every, [j]) for j in places) - entropy_of(p, every, places)
            assert correlation <= 0.7 + 1e-9
            together += len(places) > 1
    assert together > 10


def test_certain_positions_come_together_under_eb():
    """gamma = 0 reveals what is certain and one more: on the interval language the last place of each interval is."""
    made = generate(load("interval-5"), sampler="entropy-bounded(gamma=0)", length=30, rows=20, seed=3)
    assert bool((made.model_calls < 30).all())
    assert bool(load("interval-5").supports(made.tokens).all())


# --------------------------------------------------------------------------------------------------------------- ReMDM


def test_the_published_loop_is_another_law():
    """Not that of the paper's formulas, which it nears as steps grow shorter; test_table.py tries it."""
    theirs = options(PUBLISHED)
    ours = {name: value for name, value in theirs.items() if name != "published"}
    found = [[laws.remdm(**o)("2-gram", steps) for o in (ours, theirs)] for steps in (4, 8, 16)]
    apart = [float(abs(p - q).sum()) / 2 for p, q in found]
    assert apart[0] > apart[1] > apart[2] > 1e-4
    assert apart[1] == pytest.approx(0.0046, abs=1e-4)


def test_the_published_factor_is_another_law():
    ours, theirs = (ROWS[f"factor(factor=1.3{more})"].law("2-gram", None) for more in ("", ", published=True"))
    assert float(abs(ours - theirs).sum()) / 2 == pytest.approx(0.138, abs=1e-3)


@dataclass(frozen=True)
class Kept(ReMDM):
    """Mutant: hides again, but reveals as if it did not."""

    def choose(self, view):
        rate = ((view.alpha_next - view.alpha) / (1 - view.alpha)).unsqueeze(1)
        return Choice(view.hidden & (view.rng(Stream.ACCEPT) < rate), hide=super().choose(view).hide)


def farthest_share(sampler, alpha, rows=4000):
    """By how many sigma the share of hidden positions before a step is off 1 - alpha, at most."""
    shares: list[float] = []

    def choose(view):
        shares.append(float(view.hidden.double().mean()))
        return sampler.choose(view)

    how = {"schedule": "cosine", "steps": 8, "length": 1, "rows": rows, "seed": 6}
    made = generate(laws.CHAIN, sampler=Choosing(choose, "steps", revises=True), **how)
    assert follows(made.tokens, "2-gram", distribution(laws.CHAIN, 1))  # at one position exact
    sigma = [max(math.sqrt(a * (1 - a) / rows), 1e-12) for a in alpha]
    return max(abs(share - (1 - a)) / s for share, a, s in zip(shares, alpha, sigma, strict=True))


CAP, RESCALE = ("remdm(strategy='cap', eta=0.3)", "remdm(strategy='rescale', eta=0.5)")


@pytest.mark.parametrize("sampler", [CAP, RESCALE, SWITCH, LOOP])
def test_remdm_keeps_the_marginals(sampler, monkeypatch):
    """Before each step a position is hidden with probability 1 - alpha, whatever was hidden again."""
    monkeypatch.setattr(Ideal, "rows_at_once", lambda denoiser, length: 4096)
    alpha = [0.0, *schedules.deltas("cosine", 8).cumsum(0).tolist()][:8]
    if sampler == LOOP:
        alpha = [0.0, 0.3, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8]
    assert farthest_share(SAMPLERS.make(sampler), alpha) < 5
    if sampler != LOOP:
        assert farthest_share(Kept(**options(sampler)), alpha) > 5


# ------------------------------------------------------------------------------------------- names that users know

SAME = [  # the name, what it is made of, and with which options both write the same tokens
    ("klass(threshold=0.4, history=0)", "threshold(threshold=0.4)", {}),
    ("localleap(threshold=0.4, radius=0)", "threshold(threshold=0.4)", {}),
    ("localleap(threshold=0.4, relief=0)", "threshold(threshold=0.4)", {}),
    ("llada(block_length=8)", "blocks(block_length=8, inner='low-confidence(temperature=0, ties=topk)')", {}),
    # but for Dream's counts, which test_published.py holds against its own loop: in one step all are the same
    ("dream(alg=entropy, alg_temp=0.2)", "entropy(noise=0.2, ties=topk)", {"steps": 1, "temperature": 0.7}),
    ("dream(alg=topk_margin, temperature=0)", "margin(temperature=0, ties=topk)", {"steps": 1, "temperature": 0.7}),
    ("dream(alg=maskgit_plus)", "low-confidence(ties=topk)", {"steps": 1, "temperature": 0.7}),
    ("dream", "ancestral", {"steps": 1, "temperature": 0.7}),
]


def same_tokens(first, second, **more):
    language = random_ngram(2, 5, temperature=2.0, seed=3)
    how = {"length": 24, "rows": 30, "seed": 1, "steps": 6} | more
    return torch.equal(*(generate(language, sampler=sampler, **how).tokens for sampler in (first, second)))


@pytest.mark.parametrize(("name", "ours", "more"), SAME)
def test_known_names_are_what_they_are_made_of(name, ours, more):
    assert same_tokens(name, ours, **more)
    assert "steps" not in more or name == "dream" or not same_tokens(name, ours, temperature=0.7)


def test_names_that_differ():
    assert not same_tokens("dream(alg=entropy, alg_temp=0.2)", "dream(alg=entropy)")


def test_little_is_compared_with_what_was_said_before(monkeypatch):
    """KLASS compares those positions alone that may yet end a run; all of them are the same sampler."""
    counts = []
    ask = Table.divergence
    monkeypatch.setattr(Table, "divergence", lambda one, other: counts.append(len(one)) or ask(one, other))
    how = {"sampler": "klass(threshold=0.6, kl=0.01)", "length": LENGTH, "rows": 20, "seed": 1}
    few = generate(SOURCES["leak"], **how)
    compared, counts[:] = sum(counts), []
    monkeypatch.setattr("unmask.samplers.rules.adaptive.math.sqrt", lambda kl: 9.0)
    every = generate(SOURCES["leak"], **how)
    assert torch.equal(few.tokens, every.tokens)
    assert 0 < compared < sum(counts) / 2


def test_an_order_has_no_memory():
    sampler = Ordering(lambda delta, hidden, rng: sampler.memory["order"])
    with pytest.raises(UnmaskError, match=r"reads self.memory; expected no state in a sampler"):
        generate(SOURCES["leak"], sampler=sampler, length=4, rows=1)
