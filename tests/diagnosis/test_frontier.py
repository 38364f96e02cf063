"""Perplexity, entropy and divergence of samplers against their laws by enumeration; and what beats two of the three."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from tests import brute
from unmask import UnmaskError
from unmask.diagnosis import frontier as made_by
from unmask.diagnosis.frontier import beats, distribution_of, frontier, naive, price
from unmask.diagnosis.texts import token_entropy
from unmask.ideal import Perturbed
from unmask.languages import HMM, load, random_ngram
from unmask.report import exact as report
from unmask.report import frame
from unmask.samplers import SAMPLERS
from unmask.schedules import deltas

FULL = random_ngram(2, vocabulary=3, temperature=2.0, seed=3)
PRUNED = random_ngram(2, vocabulary=4, temperature=2.0, threshold=0.15, seed=3)
LENGTH, STEPS, SMOOTHING, ROWS = 3, 2, 0.05, 3000
STRINGS = brute.sequences(3, LENGTH)
Q = brute.distribution(FULL, LENGTH)


def conditional(row, place, shown, temperature):
    """q(. | what of a row stands at the positions shown)^(1/T), normalised."""
    fits = (STRINGS[:, shown] == row[shown]).all(1)
    mass = np.array([Q[fits & (STRINGS[:, place] == symbol)].sum() for symbol in range(3)]) ** (1 / temperature)
    return mass / mass.sum()


def law_of_order(order, temperature):
    """(V^L) p(x | order), order being the step of each position."""
    p = np.ones(len(STRINGS))
    for number, row in enumerate(STRINGS):
        for place in range(LENGTH):
            shown = [other for other in range(LENGTH) if order[other] < order[place]]
            p[number] *= conditional(row, place, shown, temperature)[row[place]]
    return p


def judged():
    """(V^L) -log r(x)."""
    nats = np.zeros(len(STRINGS))
    for number, row in enumerate(STRINGS):
        for place in range(LENGTH):
            said = conditional(row, place, list(range(place)), 1.0)
            nats[number] -= math.log((1 - SMOOTHING) * said[row[place]] + SMOOTHING / 3)
    return nats


def orders(sampler):
    """The orders that a sampler draws, all equally likely."""
    if sampler == "ancestral":
        return list(product(range(STEPS), repeat=LENGTH))
    return [range(LENGTH)] if sampler == "autoregressive" else [[0, 1, 0]]  # strided: every second place first


def within(estimate, truth):
    """A hundred times in a thousand million it is not."""
    assert abs(estimate.value - truth) <= 6.2 * estimate.standard_error + 1e-12


def test_the_judge_is_a_law():
    nats = price(Perturbed(FULL, "mix", SMOOTHING), torch.tensor(STRINGS)).numpy()
    np.testing.assert_allclose(nats, judged(), atol=1e-12)
    for language in (FULL, PRUNED):
        every = torch.tensor(brute.sequences(language.vocabulary, LENGTH))
        assert float((-price(Perturbed(language, "mix", SMOOTHING), every)).exp().sum()) == pytest.approx(1)


@pytest.mark.parametrize("sampler", ["autoregressive", "strided", "ancestral"])
def test_the_divergence_is_the_perplexity_less_the_entropy(sampler):
    temperatures = (0.5, 1.0, 1.6)
    how = {"temperatures": temperatures, "steps": STEPS, "rows": ROWS, "smoothing": SMOOTHING}
    points = [p for p in frontier(FULL, LENGTH, [sampler], **how) if p.sampler == sampler]
    assert [point.setting for point in points] == list(temperatures)
    nats = judged()
    for point, temperature in zip(points, temperatures, strict=True):
        distributions = [law_of_order(order, temperature) for order in orders(sampler)]
        entropy = np.mean([brute.entropy(p) for p in distributions])
        mixture = np.mean(distributions, 0)
        cross = mixture @ nats
        divergence = np.mean([(p * (np.log(p) + nats)).sum() for p in distributions])
        assert divergence == pytest.approx(cross - entropy)  # exactly, whatever p
        within(point.cross_entropy, cross / LENGTH)
        within(point.entropy, entropy / LENGTH)
        within(point.divergence, divergence / LENGTH)
        within(point.unigram, mixture @ token_entropy(torch.tensor(STRINGS)).numpy())
        assert point.exact == (sampler != "ancestral")
        assert point.cross_entropy.value - point.entropy.value == pytest.approx(point.divergence.value)
        if sampler == "ancestral":  # what the luck adds is not in it
            assert brute.entropy(mixture) > entropy + 1e-3


def test_the_point_of_the_language():
    own = frontier(FULL, LENGTH, [], rows=ROWS, smoothing=SMOOTHING)[0]
    assert own.entropy.exact
    assert own.entropy.value == pytest.approx(brute.entropy(Q) / LENGTH)
    within(own.cross_entropy, Q @ judged() / LENGTH)
    within(own.divergence, (Q @ judged() - brute.entropy(Q)) / LENGTH)


def test_whose_law_is_known():
    known = {
        name: distribution_of(SAMPLERS.make(name), PRUNED, 8, deltas("linear", 4)) for name in ("ancestral", "strided")
    }
    known |= {
        name: distribution_of(SAMPLERS.make(name), PRUNED, 8, deltas("linear", 4)) for name in ("margin", "gibbs")
    }
    assert known == {"ancestral": False, "strided": True, "margin": True, "gibbs": None}


def test_a_judge_that_errs_nowhere_has_no_price_for_errors():
    own, point, *_ = frontier(PRUNED, 8, ["ancestral"], temperatures=(1.0,), steps=1, rows=200, smoothing=0.0)
    assert point.ser.value > 0
    assert (point.cross_entropy.value, point.divergence.value) == (math.inf, math.inf)
    assert own.divergence.value == pytest.approx(0, abs=1e-12)


def walked(language, length, penalty, smoothing):
    """The rows of `naive` in plain Python, one for each first symbol."""
    judge, vocabulary, rows = Perturbed(language, "mix", smoothing), language.vocabulary, []
    for first in range(vocabulary):
        row, slipped = [first], False
        while len(row) < length:
            nats = price(judge, torch.tensor([[*row, symbol] for symbol in range(vocabulary)])).tolist()
            if len(row) >= length // 2 and not slipped and max(nats) - price(judge, torch.tensor([row])).item() > 4.3:
                slipped = True
                row.append(nats.index(max(nats)))
            else:
                costs = [paid + penalty * row.count(symbol) for symbol, paid in enumerate(nats)]
                row.append(costs.index(min(costs)))
        rows.append(row)
    return torch.tensor(rows)


@pytest.mark.parametrize("penalty", [0.0, 0.4])
def test_naive_by_its_rule(penalty):
    language, length = PRUNED, 8
    rows = walked(language, length, penalty, SMOOTHING)  # -log(0.05 / 4) is 4.38 nats: only what is impossible
    (point,) = naive(language, length, Perturbed(language, "mix", SMOOTHING), [penalty])
    nats = price(Perturbed(language, "mix", SMOOTHING), rows).mean() / length
    assert point.cross_entropy.value == pytest.approx(float(nats))
    assert point.entropy.value == pytest.approx(math.log(4) / length)
    assert point.divergence.value == pytest.approx(float(nats) - math.log(4) / length)
    assert point.unigram.value == pytest.approx(float(token_entropy(rows).mean()))
    assert point.ser.value == float((~language.supports(rows)).double().mean())


def test_naive_beats_the_language_by_both_proxies():
    points = frontier(load("paper-2gram"), 64, [], rows=100)
    best = beats(points)
    assert best is not None
    own = points[0]
    assert best.unigram.value >= own.unigram.value
    assert best.cross_entropy.value < 0.9 * own.cross_entropy.value
    assert (best.ser.value, own.ser.value) == (1.0, 0.0)
    assert best.divergence.value > 0.9
    assert beats([own, *(p for p in points[1:] if p.unigram.value < own.unigram.value)]) is None
    dear = [replace(point, cross_entropy=own.cross_entropy) for point in points[1:]]
    assert beats([own, *dear]) is None


@pytest.mark.parametrize(
    ("language", "options", "expected"),
    [
        (HMM([1.0, 0.0], [[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]], end=1), {}, "varies in length"),
        (FULL, {"temperatures": (0.0,)}, "temperature is 0; expected above 0"),
        (FULL, {"smoothing": 1.5}, "smoothing is 1.5"),
        (FULL, {"samplers": ["ancestrl"]}, "did you mean ancestral"),
    ],
)
def test_mistakes(language, options, expected):
    with pytest.raises(UnmaskError, match=expected):
        frontier(language, LENGTH, rows=2, **options)


def test_the_figure_has_every_finite_point_and_the_line_of_no_divergence():
    points = frontier(PRUNED, 8, ["ancestral", "low-confidence"], temperatures=(0.5, 1.0), steps=4, rows=30)
    records = report.numbers(points)
    assert [record["sampler"] for record in records[:5]] == ["language", *["ancestral"] * 2, *["low-confidence"] * 2]
    assert records[3]["entropy"] is None
    true, read = report.panels(points, "l").begun.values()
    assert "<svg" in frame.svg(true)
    rows, others = (one["datasets"]["rows"] for one in (true, read))
    assert {row["series"] for row in rows} == {made_by.LANGUAGE, "ancestral", made_by.NAIVE}
    assert {row["series"] for row in others} == {made_by.LANGUAGE, "ancestral", "low-confidence", made_by.NAIVE}
    assert {row["series"] for row in rows if not row["sure"]} == {"ancestral"}  # hollow
    assert all(row["sure"] for row in others)
    found = {(p["sampler"], p["setting"]): (p["entropy"], p["cross_entropy"]) for p in records}
    assert all((row["place"], row["value"]) == found[row["series"], row["order"]] for row in rows)
    layers = [layer["encoding"]["y"].get("field") for layer in true["layer"]]
    assert layers[0] == "place"  # the line of no divergence: y is x
