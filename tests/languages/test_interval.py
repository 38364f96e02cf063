"""The interval language: its closed form against its machine, its n-gram, and its bits."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reproduction.intervals import as_hmm, as_ngram
from tests import brute
from unmask.core.errors import UnmaskError
from unmask.languages import Interval

LENGTHS = [(2, 1), (2, 4), (2, 5), (3, 1), (3, 2), (3, 3), (3, 5), (3, 6)]


def contexts(language: Interval, length: int, rows: int = 300) -> torch.Tensor:
    """Contexts of positive probability with any share of hidden positions."""
    rng = np.random.default_rng(length)
    strings = language.sample(rows, length).numpy()
    return torch.from_numpy(np.where(rng.random(strings.shape) < rng.random((rows, 1)), language.vocabulary, strings))


@pytest.mark.parametrize(("width", "length"), LENGTHS)
def test_closed_form_is_the_machine(width, length):
    language, hmm = Interval(width), as_hmm(Interval(width))
    strings = torch.from_numpy(brute.sequences(language.vocabulary, length))
    ours = language.log_prob(strings)
    torch.testing.assert_close(hmm.log_prob(strings), ours, rtol=0, atol=1e-10)
    assert torch.equal(hmm.supports(strings), language.supports(strings))
    tokens = contexts(language, length)
    torch.testing.assert_close(hmm.posterior(tokens), language.posterior(tokens), rtol=0, atol=1e-10)
    torch.testing.assert_close(hmm.log_evidence(tokens), language.log_evidence(tokens), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("width", "length"), [case for case in LENGTHS if case[1] >= case[0] - 1])
def test_closed_form_is_the_ngram_that_says_where_it_stands(width, length):
    """Symbol a V + v is v at position a; any other position is impossible."""
    language, ngram = Interval(width), as_ngram(Interval(width))
    v, place = language.vocabulary, torch.arange(length) % width

    def labelled(tokens):
        return torch.where(tokens == v, ngram.vocabulary, place * v + tokens)

    strings = torch.from_numpy(brute.sequences(v, length))
    torch.testing.assert_close(ngram.log_prob(labelled(strings)), language.log_prob(strings), rtol=0, atol=1e-10)
    assert not ngram.supports((labelled(strings) + v) % ngram.vocabulary).any()
    tokens = contexts(language, length)
    ours = ngram.posterior(labelled(tokens)).unflatten(2, (width, v))
    wanted = torch.zeros_like(ours)
    wanted[:, torch.arange(length), place] = language.posterior(tokens)
    torch.testing.assert_close(ours, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("width", [2, 3, 4, 5])
def test_number_of_states(width):
    machine = Interval(width).as_machine()
    assert machine.states == sum(2 ** ((a - 1) * (width - a + 1) + width - a) for a in range(1, width + 1))
    assert machine.unambiguous
    assert machine.states == {2: 4, 3: 16, 4: 80, 5: 544}[width]


def test_width_5_against_its_machine():
    language, hmm = Interval(5), as_hmm(Interval(5))
    strings = language.sample(50, 12)
    torch.testing.assert_close(hmm.log_prob(strings), language.log_prob(strings), rtol=0, atol=1e-9)
    tokens = contexts(language, 12, 50)
    torch.testing.assert_close(hmm.posterior(tokens), language.posterior(tokens), rtol=0, atol=1e-10)
    assert hmm.entropy(12).value == pytest.approx(language.entropy(12).value, abs=1e-9)


@pytest.mark.parametrize(
    ("width", "length", "bits"), [(3, 3, 3), (3, 4, 5), (3, 5, 6), (3, 6, 6), (5, 512, 1027), (2, 9, 5)]
)
def test_bits(width, length, bits):
    """C(l, 2) an interval; a rest of r positions has C(r, 2) + r (l - r)."""
    language = Interval(width)
    assert language.closed_form.bits(length) == bits
    assert language.entropy(length).value == pytest.approx(bits * math.log(2))
    if language.vocabulary**length <= 20000:
        assert len(brute.support(language, length)[0]) == 2**bits
    strings = language.sample(3, length)
    torch.testing.assert_close(language.log_prob(strings), torch.full((3,), -bits * math.log(2)).double())


@settings(deadline=None, database=None, derandomize=True, max_examples=300)
@given(
    st.integers(2, 4).flatmap(
        lambda w: st.tuples(st.just(w), st.lists(st.integers(0, 2 ** (w - 1)), min_size=1, max_size=9))
    )
)
def test_any_context_copies_the_bits_it_shows(drawn):
    """Impossible contexts too: the tokens that copy every bit of a revealed partner, evenly."""
    width, context = drawn
    language, hidden = Interval(width), 2 ** (width - 1)
    ours = language.posterior(torch.tensor([context]))[0].numpy()
    values = np.arange(hidden)
    for j, token in enumerate(context):
        fits = np.ones(hidden, bool) if token == hidden else values == token
        own, first = j % width + 1, j - j % width
        for i in range(first, min(first + width, len(context))):
            if token == hidden and i != j and context[i] != hidden:
                a, b = sorted((own, i - first + 1))
                mine, theirs = (b - 1, a) if own == a else (a, b - 1)
                fits &= brute.component(values, mine) == brute.component(np.array(context[i]), theirs)
        np.testing.assert_allclose(ours[j], fits / fits.sum(), rtol=0, atol=1e-12)


def test_draws_have_fair_bits():
    """Each bit of each token over 20000 rows of width 5, within 5 standard errors: 1e-6 a bit."""
    strings = Interval(5).sample(20000, 5, seed=3)
    bits = torch.stack([(strings >> c) & 1 for c in range(4)]).double().mean(1)
    assert (bits - 0.5).abs().max() < 5 * 0.5 / math.sqrt(20000)


def test_widths():
    for width in (1, 0, -3, 17):
        with pytest.raises(UnmaskError, match=f"width is {width}"):
            Interval(width)
    assert Interval(16).vocabulary == 2**15
    assert Interval(16).supports(Interval(16).sample(4, 33)).all()


def test_facts():
    facts = Interval(3).describe()
    assert facts["kind"] == "interval"
    assert facts["vocabulary"] == 4
    assert facts["entropy_rate_bits"] == 1
    valid, all_of_them = len(brute.support(Interval(3), 3)[0]), 4**3
    assert facts["valid_fraction_per_interval"] == valid / all_of_them
