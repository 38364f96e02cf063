"""Likelihoods of targets behind contexts: an exact language says its own, whichever way it is asked."""

from __future__ import annotations

import math

import pytest
import torch

from tests.models.open.small import CONFIGS, card, load, published
from tests.models.open.small import tokens as some_tokens
from unmask import languages
from unmask.denoisers import Denoiser, Ideal
from unmask.diagnosis.nelbo import bound, chain, drawn, every, read

FIRST, SIZE = 3, 6


@pytest.fixture(scope="module")
def language():
    return languages.load("paper-2gram")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return load(published(tmp_path_factory.mktemp("small"), "llada", CONFIGS["llada"]), card("llada"))


@pytest.fixture(scope="module")
def row(language):
    return language.sample(1, FIRST + SIZE, seed=5)[0]


class Parity(Denoiser):
    """Of the rows whose sum is even: the last hidden position is known, and nothing of any other."""

    vocabulary = 2

    def posterior(self, tokens, positions=None, time=None):
        hidden = tokens == 2
        missing = torch.where(hidden, 0, tokens).sum(1) % 2
        known = torch.nn.functional.one_hot(missing, 2).double()[:, None].expand(-1, tokens.shape[1], -1)
        said = torch.where((hidden.sum(1) == 1)[:, None, None], known, 0.5)
        return (
            said
            if positions is None
            else said.gather(1, positions.expand(len(tokens), -1)[..., None].expand(-1, -1, 2))
        )


def test_of_an_exact_language_all_of_them_are_its_own(language, row):
    """log q(y | c) = log q(c y) - log q(c): the chain rule, and the mean over all sets of positions."""
    exact = float(language.log_prob(row[None])[0] - language.log_prob(row[None, :FIRST])[0])
    assert chain(Ideal(language), row, FIRST).nats == pytest.approx(exact, abs=1e-9)
    whole = bound(Ideal(language), row, FIRST, every(SIZE))
    assert whole.nats == pytest.approx(exact, abs=1e-9)
    assert (whole.error, whole.model_calls) == (0, 2**SIZE - 1)
    some = bound(Ideal(language), row, FIRST, drawn(SIZE, 4000, seed=1))
    assert 0 < some.error < 0.2
    assert abs(some.nats - exact) < 5 * some.error


def test_sizes_are_stratified():
    """A set of m of T places says T log 1/2, and nothing where m = 1: all that is random is how many have m = 1, which
    is fixed but for one set; K independent sets of a uniform size have an error of T log 2 sqrt(5 / 36 K)."""
    row = torch.tensor([1, 0, 1, 1, 0, 1, 1, 1, 0])
    exact = (SIZE - 1) * math.log(0.5)
    for seed in range(10):
        found = bound(Parity(), row, FIRST, drawn(SIZE, 60, seed))
        assert abs(found.nats - exact) < SIZE * math.log(2) / 60
        assert found.error < SIZE * math.log(2) * 2 / 60 < SIZE * math.log(2) * (5 / 36 / 60) ** 0.5
    assert bound(Parity(), row, FIRST, every(SIZE)).nats == pytest.approx(exact, abs=1e-12)
    assert chain(Parity(), row, FIRST).nats == pytest.approx(exact, abs=1e-12)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", ["paper-2gram", "paper-hmm"])
@pytest.mark.parametrize(("draws", "times", "least", "most"), [(8, 1000, 0.92, 1.0), (64, 400, 0.92, 0.98)])
def test_two_standard_errors_cover_the_truth(monkeypatch, name, draws, times, least, most, seed):
    """Of 40 tokens, as often as 1.96 of a normal number would; few sets show their error badly, and rather too much."""
    monkeypatch.setattr("unmask.diagnosis.nelbo.AT_ONCE", 64)
    language = languages.load(name)
    row = language.sample(1, 40, seed=seed)[0]
    exact, denoiser = float(language.log_prob(row[None])[0]), Ideal(language)
    found = [bound(denoiser, row, 0, drawn(40, draws, number)) for number in range(times)]
    away, errors = torch.tensor([(one.nats - exact, one.error) for one in found], dtype=torch.float64).unbind(1)
    covered = (away.abs() <= 1.96 * errors).double().mean()
    assert least <= covered <= most
    assert abs(float(away.mean())) < 5 * float(away.std()) / times**0.5 + 0.04 * float(away.std())
    assert 0.9 < float(errors.square().mean().sqrt() / away.std()) < 1.7


def test_an_error_is_as_large_as_what_seeds_differ_by(small):
    row = some_tokens(1, FIRST + 9, hidden=0, seed=4)[0]
    made = [bound(small, row, FIRST, drawn(9, 36, seed)) for seed in range(60)]
    nats, errors = (torch.tensor([getattr(one, name) for one in made]) for name in ("nats", "error"))
    assert float(errors.mean() / nats.std()) == pytest.approx(1, rel=0.35)


def test_the_chain_rule_is_that_of_its_contexts(small):
    row = some_tokens(1, 8, hidden=0, seed=2)[0]
    found = chain(small, row, 3)
    nats, greedy = 0.0, True
    for place in range(3, 8):
        tokens = row.clone()
        tokens[place:] = small.vocabulary
        said = small.engine(tokens[None], tokens[None]).at(torch.tensor([0]), torch.tensor([place]), None)
        nats += float(said.of(row[place : place + 1]).log())
        greedy &= int(said.best) == int(row[place])
    assert found.nats == pytest.approx(nats, abs=1e-6)
    assert (found.greedy, found.model_calls) == (greedy, 5)
    for place in range(3, 8):  # what is the likeliest at each place is greedy
        tokens = row.clone()
        tokens[place:] = small.vocabulary
        row[place] = int(
            small.engine(tokens[None], tokens[None]).at(torch.tensor([0]), torch.tensor([place]), None).best
        )
    assert chain(small, row, 3).greedy


def test_an_ar_model_reads_targets_of_any_lengths(tmp_path):
    model = load(published(tmp_path, "qwen2", CONFIGS["qwen2"]), card("qwen2", block=1))
    rows = [some_tokens(1, length, hidden=0, seed=length)[0] % 37 for length in (9, 4, 1)]  # the mask is never said
    firsts = [5, 1, 0]
    for one, row, first in zip(read(model, rows, firsts), rows, firsts, strict=True):
        whole = read(model, [row], [0])[0].nats
        before = read(model, [row[:first]], [0])[0].nats if first else 0.0
        assert one.nats == pytest.approx(whole - before, abs=1e-9)
        assert (one.error, one.model_calls) == (0, 1)
    row = torch.cat([rows[0][:5], torch.zeros(4, dtype=torch.int64)])
    for place in range(5, 9):
        best = max(
            range(40), key=lambda token: read(model, [torch.cat([row[:place], torch.tensor([token])])], [place])[0].nats
        )
        row[place] = best
    assert read(model, [row], [5])[0].greedy
    row[8] = (row[8] + 1) % 36
    assert not read(model, [row], [5])[0].greedy
