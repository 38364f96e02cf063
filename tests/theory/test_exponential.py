"""The exponential law against the recursion it extrapolates and against sampling; e(u) and C(q) against enumeration.

Sampled means are compared within 5 standard errors, at fixed seeds: below 1e-6 of false alarms each.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from reproduction.intervals import as_ngram
from tests.brute import SHARP
from tests.theory.small import CHAINS, contradictions
from unmask import generate, score
from unmask.core.errors import UnmaskError
from unmask.languages import Interval, NGram, load, random_hmm, random_ngram
from unmask.samplers.schedules import deltas
from unmask.theory import exponential
from unmask.theory.chains import first_order
from unmask.theory.exponential import LONGEST, SHORTEST, Line, error_curve, exponential_ser
from unmask.theory.known import error_curve as any_error_curve
from unmask.theory.recursion import ser_by_orders, valid_mass

SPARSE = random_ngram(2, 4, **SHARP, seed=4)


@pytest.mark.parametrize(("schedule", "steps"), [("linear", 2), ("linear", 16), ("cosine", 12)])
def test_the_law_holds_beyond_the_lengths_it_is_fitted_on(schedule, steps):
    delta = deltas(schedule, steps)
    distribution = exponential_ser(SPARSE, delta, 24)
    mass, log_mass = valid_mass(first_order(SPARSE), 40, delta)
    for length in (24, 32, 40):
        drift, log_drift = distribution.drift(length)
        assert math.log1p(-distribution.ser(length)) == pytest.approx(math.log(mass[length]), abs=2 * drift + 1e-9)
        nll = -log_mass[length] / mass[length]
        assert distribution.generative_nll(length) == pytest.approx(nll, abs=2 * log_drift + 1e-9)
        assert distribution.scale * distribution.kappa**length == pytest.approx(mass[length], rel=2 * drift + 1e-9)
    assert distribution.residual == pytest.approx(math.log(mass[24]) - math.log1p(-distribution.ser(24)), abs=1e-11)
    assert abs(distribution.residual) < 1e-3
    assert distribution.drift(distribution.fitted[1]) == (0, 0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("steps", [64, 256])
def test_the_law_at_512_against_sampling(steps):
    """Orders alone (400 of them), and whole generations (600 rows): three ways to one number."""
    language = load("paper-2gram")
    distribution = exponential_ser(language, deltas("linear", steps), 15)
    ours = distribution.ser(512)
    by_orders = ser_by_orders(first_order(language), 512, deltas("linear", steps), rows=400, seed=11)
    assert abs(ours - by_orders.value) < 5 * by_orders.standard_error
    made = score(generate(language, steps=steps, length=512, rows=600, seed=5), language)
    assert abs(ours - made.ser.value) < 5 * made.ser.standard_error
    nll = distribution.generative_nll(512) / 512 / math.log(2)
    measured = made.generative_perplexity.map(math.log2)
    assert abs(nll - measured.value) < 5 * measured.standard_error


SLOW = NGram(
    2, [0.25] * 4, [[0, 0.98, 0.01, 0.01], [0.98, 0, 0.01, 0.01], [0.01, 0.01, 0.49, 0.49], [0.01, 0.01, 0.49, 0.49]]
)


def slow_chains():
    """Sparse chains with a strong diagonal or a strong cycle, so that what is far apart still matters."""
    rng = np.random.default_rng(0)
    for _ in range(12):
        table = rng.random((4, 4)) * (rng.random((4, 4)) < 0.6)
        table += rng.choice([1, 5, 30]) * np.eye(4)[rng.permutation(4)] + 0.01 * np.eye(4)
        yield NGram(2, rng.dirichlet(np.ones(4)), table, normalise=True)


def test_what_the_law_is_off_by_is_a_bound():
    held = []
    for language in (SLOW, *slow_chains()):
        for steps in (4, 32):
            delta = deltas("linear", steps)
            try:
                distribution = exponential_ser(language, delta, 12)
            except UnmaskError:  # it is not primitive
                continue
            mass, log_mass = valid_mass(first_order(language), 40, delta)
            for length in (13, 16, 24, 40):
                drift, log_drift = distribution.drift(length)
                assert abs(distribution.log_valid.at(length) - math.log(mass[length])) <= drift + 1e-11
                assert (
                    abs(distribution.log_likelihood.at(length) - log_mass[length] / mass[length]) <= log_drift + 1e-11
                )
                held.append(drift)
    assert sum(drift < 1e-2 for drift in held) > 10  # nor is it empty


def test_corrections_that_die_out_slowly_are_followed_at_their_own_rate():
    """values(L) = 3 - L/2 + 0.9^L / 5: what is left of the bends is theirs times 0.9 / (1 - 0.9)."""
    lengths = np.arange(1, LONGEST + 1)
    line = Line.through(3 - lengths / 2 + 0.9**lengths / 5, SHORTEST, 18, rho=0.5)
    assert line.rest == pytest.approx(0.9**LONGEST / 5 * (1 - 1 / 0.9) ** 2 * 0.9 / (1 - 0.9), rel=1e-6)
    assert abs(3 - 250 - line.at(500)) <= line.off(500, 18, LONGEST)
    straight = Line.through(3 - lengths / 2 + 1e-14 * (lengths % 2), SHORTEST, 18, rho=0.5)
    assert straight.rest == 0.0  # the bends of a straight line are rounding


def test_a_law_without_its_prefactor_is_caught():
    """Mutant: kappa^L alone, or kappa from one length, are off by more than the sampling above would forgive."""
    delta = deltas("linear", 64)
    distribution = exponential_ser(load("paper-2gram"), delta, 15)
    mass = valid_mass(first_order(load("paper-2gram")), 15, delta)[0]
    assert abs(distribution.kappa**15 - mass[15]) > 1e-4
    assert abs(mass[15] ** (512 / 15) - (1 - distribution.ser(512))) > 1e-3


@pytest.mark.parametrize("name", CHAINS)
def test_the_error_curve_is_the_enumerated_one(name):
    language, length = CHAINS[name]
    np.testing.assert_allclose(error_curve(first_order(language), length).g, contradictions(name), atol=1e-12)


def test_the_error_curve_of_pairs_at_any_length():
    """Contradictions at every distance, for a chain of period 2: a closed form on the other side."""
    chain = first_order(as_ngram(Interval(2)))
    for length in (7, 64):
        ours, expected = error_curve(chain, length), any_error_curve(Interval(2), length)
        np.testing.assert_allclose(ours.g, expected.g, atol=1e-12)
        assert ours.constant.value == pytest.approx(length // 2 / 2)


@pytest.mark.parametrize("seed", [2, 4])
def test_the_step_constant_is_the_limit(seed):
    """N SER -> C(q), by Richardson: 2 N' SER(N') - N SER(N) with N' = 2N has an error of order 1/N^2."""
    language = random_ngram(2, 3, **SHARP, seed=seed)
    chain, length = first_order(language), 12
    scaled = [steps * (1 - valid_mass(chain, length, deltas("linear", steps))[0][-1]) for steps in (1000, 2000)]
    constant = error_curve(chain, length).constant
    assert constant.exact
    assert 2 * scaled[1] - scaled[0] == pytest.approx(constant.value, rel=2e-5)
    assert abs(scaled[0] - constant.value) > 1e-4 * constant.value  # so that Richardson was needed


def test_the_first_order_is_near_where_errors_are_few():
    language, delta = load("paper-2gram"), deltas("linear", 256)
    distribution = exponential_ser(language, delta, 12)
    assert error_curve(first_order(language), 512).ser(delta).value == pytest.approx(distribution.ser(512), rel=2e-3)


def test_a_full_support_makes_no_errors():
    chain = first_order(random_ngram(2, 4))
    assert error_curve(chain, 30).constant.value == 0
    assert exponential_ser(random_ngram(2, 4), deltas("linear", 4), 9).ser(500) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("language", "message"),
    [
        (as_ngram(Interval(2)), "a primitive chain. Estimate it with theory.recursion.ser_by_orders"),
        (NGram(2, [0.5, 0.5], np.eye(2)), "expected a primitive chain"),
        (random_hmm(3, 3), "SER of hmm is not known to be exponential .*; expected a first-order chain.*metrics.score"),
        (Interval(5), "SER of interval is not known to be exponential"),
    ],
    ids=["period 2", "two classes", "hidden", "not a machine"],
)
def test_where_there_is_no_law(language, message):
    with pytest.raises(UnmaskError, match=message):
        exponential_ser(language, deltas("linear", 4))


def test_what_is_too_much_names_the_nearest(monkeypatch):
    monkeypatch.setattr(exponential, "MOST_TERMS", 10)
    with pytest.raises(UnmaskError, match=r"too many pairs of impossible tokens.*theory\.sampled\.error_curve"):
        error_curve(first_order(SPARSE), 20)
    with pytest.raises(UnmaskError, match="longest is 8"):
        exponential_ser(SPARSE, deltas("linear", 4), 8)
