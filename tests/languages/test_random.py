"""Random languages and presets: what is pruned, what is kept, and that a seed is all there is to them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unmask.core.errors import UnmaskError
from unmask.languages import PRESETS, Language, load, random_hmm, random_ngram, sparse_hmm
from unmask.languages.presets import is_random, random_rows, unseeded, varied
from unmask.languages.properties import primitive

RANDOM = [name for name in PRESETS.makers if is_random(name)]
TABLES = {"n-gram": (8, 2.0, 0.008), "4-gram": (8, 2.0, 0.005), "hmm A": (32, 3.2, 0.003), "hmm B": (8, 3.2, 0.003)}
PRUNED = 0.246, 0.185, 0.66, 0.38


def length_of(language: Language) -> int:
    return language.nearest_lengths(40)[-1]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", PRESETS.makers)
def test_presets_support_their_own_draws(name, seed):
    """Draws of q are valid, those of a neighbouring seed mostly are not where there is anything pruned for SER."""
    language = load(varied(name, seed=seed))
    length = length_of(language)
    drawn = language.sample(20, length, seed=seed)
    assert language.supports(drawn).all()
    assert language.describe()["kind"] == language.kind
    if name in RANDOM and name != "paper-hmm":
        assert not load(f"{name}(seed={seed + 3})").supports(drawn).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", RANDOM)
def test_unpruned_presets_support_every_string(name, seed):
    language = load(f"{name}(seed={seed}, pruned=False)")
    strings = torch.from_numpy(np.random.default_rng(seed).integers(language.vocabulary, size=(200, 30)))
    assert language.supports(strings).all()
    assert name == "paper-hmm" or not load(f"{name}(seed={seed})").supports(strings).all()


@pytest.mark.parametrize("name", sorted(set(PRESETS.makers) - set(RANDOM)))
def test_rules_cannot_be_unpruned(name):
    with pytest.raises(UnmaskError, match=f"language {name!r}.*'pruned'"):
        load(f"{name}(pruned=False)")


@pytest.mark.parametrize("name", PRESETS.makers)
def test_a_seed_is_the_language(name):
    first, same, next_ = (load(varied(name, seed=seed)).to_dict() for seed in (5, 5, 6))
    assert first == same
    assert (first != next_) == (name in RANDOM)


@pytest.mark.parametrize("name", PRESETS.makers)
def test_languages_that_differ_in_their_seed_alone_are_pooled(name):
    assert {unseeded(varied(name, seed=seed)) for seed in range(3)} == {name}
    open_ended = {unseeded(varied(name, seed=seed, pruned=False)) for seed in range(3)}
    assert open_ended == {f"{name}(pruned=False)" if name in RANDOM else name}
    assert unseeded("language(1).json") == varied("language(1).json", seed=2) == "language(1).json"


def test_unknown_presets_name_the_nearest():
    with pytest.raises(UnmaskError, match="'paper-2grm'; did you mean paper-2gram"):
        load("paper-2grm")


@pytest.mark.parametrize(("table", "share"), list(zip(TABLES, PRUNED, strict=True)))
def test_thresholds_prune_as_printed(table, share):
    """theory.md 3, printed to 2 or 3 digits: within 0.012 over 4000 rows, three times their own standard error."""
    columns, temperature, threshold = TABLES[table]
    zero = random_rows(4000, columns, temperature, threshold, seed=1, table=0) == 0
    assert zero.mean(1).std() / np.sqrt(4000) < 0.004
    assert zero.mean() == pytest.approx(share, abs=0.012)


def test_pruned_rows():
    """Rows sum to 1, the largest entry stays whatever the threshold, and nothing kept was below it."""
    whole = random_rows(300, 8, 2.0, 0.0, 0, 7)
    for threshold in (0.05, 0.999):
        rows = random_rows(300, 8, 2.0, threshold, 0, 7)
        np.testing.assert_allclose(rows.sum(1), 1, rtol=0, atol=1e-12)
        top = np.arange(8) == whole.argmax(1)[:, None]
        np.testing.assert_array_equal(rows > 0, (whole >= threshold) | top)
        np.testing.assert_allclose(
            rows, np.where(rows > 0, whole, 0) / np.where(rows > 0, whole, 0).sum(1, keepdims=True)
        )
    assert (whole > 0).all()


def test_softmax_rows_have_the_right_law():
    """log-ratios of neighbours are N(0, 2 temperature^2): mean and variance within 5 standard errors of 16000."""
    rows = np.log(random_rows(16000, 2, 2.0, 0.0, seed=2, table=0))
    ratios = rows[:, 0] - rows[:, 1]
    assert abs(ratios.mean()) < 5 * np.sqrt(8 / 16000)
    assert abs(ratios.var() - 8) < 5 * 8 * np.sqrt(2 / 16000)


@pytest.mark.parametrize("seed", range(5))
def test_sparse_hmm(seed):
    """Four successors, the largest of a row; state s emits s mod 8; a primitive machine."""
    language = sparse_hmm(seed=seed)
    assert (language.initial == 1 / 32).all()
    np.testing.assert_array_equal(language.emission, np.eye(8)[np.arange(32) % 8])
    assert primitive(language.machine)
    drawn = (random_rows(32, 32, 1.0, 0.0, seed, 3 + attempt) for attempt in range(10))
    largest = (np.where(rows >= np.sort(rows)[:, -4:-3], rows, 0) for rows in drawn)
    assert any(np.allclose(language.transition, rows / rows.sum(1, keepdims=True), rtol=1e-12) for rows in largest)
    assert (sparse_hmm(successors=None, seed=seed).transition > 0).all()


def test_machines_are_drawn_until_one_is_primitive(monkeypatch):
    """The third draw is taken; after 1000 nothing more is hoped for."""
    answers = [False, False, True]
    monkeypatch.setattr("unmask.languages.presets.primitive", lambda machine: answers.pop(0))
    third = random_rows(4, 4, 1.0, 0.0, 0, 3 + 2)
    np.testing.assert_allclose(sparse_hmm(4, 2, None).transition, third, rtol=1e-12)
    monkeypatch.setattr("unmask.languages.presets.primitive", lambda machine: False)
    with pytest.raises(UnmaskError, match="1000 draws gave no primitive machine of 4 states and 2 successors"):
        sparse_hmm(4, 2, 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: random_ngram(2, temperature=0), "temperature is 0; expected a positive number"),
        (lambda: random_ngram(2, threshold=1.0), "threshold is 1.0; expected a number from 0 to below 1"),
        (lambda: random_ngram(1), "order is 1"),
        (lambda: random_hmm(states=0), "states is 0"),
    ],
)
def test_what_cannot_be_drawn(make, message):
    with pytest.raises(UnmaskError, match=message):
        make()
