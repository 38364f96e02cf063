"""Learning error: planted ones are found exactly, and what it adds to the NELBO is what the network's own NELBO says.

Statistical tests have fixed seeds; bounds of five standard errors raise a false alarm in 10^6.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations

import pytest
import torch

from unmask import UnmaskError, generate, languages
from unmask.denoisers import Ideal, Perturbed
from unmask.diagnosis.learning import LANGUAGE, of_language, of_sampler
from unmask.diagnosis.loss_curve import loss_curve
from unmask.languages import random_ngram
from unmask.models.trained import Network, Shape, Trunk
from unmask.samplers.schedules import deltas
from unmask.theory.known import curve


def noisy(kind: str, vocabulary: int, length: int, seed: int = 3) -> Network:
    torch.manual_seed(seed)
    trunk = Trunk(Shape(kind, vocabulary, length, hidden=8, layers=1, heads=1)).eval()
    torch.nn.init.normal_(trunk.head.weight, std=0.3)
    return Network(mdm=trunk) if kind == "mdm" else Network(ar=trunk)


@pytest.mark.parametrize("name", ["paper-2gram", "sparse-hmm"])
@pytest.mark.parametrize("causal", [False, True])
def test_an_error_of_known_size_is_measured_exactly(name, causal):
    language, epsilon = languages.load(name), 0.03
    planted = Perturbed(language, "leak", epsilon)
    for found in (
        of_language(planted, language, 12, rows=5, looks=4, causal=causal),
        of_sampler(planted, language, 12, steps=6, rows=5, looks=3, causal=causal),
    ):
        assert found.nats.min() == pytest.approx(epsilon, rel=1e-6)
        assert found.largest == pytest.approx(epsilon, rel=1e-6)
        assert found.mean().value == pytest.approx(epsilon, rel=1e-6)
        assert found.quantile() == pytest.approx(epsilon, rel=1e-6)
    exact = of_language(planted, language, 12, rows=5, looks=4, causal=causal)
    assert exact.excess().value == pytest.approx(12 * epsilon, rel=1e-6)
    if not causal:
        assert exact.excess(deltas([0.5, 0.3, 0.2])).value == pytest.approx(12 * epsilon, rel=1e-6)


def test_the_ideal_denoiser_has_nothing_to_learn():
    language = languages.load("paper-3gram")
    assert of_language(Ideal(language), language, 10, rows=4).largest < 1e-12
    assert of_language(Ideal(language), language, 10, rows=4, causal=True).largest < 1e-12


@cache
def added(length):
    """(what is measured of a network, what is lost on average where k places are known): by enumeration of all x, all
    sets that are revealed and all positions."""
    language = random_ngram(2, 3, seed=4)
    network = noisy("mdm", 3, length)
    strings = torch.cartesian_prod(*[torch.arange(3)] * length)
    chance = language.log_prob(strings).exp()
    by_count = torch.zeros(length, dtype=torch.float64)
    for k in range(length):
        sets = list(combinations(range(length), k))
        for shown in sets:
            context = torch.full_like(strings, 3)
            context[:, shown] = strings[:, shown]
            possible = chance > 0
            truth = strings[possible].unsqueeze(2)
            context = context[possible]
            ratio = language.posterior(context).gather(2, truth) / network.posterior(context).gather(2, truth)
            hidden = (context == 3).double()
            loss = (ratio.squeeze(2).log() * hidden).sum(1) / hidden.sum(1)
            by_count[k] += (chance[possible] * loss).sum() / len(sets)
    return of_language(network, language, length, rows=4000, looks=length, seed=2), by_count


@pytest.mark.parametrize("steps", [1, 3, None])
def test_what_learning_adds_is_the_difference_of_the_nelbos(steps):
    length = 4
    measured, by_count = added(length)
    delta = None if steps is None else deltas("linear", steps)
    expected = float(by_count.sum())
    if delta is not None:
        before = torch.cat([torch.zeros(1), delta.cumsum(0)[:-1]]).double()
        binomial = torch.tensor(
            [[math.comb(length - 1, k) * p**k * (1 - p) ** (length - 1 - k) for k in range(length)] for p in before]
        ).double()
        expected = float((delta.unsqueeze(1) * binomial * length * by_count).sum())
    found = measured.excess(delta)
    error = (found.high - found.low) / 3.92
    assert error < 0.05 * expected
    assert abs(found.value - expected) < 5 * error + 1e-9


def test_it_agrees_with_the_loss_curve():
    language, length = languages.load("paper-2gram"), 16
    network = noisy("mdm", 8, length)
    delta = deltas("linear", 4)
    nelbo = loss_curve(network, language.sample(1500, length, seed=9), seed=5).nelbo(delta)
    excess = of_language(network, language, length, rows=300, seed=6).excess(delta)
    ideal = curve(language, length).nelbo(delta).value
    assert excess.low - 0.02 * ideal < nelbo.value - ideal < excess.high + 0.02 * ideal


def test_an_ar_model_loses_kl_of_whole_sequences():
    language, length = random_ngram(2, 3, seed=4), 4
    network = noisy("ar", 3, length)
    strings = torch.cartesian_prod(*[torch.arange(3)] * length)
    log_q = language.log_prob(strings)
    read = torch.cat([torch.full((len(strings), 1), 3), strings[:, :-1]], 1)
    distribution = network.causal(len(strings), length).extend(read)
    log_p = distribution.of(strings.reshape(-1)).view_as(strings).log().sum(1)
    possible = torch.isfinite(log_q)
    truth = float((log_q.exp() * (log_q - log_p))[possible].sum())
    found = of_language(network, language, length, rows=4000, causal=True).excess()
    assert abs(found.value - truth) < 5 * (found.high - found.low) / 3.92


def test_contexts_of_the_sampler_are_those_that_it_met():
    language, length, steps = languages.load("paper-2gram"), 12, 4
    network = noisy("mdm", 8, length)
    found = of_sampler(network, language, length, steps=steps, rows=6, looks=length, seed=3)
    made = generate(network, steps=steps, length=length, rows=6, seed=3)
    expected = []
    for tokens, order in zip(made.tokens, made.order, strict=True):
        for turn in order.unique():
            context = torch.where(order < turn, tokens, 8).unsqueeze(0)
            if torch.isfinite(language.log_evidence(context)):
                exact, ours = language.posterior(context)[0], network.posterior(context)[0]
                loss = (torch.xlogy(exact, exact) - torch.xlogy(exact, ours)).sum(1)
                expected.append(loss[context[0] == 8])
    torch.testing.assert_close(found.nats, torch.cat(expected))
    assert found.impossible > 0  # a network that has learned nothing writes what cannot be
    with pytest.raises(UnmaskError, match="expected contexts of the language"):
        found.excess()


def test_a_table_by_what_is_hidden():
    language, length = languages.load("paper-2gram"), 16
    found = of_language(noisy("mdm", 8, length), language, length, rows=20)
    said = found.to_dict(bins=4)
    assert said["contexts"] == LANGUAGE
    assert [(row["low"], row["high"]) for row in said["by_share"]] == [(0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1)]
    for row in said["by_share"]:
        assert row["mean"]["low"] <= row["mean"]["value"] <= row["mean"]["high"]
        assert row["mean"]["value"] < row["quantile"] <= row["largest"] <= found.largest
    assert found.mean(2.0, 3.0) is None
