"""Schedules: named ones against their formulas, Theorem 4.2's against the bound it is made for, and every refusal."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unmask.core.errors import UnmaskError
from unmask.languages import Interval, random_ngram
from unmask.samplers import SAMPLERS, fit_of
from unmask.samplers.schedules import SCHEDULES, Fit, Schedule, deltas, is_fitted, sizes

ALPHAS = {
    "linear": lambda t: 1 - t,
    "cosine": lambda t: math.cos(math.pi * t / 2),
    "cosine-squared": lambda t: (1 + math.cos(math.pi * t)) / 2,
    "polynomial": lambda t: 1 - t * t,
    "polynomial(power=0.5)": lambda t: 1 - math.sqrt(t),
    "polynomial(power=3)": lambda t: 1 - t * t * t,
}
named = st.one_of(
    st.sampled_from(["linear", "cosine", "cosine-squared"]),
    st.floats(0.05, 20).map(lambda power: f"polynomial(power={power})"),
    st.floats(0.05, 20).map(lambda ratio: f"geometric(ratio={ratio})"),
    st.integers(2, 6).map(lambda order: f"theorem-4.2(order={order})"),
)
explicit = (
    st.lists(st.just(0.0) | st.floats(0, 1), min_size=1, max_size=30)
    .filter(lambda shares: sum(shares) > 1e-3)
    .map(lambda shares: torch.tensor(shares, dtype=torch.float64) / math.fsum(shares))
)
FITTED = {name for name in SCHEDULES.makers if is_fitted(name)}


def is_schedule(delta, steps):
    assert delta.shape == (steps,)
    assert delta.dtype == torch.float64
    assert bool((delta >= 0).all())
    assert math.fsum(delta.tolist()) == pytest.approx(1, abs=1e-12)
    return True


@pytest.mark.parametrize("name", sorted(SCHEDULES.makers.keys() - FITTED))
@pytest.mark.parametrize("steps", [1, 2, 3, 64, 10**6])
def test_named_schedules_have_their_steps_and_sum_to_one(name, steps):
    assert is_schedule(deltas(name, steps), steps)


@pytest.mark.parametrize("name", sorted(FITTED))
@pytest.mark.parametrize("steps", [1, 2, 3, 64, 3000])
@pytest.mark.parametrize("fixed_size", [False, True])
def test_fitted_schedules_have_their_steps_and_sum_to_one(name, steps, fixed_size):
    for language in (Interval(3), random_ngram(2, 3, threshold=0.1)):
        for length in (1, 20):
            assert is_schedule(deltas(name, steps, Fit(language, length, fixed_size)), steps)


@pytest.mark.parametrize("name", sorted(FITTED))
def test_fitted_schedules_need_a_language(name):
    with pytest.raises(UnmaskError, match=f"schedule '{name}' is fitted to a language, but no language is known here"):
        deltas(name, 4)
    with pytest.raises(UnmaskError, match=f"schedule '{name}' needs a number of steps"):
        deltas(name, None, Fit(Interval(3), 6))
    with pytest.raises(UnmaskError, match="has no options, but 'power' was given"):
        deltas(f"{name}(power=2)", 4, Fit(Interval(3), 6))


@given(named, st.integers(1, 200))
def test_whatever_the_options(schedule, steps):
    assert is_schedule(deltas(schedule, steps), steps)


@pytest.mark.parametrize("schedule", ALPHAS)
@pytest.mark.parametrize("steps", [1, 2, 3, 17, 64])
def test_delta_is_the_difference_of_alpha(schedule, steps):
    """delta_k = alpha((N-k)/N) - alpha((N-k+1)/N)   (theory.md 1)."""
    alpha = ALPHAS[schedule]
    expected = [alpha((steps - k) / steps) - alpha((steps - k + 1) / steps) for k in range(1, steps + 1)]
    assert deltas(schedule, steps).tolist() == pytest.approx(expected, abs=1e-14)


@given(st.floats(0.2, 5), st.integers(2, 40))
def test_geometric_has_its_ratio(ratio, steps):
    delta = deltas(f"geometric(ratio={ratio})", steps)
    assert (delta[1:] / delta[:-1]).tolist() == pytest.approx([ratio] * (steps - 1), rel=1e-12)


@given(explicit)
def test_the_notation_of_the_paper(delta):
    """p_k is what earlier steps revealed, alpha the same on its grid, rho_k = delta_k / (1 - p_k)."""
    made = Schedule(delta)
    expected = [min(math.fsum(delta[:k].tolist()), 1) for k in range(len(delta) + 1)]
    assert made.p.tolist() == pytest.approx(expected[:-1], abs=1e-14)
    assert float(made.p.max()) <= 1
    assert made.alpha.tolist() == pytest.approx(expected, abs=1e-14)
    still = 1.0
    for share, rho in zip(delta.tolist(), made.rho.tolist(), strict=True):
        assert still * rho == pytest.approx(share, abs=1e-12)  # hidden until now, and revealed now
        still *= 1 - rho
    assert float(made.rho[int(delta.nonzero()[-1])]) == 1
    assert torch.equal(made.sizes(100), sizes(delta, 100))


@given(explicit, st.integers(0, 3000))
def test_sizes_are_the_largest_remainders(delta, hidden):
    """They sum to what is hidden, each is its share rounded down or up, and no larger remainder is passed over."""
    counts = sizes(delta, hidden)
    shares = delta * hidden
    assert int(counts.sum()) == hidden
    assert bool(((counts - shares).abs() < 1).all())
    assert int(counts[delta == 0].sum()) == 0
    fractions = shares - shares.floor()
    inside = (fractions > 1e-6) & (fractions < 1 - 1e-6)
    up, down = fractions[inside & (counts > shares)], fractions[inside & (counts < shares)]
    assert not len(up) or not len(down) or float(up.min()) >= float(down.max()) - 1e-8


@given(st.integers(1, 300), st.integers(0, 3000))
def test_sizes_of_the_linear_schedule_are_lladas_transfer_counts(steps, hidden):
    expected = [hidden // steps + (k < hidden % steps) for k in range(steps)]
    assert sizes(deltas("linear", steps), hidden).tolist() == expected


def test_sizes_of_far_more_rounds_than_positions():
    counts = sizes(deltas("linear", 10**6), 512)
    assert counts[:512].tolist() == [1] * 512
    assert int(counts.sum()) == 512


def steps_of_theorem_4_2(eps, order):
    return 1 + math.ceil((1 - eps) * (order - 1) / eps**order - 1e-9)


@pytest.mark.parametrize("eps", [0.5, 0.3, 0.1, 0.05])
@pytest.mark.parametrize("order", [2, 3, 4])
def test_theorem_4_2_spends_eps_first(eps, order):
    """At N = 1 + ceil((1-eps)(n-1)/eps^n): a first step of at most eps, then equal ones of at most eps^n/(n-1)."""
    steps = steps_of_theorem_4_2(eps, order)
    delta = deltas(f"theorem-4.2(order={order})", steps)
    assert eps * 0.95 < float(delta[0]) <= eps * (1 + 1e-12)
    assert float(delta[1:].max()) == pytest.approx(float(delta[1:].min()), rel=1e-12)
    assert float(delta[1]) <= eps**order / (order - 1) * (1 + 1e-9)


@given(st.integers(2, 5000), st.integers(2, 5))
def test_theorem_4_2_takes_the_smallest_eps(steps, order):
    eps = float(deltas(f"theorem-4.2(order={order})", steps)[0])
    assert steps_of_theorem_4_2(eps * (1 + 2e-9), order) <= steps < steps_of_theorem_4_2(eps * (1 - 2e-9), order)


@pytest.mark.parametrize(
    "schedule",
    [[0.5, 0.0, 0.5], (0.25, 0.75), [1], torch.tensor([0.5, 0.25, 0.25]), torch.full((10,), 0.1, dtype=torch.float64)],
)
def test_explicit_schedules(schedule):
    delta = deltas(schedule)
    assert is_schedule(delta, len(schedule))
    assert delta.tolist() == pytest.approx([float(share) for share in schedule], abs=1e-7)
    assert torch.equal(deltas(schedule, len(schedule)), delta)


def test_a_sum_off_by_rounding_is_normalised():
    assert is_schedule(deltas([1 / 3 + 1e-10] * 3), 3)


@pytest.mark.parametrize(
    ("schedule", "steps", "message"),
    [
        ("linear", 0, "steps is 0; expected at least 1"),
        ("liner", 4, "unknown schedule 'liner'; did you mean linear"),
        ("polynomial(power=2", 4, "cannot read schedule"),
        ("polynomial(power=abc)", 4, "power"),
        ("geometric(ratio=1e999)", 4, "ratio"),
        ("theorem-4.2(order=1)", 4, "order is 1; expected 2 to 64"),
        ("theorem-4.2(order=2000)", 4, "order"),
        ([[0.5, 0.5]], None, "expected a list of numbers"),
        ([0.5, 0.6, -0.1], None, "delta_3 of the schedule is -0.1"),
        ([0.5, 0.4], None, "sums to 0.9; expected 1"),
    ],
)
def test_refusals(schedule, steps, message):
    with pytest.raises(UnmaskError, match=message.replace("(", r"\(").replace("[", r"\[")):
        deltas(schedule, steps)


@pytest.mark.parametrize("sampler", ["gibbs", "blocks(inner='ancestral')", "as-published-mdlm"])
def test_what_draws_its_rounds_is_fitted_as_a_mixture(sampler):
    assert not fit_of(SAMPLERS.make(sampler), Interval(3), 6).fixed_size
    assert fit_of(SAMPLERS.make("blocks"), Interval(3), 6).fixed_size
