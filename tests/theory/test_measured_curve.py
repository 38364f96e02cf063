"""The information curve: what it promises of every schedule against enumeration, what is measured, and mutants.

Measured means are compared within 6 of their standard errors: below 1e-6 of false alarms over all comparisons here,
with fixed seeds.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from tests.brute import distribution, entropy
from tests.metrics.small import (
    FIXED,
    SCHEDULES,
    SMALL,
    VARYING,
    average_over_assignments,
    average_over_labels,
    by_rank,
    conditional_entropies,
    cross_entropies,
    sizes,
)
from unmask.core.errors import UnmaskError
from unmask.denoisers import Canvas, Ideal, Perturbed, Table
from unmask.languages import Brackets, Interval, random_ngram
from unmask.metrics import output_distribution, ter
from unmask.samplers import schedules
from unmask.samplers.schedules import deltas
from unmask.samplers.teaching import TaughtCanvas
from unmask.theory import curves
from unmask.theory.curves import InformationCurve, Measured
from unmask.theory.curves import weights as paid_shares
from unmask.theory.sampled import information_curve

EXAMPLES = settings(max_examples=50)
ROWS = 4000
PERTURBED = ["2-gram", "2-gram, pruned", "hmm, 3 tokens", "interval 3, partial"]


def exact(costs):
    """The curve that infinitely many rows would show; as two equal rows it says the same."""
    f = by_rank(costs)
    rows = Measured(torch.from_numpy(f).expand(2, -1), torch.full((2,), len(f), dtype=torch.float64))
    known, measured = InformationCurve(f, "known"), InformationCurve(rows.f, "measured", rows)
    for schedule, fixed_size in ((deltas("cosine", 3), False), (deltas("cosine", 3), True)):
        for name in ("nelbo", "divergence", "ter_upper", "ser_upper"):
            one, other = (getattr(c, name)(schedule, fixed_size=fixed_size) for c in (known, measured))
            assert one.value == pytest.approx(other.value, rel=1e-12, abs=1e-12)
            assert one.exact
            assert other.method == "measured"
    return known


def counts_up_to(length):
    return sorted({1, 2, 3, 4, length})


def agrees(measured, f):
    """Whether each f(k) is within 6 standard errors of the exact one; 1e-9 where nothing varies."""
    error = measured.terms.std(0, ddof=1) / math.sqrt(len(measured.terms))
    return bool((np.abs(measured.f - f) <= 6 * error + 1e-9).all())


@pytest.mark.parametrize("name", FIXED)
def test_the_profile_falls_and_sums_to_the_entropy(name):
    language, length = FIXED[name]
    f = exact(conditional_entropies(name)).f
    assert float(f.sum()) == pytest.approx(entropy(distribution(language, length)), abs=1e-10)
    assert bool((f[1:] <= f[:-1] + 1e-12).all())


@pytest.mark.parametrize("name", FIXED)
@pytest.mark.parametrize("schedule", [*SCHEDULES, [0.5, 0.0, 0.3, 0.2]])
def test_one_profile_answers_for_independent_rounds(name, schedule):
    """NELBO is E_tau[-log p_tau(x)] over all N^L labels, the divergence what it has over H(q)."""
    language, length = FIXED[name]
    costs, h = conditional_entropies(name), entropy(distribution(language, length))
    ours = exact(costs)
    for steps in counts_up_to(length) if isinstance(schedule, str) else [None]:
        delta = deltas(schedule, steps)
        nats = average_over_labels(costs, delta)
        assert ours.nelbo(delta).value == pytest.approx(nats, abs=1e-10)
        assert ours.divergence(delta).value == pytest.approx(nats - h, abs=1e-10)
        assert ours.ter_upper(schedule, steps).value == pytest.approx(math.exp(nats / length), abs=1e-10)
        assert ours.ser_upper(schedule, steps).value == pytest.approx(1 - math.exp(h - nats), abs=1e-10)


@pytest.mark.parametrize("name", FIXED)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_one_profile_answers_for_rounds_of_fixed_size(name, schedule):
    language, length = FIXED[name]
    costs, h = conditional_entropies(name), entropy(distribution(language, length))
    ours = exact(costs)
    for steps in counts_up_to(length):
        delta = deltas(schedule, steps)
        nats = average_over_assignments(costs, schedules.sizes(delta, length).tolist())
        assert ours.nelbo(delta, fixed_size=True).value == pytest.approx(nats, abs=1e-10)
        assert ours.divergence(delta, fixed_size=True).value == pytest.approx(nats - h, abs=1e-10)
        assert ours.ter_upper(schedule, steps, fixed_size=True).value == pytest.approx(
            math.exp(nats / length), abs=1e-10
        )
    everything = ours.divergence(deltas("linear", length), fixed_size=True)
    assert everything.value == pytest.approx(0, abs=1e-10)


shares = st.lists(st.floats(0.01, 1), min_size=1, max_size=8)


@EXAMPLES
@given(st.sampled_from(sorted(FIXED)), shares, st.floats(0, 1), st.integers(0, 7))
def test_refining_a_schedule_lowers_the_divergence(name, rates, part, at):
    """Splitting one step in two never pays more; and E KL <= max delta (h(0) - h(1)) for every schedule."""
    delta = torch.tensor(rates, dtype=torch.float64) / sum(rates)
    k = at % len(delta)
    finer = torch.cat([delta[:k], delta[k] * torch.tensor([part, 1 - part], dtype=torch.float64), delta[k + 1 :]])
    ours = exact(conditional_entropies(name))
    bound = float(delta.max()) * ours.length * float(ours.f[0] - ours.f[-1])
    assert -1e-10 <= ours.divergence(finer).value <= ours.divergence(delta).value + 1e-10 <= bound + 2e-10


@pytest.mark.parametrize("name", FIXED)
def test_the_measured_profile_is_the_exact_one(name):
    language, length = FIXED[name]
    measured = information_curve(language, length, rows=ROWS, seed=1)
    assert measured.terms.shape == (ROWS, length)
    assert agrees(measured, by_rank(conditional_entropies(name)))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", PERTURBED)
@pytest.mark.parametrize("kind", ["leak", "tilt"])
def test_a_wrong_denoiser_pays_its_cross_entropies(name, kind):
    language, length = SMALL[name]
    denoiser = Perturbed(language, kind, 0.2)
    costs = cross_entropies(name, denoiser)
    measured = information_curve(language, length, rows=ROWS, denoiser=denoiser)
    assert agrees(measured, by_rank(costs))
    nelbo, nats = measured.nelbo(deltas("cosine", 3)), average_over_labels(costs, deltas("cosine", 3))
    assert abs(nelbo.value - nats) < 6 * nelbo.standard_error


@pytest.mark.parametrize("name", VARYING)
def test_where_lengths_vary_each_sequence_counts_by_its_own(name):
    """E_x[NELBO(x) / |x|] by enumeration: the cost of every string divided by its size."""
    language, length = VARYING[name]
    q = distribution(language, length)
    measured = information_curve(language, length, rows=ROWS, seed=2)
    assert agrees(measured, by_rank(conditional_entropies(name)))
    costs = cross_entropies(name, Ideal(language), q / sizes(language, length))
    for steps in (1, 3):
        upper = measured.ter_upper("linear", steps).map(math.log)
        assert abs(upper.value - average_over_labels(costs, deltas("linear", steps))) < 6 * upper.standard_error


@pytest.mark.sampled(4)
@pytest.mark.parametrize("schedule", ["linear", "cosine", "geometric(ratio=1.0003)", "theorem-4.2"])
@pytest.mark.parametrize(("steps", "length"), [(1, 1), (1, 7), (3, 1), (5, 40), (5000, 64), (10**5, 17)])
def test_binomial_weights(schedule, steps, length):
    """L sum_i delta_i Binom(L-1, p_i)(k), against scipy's; they sum to L."""
    delta = deltas(schedule, steps)
    p = schedules.Schedule(delta).p
    expected = length * (delta.numpy() @ binom.pmf(np.arange(length), length - 1, p.numpy()[:, None]))
    weights = paid_shares(length, delta)
    np.testing.assert_allclose(weights, expected, atol=1e-9 * length)
    assert float(weights.sum()) == pytest.approx(length, rel=1e-9)


def exact_ser(language, length, p):
    return 1 - float(p[torch.from_numpy(distribution(language, length) > 0)].sum())


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", FIXED)
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_the_bounds_hold(name, steps):
    """TER and SER of the true mixture p = E_tau p_tau lie below their bounds (Jensen)."""
    language, length = FIXED[name]
    ours = exact(conditional_entropies(name))
    delta = deltas("linear", steps)
    p = output_distribution(Ideal(language), length, delta)
    assert ours.ter_upper("linear", steps).value >= ter(language, length, "linear", steps).value - 1e-10
    assert ours.ser_upper("linear", steps).value >= exact_ser(language, length, p) - 1e-10


@pytest.mark.parametrize("name", VARYING)
def test_the_bounds_hold_where_lengths_vary(name):
    language, length = VARYING[name]
    q, delta = distribution(language, length), deltas("linear", 2)
    p = output_distribution(Ideal(language), length, delta)
    measured = information_curve(language, length, rows=ROWS)
    possible = q > 0
    bits = -(q / sizes(language, length))[possible] @ p.log2().numpy()[possible]
    assert measured.ter_upper(delta).high >= 2**bits
    assert measured.ser_upper(delta).high >= exact_ser(language, length, p)


@pytest.mark.parametrize("kind", ["leak", "tilt"])
def test_the_bounds_hold_for_a_wrong_denoiser(kind):
    """Its error does not vanish with many steps, and neither may the bound: KL(q || p) counts it."""
    language, length = SMALL["2-gram, pruned"][0], 4
    denoiser = Perturbed(language, kind, 0.3)
    measured = information_curve(language, length, rows=ROWS, denoiser=denoiser)
    q = distribution(language, length)
    for steps in (1, 4, 50):
        p = output_distribution(denoiser, length, deltas("linear", steps))
        divergence = float(q[q > 0] @ np.log(q[q > 0] / p.numpy()[q > 0]))
        assert measured.divergence(deltas("linear", steps)).high >= divergence
        assert measured.ser_upper("linear", steps).high >= exact_ser(language, length, p)


def test_rows_do_not_depend_on_how_many_there_are():
    language = random_ngram(2, 4, seed=3)
    few, many = (information_curve(language, 6, rows=rows, seed=5) for rows in (3, 300))
    np.testing.assert_allclose(many.terms[:3], few.terms, rtol=1e-12)


def test_what_a_profile_needs():
    with pytest.raises(UnmaskError, match="rows is 1; expected at least 2, for an interval"):
        information_curve(Interval(3), 6, rows=1)
    with pytest.raises(UnmaskError, match="brackets has no sequence of length 5"):
        information_curve(Brackets(), 5)
    with pytest.raises(UnmaskError, match="needs a number of steps"):
        information_curve(Interval(3), 6, rows=2).ter_upper("linear")


def test_a_rank_off_by_one_is_caught():
    f = by_rank(conditional_entropies("2-gram"))
    language, length = SMALL["2-gram"]
    measured = information_curve(language, length, rows=ROWS)
    rolled = Measured(measured.rows.terms.roll(1, 1), measured.rows.sizes)
    assert not agrees(InformationCurve(rolled.f, "rolled", rolled), f)


def test_the_surprisal_of_another_token_is_caught(monkeypatch):
    """Mutant: what is paid is the surprisal of the token before the true one."""
    language, length = SMALL["2-gram"]
    f, at = by_rank(conditional_entropies("2-gram")), Canvas.at
    assert agrees(information_curve(language, length, rows=ROWS, denoiser=Ideal(language)), f)
    monkeypatch.setattr(Canvas, "at", lambda *arguments: Table(at(*arguments).dense().roll(1, -1)))
    assert not agrees(information_curve(language, length, rows=ROWS, denoiser=Ideal(language)), f)


def test_a_context_that_is_not_revealed_is_caught(monkeypatch):
    language, length = SMALL["2-gram"]
    monkeypatch.setattr(TaughtCanvas, "reveal", lambda self, *arguments: None)
    assert not agrees(information_curve(language, length, rows=ROWS), by_rank(conditional_entropies("2-gram")))


def test_weights_that_count_their_own_round_are_caught(monkeypatch):
    """Mutant: p_k = sum over j <= k, a right Riemann sum: even at N = 1 it would promise the entropy h(1)."""
    costs, delta = conditional_entropies("2-gram"), deltas("linear", 3)
    nats = average_over_labels(costs, delta)
    assert exact(costs).nelbo(delta).value == pytest.approx(nats, abs=1e-10)
    monkeypatch.setattr(curves, "Schedule", lambda delta: SimpleNamespace(p=delta.cumsum(0).clamp(max=1)))
    assert InformationCurve(by_rank(costs), "known").nelbo(delta).value < nats - 0.1
