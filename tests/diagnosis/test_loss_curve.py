"""The curve of a denoiser that is only evaluated: its NELBO at every N, against enumeration; intervals; mutants.

Fixed seeds. An interval of level 95% holds the truth in at least 85 of 100 repetitions with an alarm rate below 1e-4
(binomial); single comparisons allow 5 half-intervals.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.metrics.small import SMALL, by_rank, cross_entropies
from unmask.denoisers import Denoiser, Ideal, Perturbed
from unmask.diagnosis.loss_curve import LossCurve, loss_curve
from unmask.languages import Interval, NGram
from unmask.samplers.schedules import Fit, deltas
from unmask.theory import known

ROWS = 600


class Network(Denoiser):
    """A tiny stateless network: softmax of what the nearest revealed neighbours say, with weights of its own."""

    def __init__(self, vocabulary, seed, time_free=True):
        generator = torch.Generator().manual_seed(seed)
        self.vocabulary, self.time_free, self.times = vocabulary, time_free, []
        self.left, self.right = (
            torch.randn(vocabulary + 1, vocabulary, generator=generator, dtype=torch.float64) for _ in range(2)
        )

    def posterior(self, tokens, positions=None, time=None):
        if time is not None:
            self.times.append((tokens, time))
        ends = torch.full((len(tokens), 1), self.vocabulary)
        before, after = torch.cat([ends, tokens[:, :-1]], 1), torch.cat([tokens[:, 1:], ends], 1)
        marginals = torch.softmax(self.left[before] + self.right[after], -1)
        if positions is None:
            return marginals
        return marginals[torch.arange(len(tokens)).unsqueeze(1), positions.expand(len(tokens), -1)]


DENOISERS = {
    "ideal": lambda language: Ideal(language),
    "leak": lambda language: Perturbed(language, "leak", 0.2),
    "tilt": lambda language: Perturbed(language, "tilt", 0.1),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["2-gram", "2-gram, pruned", "hmm, 3 tokens", "interval 3, partial"])
@pytest.mark.parametrize("denoiser", DENOISERS)
def test_it_predicts_the_nelbo_of_every_schedule(name, denoiser):
    language, length = SMALL[name]
    used = DENOISERS[denoiser](language)
    costs = cross_entropies(name, used)
    measured = loss_curve(used, language.sample(ROWS, length, seed=3), looks=3, seed=1)
    for schedule, steps in (("linear", 1), ("linear", 3), ("cosine", 2), ("linear", 40)):
        delta = deltas(schedule, steps)
        ours = measured.nelbo(delta)
        truth = enumerated(costs).nelbo(delta).value
        assert abs(ours.value - truth) < 5 * (ours.high - ours.low) / 2 + 1e-9
        fixed = enumerated(costs).nelbo(delta, fixed_size=True).value
        assert abs(measured.nelbo(delta, fixed_size=True).value - fixed) < 5 * (ours.high - ours.low) / 2 + 1e-9


def enumerated(costs):
    return known.InformationCurve(by_rank(costs), "by enumeration")


@pytest.mark.parametrize("seed", [10, 18])
def test_a_tiny_network(seed):
    """Its predictions for rows of a language that it does not know: cross entropies by enumeration over x ~ q."""
    language, length = SMALL["2-gram"]
    network = Network(language.vocabulary, seed)
    truth = enumerated(cross_entropies("2-gram", network))
    assert (np.diff(truth.f) < 0).all()
    measured = loss_curve(network, language.sample(2000, length, seed=2), looks=3, seed=2)
    for steps in (1, 2, 5, 64):
        ours = measured.nelbo(deltas("linear", steps))
        assert abs(ours.value - truth.nelbo(deltas("linear", steps)).value) < 5 * (ours.high - ours.low) / 2
    assert (np.diff(measured.curve.f) <= 1e-12).all()


def test_intervals_hold_the_truth():
    """100 repetitions of 60 rows: at least 85 intervals hold it."""
    language, length = SMALL["2-gram"]
    truth = known.curve(language, length)
    curves = [
        loss_curve(Ideal(language), language.sample(60, length, seed=seed), looks=3, seed=seed) for seed in range(100)
    ]
    for delta in (deltas("linear", 2), deltas("linear", 8)):
        wanted, found = truth.nelbo(delta).value, [curve.nelbo(delta) for curve in curves]
        assert sum(ours.low <= wanted <= ours.high for ours in found) >= 85


STICKY = NGram(2, np.full(4, 0.25), np.full((4, 4), 0.01) + 0.96 * np.eye(4))  # a curve that bends: neighbours agree


def test_the_schedule_of_a_curve_is_nearly_that_of_the_language():
    truth = known.curve(STICKY, 40)
    measured = loss_curve(Ideal(STICKY), STICKY.sample(600, 40), seed=1)
    for fixed in (False, True):
        best, linear, ours = (
            truth.divergence(delta, fixed_size=fixed).value
            for delta in (
                deltas("optimal", 5, Fit(STICKY, 40, fixed)),
                deltas("linear", 5),
                measured.schedule(5, fixed_size=fixed),
            )
        )
        assert best - 1e-9 <= ours <= best + 0.1 * (linear - best)
    spent = measured.divergence(deltas("linear", 5))
    assert abs(spent.value - truth.divergence(deltas("linear", 5)).value) < 5 * (spent.high - spent.low) / 2
    assert spent.method == "bootstrap over rows"


def test_every_number_is_looked_at_equally_often():
    """Stratified over looks and over rows: each k within two of rows * looks / L."""
    language = Interval(3)
    measured = loss_curve(Ideal(language), language.sample(120, 12), looks=4)
    counts = torch.bincount(measured.revealed.reshape(-1), minlength=12)
    assert measured.revealed.shape == (120, 4)
    assert bool(((counts - 40).abs() <= 4).all())
    assert bool((measured.revealed.diff(dim=1) > 0).all())


def test_a_denoiser_that_asks_for_the_time_is_told_the_share_that_is_hidden():
    network = Network(4, 0, time_free=False)
    loss_curve(network, Interval(3).sample(20, 6), looks=6)
    for tokens, time in network.times:
        torch.testing.assert_close(time, (tokens == 4).double().mean(1))


def test_a_loss_of_another_rank_is_caught():
    """Mutant: losses filed one k too low move the NELBO by far more than its interval."""
    measured = loss_curve(Ideal(STICKY), STICKY.sample(ROWS, 10, seed=3), looks=10)
    wrong = LossCurve((measured.revealed - 1).clamp(min=0), measured.losses, 10, 0)
    truth = known.curve(STICKY, 10).nelbo(deltas("linear", 4)).value
    right, off = measured.nelbo(deltas("linear", 4)), wrong.nelbo(deltas("linear", 4))
    assert abs(right.value - truth) < 5 * (right.high - right.low) / 2
    assert abs(off.value - truth) > 5 * (off.high - off.low) / 2
