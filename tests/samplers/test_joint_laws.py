"""Every joint draw with every sampler that can have one, against tables of strings: the laws of what is written.

Twelve tiny languages, N = 1, 2, 3 and L steps, with given tokens, rows of several lengths, and marginals that exclude
every string. The reference fits dense tables. A rule chooses positions by the context alone, so the tokens of each
(context, positions) have the distribution J(x_S | x_R), whatever the rule; and the log-likelihood of a text is its sum.
A chi-square test of one language and draw, over all its rows, has a false-alarm rate of 1e-5.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from tests.brute import sequences, tiny_languages
from tests.doubles import Everywhere
from tests.samplers.joints import Tables
from unmask import generate
from unmask.denoisers import Ideal
from unmask.diagnosis.likelihood import follow
from unmask.languages import Answers
from unmask.samplers import SAMPLERS
from unmask.samplers.contract import as_sampler
from unmask.samplers.joint import Together, as_joint, log_paths
from unmask.samplers.schedules import deltas

ROWS, ALARM = 400, 1e-5
LANGUAGES = [
    *("hmm, 3 tokens", "hmm, sparse", "hmm, final", "hmm, periodic", "2-gram, pruned", "3-gram, pruned"),
    *("4-gram, pruned", "interval 2", "interval 3, partial", "sums", "brackets, 2 kinds", "brackets, 1 kind, stop"),
]
DRAWS = ["fitted", "fitted(sweeps=1)", "alone", "alone(sweeps=0)", "coupled", "soft", "soft(order=3)"]
ASKS_FOR_ALL = "entropy"  # scores all hidden positions, and reveals some


def can_be_joint(name):
    sampler = SAMPLERS.make(name)
    return sampler.distribution == "order" and not sampler.revises


RULES = [*filter(can_be_joint, SAMPLERS.names())]


class Biased(Everywhere):
    """The ideal denoiser, which never expects one token: where the language needs it, every string is excluded."""

    def __init__(self, language, length, never):
        self.language, self.vocabulary, self.never = language, language.vocabulary, never
        self.inner = Ideal(language)

    def marginals(self, tokens):
        out = self.inner.posterior(tokens).clone()
        out[..., self.never] = 0
        total = out.sum(-1, keepdim=True)
        other = torch.eye(self.vocabulary, dtype=torch.float64)[(self.never + 1) % self.vocabulary]
        return torch.where(total > 0, out / total, other)


def steps_of(given, tokens, order, vocabulary):
    """(context, positions, tokens of these) of each step of one row, of lists: tensors take four times as long."""
    for step in sorted({*order} - {0}):
        shown = [k < step and (k > 0 or start < vocabulary) for k, start in zip(order, given, strict=True)]
        context = tuple(token if seen else vocabulary for token, seen in zip(tokens, shown, strict=True))
        now = tuple(j for j, k in enumerate(order) if k == step)
        yield context, now, tuple(tokens[j] for j in now)


def rows_of(made):
    """(given, tokens, order) of each row at its own length."""
    parts = (part.tolist() for part in (made.given, made.tokens, made.order))
    for size, *row in zip(made.lengths.tolist(), *parts, strict=True):
        yield [part[:size] for part in row]


class Case:
    """One language, denoiser and draw: all rows that samplers write, and their likelihoods."""

    def __init__(self, denoiser, length, draw, rules=RULES, given=None, rows=ROWS):
        self.denoiser, self.length, self.draw, self.given = denoiser, length, draw, given
        self.rules, self.rows = rules, rows
        self.tables = {}

    def of(self, length):
        if length not in self.tables:
            joint = as_joint(self.draw, as_sampler("ancestral"), self.denoiser, length)
            self.tables[length] = Tables(self.denoiser, joint, length)
        return self.tables[length]

    def written(self, draw=None):
        """Generations of every rule and number of steps."""
        lengths = {"length": self.length, "rows": self.rows} if self.given is None else {"given": self.given}
        halves = f"blocks(block_length={(self.length + 1) // 2}, inner='entropy')"
        for number, rule in enumerate([*self.rules, halves]):
            for steps in sorted({1 + (rule == halves), 2, 3, self.length}):
                how = {"sampler": rule, "steps": steps, "seed": 100 * number + steps, "draw": draw or self.draw}
                yield how, generate(self.denoiser, **how, **lengths)

    def counts(self, draw=None):
        """{(context, positions): counts of tokens}."""
        found = defaultdict(Counter)
        for _, made in self.written(draw):
            for row in rows_of(made):
                for context, step, tokens in steps_of(*row, made.vocabulary):
                    found[context, step][tokens] += 1
        return found

    def p(self, draw=None):
        """The p-value of a chi-square test over all contexts and steps; 0 for an impossible row."""
        statistic, freedom = 0.0, 0
        for (context, step), counts in self.counts(draw).items():
            law, n = self.of(len(context)).law(context, step), sum(counts.values())
            if counts.keys() - {tokens for tokens, mass in law.items() if mass > 0}:
                return 0.0
            usual = [tokens for tokens, mass in law.items() if mass * n >= 5]
            rest = n - n * sum(law[tokens] for tokens in usual)
            cells = [(counts[tokens], n * law[tokens]) for tokens in usual]
            if rest >= 5:
                cells.append((n - sum(counts[tokens] for tokens in usual), rest))
            if sum(wanted for _, wanted in cells) < n - 1e-6:
                # a tail too small to count alone joins the smallest cell
                cells.sort(key=lambda cell: cell[1])
                seen = n - sum(found for found, _ in cells)
                cells[:1] = [(cells[0][0] + seen, cells[0][1] + rest)] if cells else []
            if len(cells) > 1:
                statistic += sum((seen - wanted) ** 2 / wanted for seen, wanted in cells)
                freedom += len(cells) - 1
        return float(chi2.sf(statistic, freedom)) if freedom else 1.0


@pytest.mark.long
@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("name", LANGUAGES)
def test_what_is_written_has_the_law_of_its_draw(name, draw):
    language, length = tiny_languages()[name]
    assert Case(Ideal(language), length, draw).p() > ALARM


@pytest.mark.long
@pytest.mark.parametrize("draw", ["fitted", "alone", "coupled"])
@pytest.mark.parametrize("name", LANGUAGES)
def test_given_tokens_and_rows_of_several_lengths(name, draw):
    language, length = tiny_languages()[name]
    short = language.nearest_lengths(length - 1)[0]
    given = []
    for number, size in enumerate([length, short] * 2):
        row = language.sample(1, size, seed=number)[0]
        row[torch.arange(size) % 3 != number % 3] = language.vocabulary
        given += [row.tolist()] * (ROWS // 4)
    assert Case(Ideal(language), length, draw, given=given).p() > ALARM


@pytest.mark.long
@pytest.mark.parametrize("draw", ["fitted", "alone", "coupled"])
@pytest.mark.parametrize(
    ("name", "never"), [("2-gram, pruned", 2), ("3-gram, pruned", 1), ("4-gram, pruned", 0), ("hmm, periodic", 0)]
)
def test_marginals_that_exclude_every_string(name, never, draw):
    """Every string of the language has the token that is never expected."""
    language, length = tiny_languages()[name]
    biased = Biased(language, length, never)
    made = generate(biased, length=length, rows=50, steps=1, draw=draw)
    assert int(made.fallbacks.min()) > 0
    assert Case(biased, length, draw).p() > ALARM


@pytest.mark.long
@pytest.mark.parametrize("draw", ["fitted", "alone", "coupled", "soft"])
@pytest.mark.parametrize("name", ["hmm, sparse", "2-gram, pruned", "interval 2", "sums"])
def test_likelihoods_are_sums_of_the_same_laws(name, draw):
    """Of the sampler's own path (`of_sampler`), and of the recorded order (the gap's): exact, text by text."""
    language, length = tiny_languages()[name]
    case = Case(Ideal(language), length, draw, rows=20)
    for how, made in case.written():
        joint = as_joint(draw, as_sampler(how["sampler"]), case.denoiser, length)
        start, numbers = torch.full_like(made.tokens, made.vocabulary), torch.arange(len(made.tokens))
        delta = deltas("linear", how["steps"])
        path = follow(case.denoiser, as_sampler(how["sampler"]), made.tokens, start, delta, numbers, how["seed"], joint)
        assert torch.equal(path.order, made.order)  # the same random numbers, so the same path
        wanted = [
            sum(np.log(case.of(length).law(context, step)[tokens]) for context, step, tokens in steps)
            for steps in (steps_of(*row, made.vocabulary) for row in rows_of(made))
        ]
        assert path.nats.numpy() == pytest.approx(wanted, abs=1e-9)
        assert log_paths(case.denoiser, made.tokens, made.order, joint).numpy() == pytest.approx(wanted, abs=1e-9)


def test_a_draw_of_all_that_was_asked_is_noticed(monkeypatch):
    """What `alone` did once: with a rule that scores all positions, it was `fitted`."""
    weights = np.random.default_rng(1).exponential(size=81) ** 2
    kept = weights > 0.5
    language = Answers(sequences(3, 4)[kept].tolist(), 3, weights[kept].tolist())
    case = Case(Ideal(language), 4, "alone", rules=[ASKS_FOR_ALL], rows=4000)
    assert case.p() > ALARM
    assert case.p(draw="fitted") < 1e-9
    monkeypatch.setattr(Together, "_drawn_together", lambda self, now: self._asked[1])
    assert case.p() < 1e-9
