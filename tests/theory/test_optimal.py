"""Optimal schedules against exhaustive search, against the usual ones, against theory, and where they are named."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theory.cases import cases
from unmask import generate
from unmask.core.errors import UnmaskError
from unmask.denoisers import Denoiser, Ideal, Perturbed
from unmask.languages import Interval, NGram, load, random_hmm, random_ngram
from unmask.samplers.schedules import Fit, deltas, sizes
from unmask.theory import known, optimal, sampled
from unmask.theory.curves import ErrorCurve, InformationCurve, bernstein

EXAMPLES = settings(max_examples=40)
falling = st.lists(st.floats(0, 3), min_size=1, max_size=9).map(lambda f: np.array(sorted(f, reverse=True)))
EVERY = random_ngram(2, 3)  # all strings
USUAL = ("linear", "cosine", "cosine-squared", "polynomial(power=0.5)", "geometric(ratio=1.1)")


def compositions(length, steps):
    """All ways to give `length` positions to at most `steps` steps."""
    for cuts in itertools.combinations_with_replacement(range(length + 1), steps - 1):
        yield np.diff([0, *cuts, length])


@EXAMPLES
@given(falling, st.integers(1, 5))
def test_fixed_sizes_are_the_best_of_all(f, steps):
    curve = InformationCurve(f, "by hand")
    best = min(
        sum(int(s) * f[c] for s, c in zip(counts, np.cumsum(counts) - counts, strict=True) if s)
        for counts in compositions(len(f), steps)
    )
    delta = optimal.for_divergence(curve, steps, fixed_size=True)
    assert curve.nelbo(delta, fixed_size=True).value == pytest.approx(best, abs=1e-9)


@EXAMPLES
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8).map(np.array), st.integers(1, 5))
def test_the_fewest_errors_of_fixed_sizes_are_the_best_of_all(g, steps):
    """sum C(s, 2) g, with the mean of g over the step where it rises in it; g may rise and fall."""
    curve, length = ErrorCurve(g, "by hand"), len(g) + 1

    def errors(counts):
        begun = np.cumsum(counts) - counts
        seen = [(int(s), max(g[c], g[c : c + s - 1].mean())) for s, c in zip(counts, begun, strict=True) if s > 1]
        return sum(math.comb(s, 2) * mean for s, mean in seen)

    best = min(map(errors, compositions(length, steps)))
    delta = optimal.for_errors(curve, steps, fixed_size=True)
    assert errors(sizes(delta, length).numpy()) == pytest.approx(best, abs=1e-9)


@EXAMPLES
@given(falling, st.integers(2, 4))
def test_independent_rounds_are_as_good_as_the_best_on_a_grid(f, steps):
    """Exhaustive over 31 places; ours is refined, and so may only be better, and that by no more than a grid misses."""
    grid = np.linspace(0, 1, 31)
    h = len(f) * bernstein(f, grid)
    best = math.inf
    for inner in itertools.combinations_with_replacement(range(31), steps - 1):
        at = [0, *inner, 30]
        best = min(best, float(np.diff(grid[at]) @ h[at[:-1]]))
    curve = InformationCurve(f, "by hand")
    ours = curve.nelbo(optimal.for_divergence(curve, steps)).value
    assert ours <= best + 1e-9
    assert ours >= best - 0.05 * max(h[0] - h[-1], 1e-9) - 1e-9


def errors_of(curve, p):
    """sum delta max(delta e(p), int e) by quadrature."""
    inside = np.linspace(p[:-1], p[1:], 101)
    between = (curve.e((inside[1:] + inside[:-1]) / 2)).mean(0)
    return float(np.diff(p) ** 2 @ np.maximum(curve.e(p[:-1]), between))


@EXAMPLES
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8).map(np.array), st.integers(2, 3))
def test_independent_rounds_have_as_few_errors_as_the_best_on_a_grid(g, steps):
    """Exhaustive over 21 positions; e may rise and fall. Integrals are those of e, within 1e-3 of them."""
    curve, grid = ErrorCurve(g, "by hand"), np.linspace(0, 1, 21)
    ways = (grid[[0, *inner, 20]] for inner in itertools.combinations_with_replacement(range(21), steps - 1))
    best = min(errors_of(curve, p) for p in ways)
    ours = errors_of(curve, np.append(0, np.cumsum(optimal.for_errors(curve, steps).numpy())).clip(max=1))
    assert ours <= best * (1 + 1e-3) + 1e-9


def test_a_pair_that_only_a_third_one_rules_out_is_seen():
    """e(0) = 0 does not make one step of everything free: as in 4-grams, whose pairs are all possible at first."""
    curve = ErrorCurve(np.linspace(0, 1, 39), "by hand")
    for fixed_size in (False, True):
        delta = optimal.for_errors(curve, 8, fixed_size=fixed_size)
        assert float(delta.max()) < 0.4
        assert float(delta[0]) > float(delta[-1])  # the first can be larger


STICKY = NGram(2, np.full(4, 0.25), np.full((4, 4), 0.01) + 0.96 * np.eye(4))  # its curve bends: neighbours agree
LANGUAGES = {
    "2-gram": (random_ngram(2, 4, threshold=0.05, seed=2), 40),
    "3-gram": (random_ngram(3, 2, threshold=0.2, seed=2), 6),
    "hmm": (random_hmm(3, 3, temperature=2.5, threshold=0.1, seed=3), 6),
    "paper-2gram": (load("paper-2gram"), 200),
    "interval": (Interval(5), 100),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", LANGUAGES)
@pytest.mark.parametrize("steps", [1, 2, 3, 8, 40, 300])
def test_never_worse_than_the_usual_ones(name, steps):
    """In predicted KL strictly better than linear, except where linear is provably optimal."""
    language, length = LANGUAGES[name]
    curve, errors = known.curve(language, length), known.error_curve(language, length)
    for fixed in (False, True):
        kl = optimal.for_divergence(curve, steps, fixed_size=fixed)
        ser = optimal.for_errors(errors, steps, fixed_size=fixed)
        for usual in USUAL:
            other = deltas(usual, steps)
            assert (
                curve.divergence(kl, fixed_size=fixed).value <= curve.divergence(other, fixed_size=fixed).value + 1e-9
            )
            if (np.diff(errors.g) <= 0).all() and (fixed or usual in ("linear", "cosine")):
                assert errors.ser(ser, fixed_size=fixed).value <= errors.ser(other, fixed_size=fixed).value + 1e-9
    if name != "interval" and steps > 1:
        better = curve.divergence(optimal.for_divergence(curve, steps)).value
        assert better < curve.divergence(deltas("linear", steps)).value * (1 - 1e-4)


@pytest.mark.parametrize("steps", [2, 7, 64, 500, 3000])
def test_for_the_interval_language_equal_rounds_are_best(steps):
    """G is Schur-concave in delta (theory.md 6), h is a line and e a constant: all schedules come out linear."""
    for name in ("optimal", "fewest-pairs"):
        delta = deltas(name, steps, Fit(Interval(5), 100))
        torch.testing.assert_close(delta, deltas("linear", steps), rtol=0, atol=1e-9)


def test_the_optimum_is_real():
    """Not only predicted: KL(q || p) of the mixture, exactly, over tiny languages whose curve bends."""
    gained = []
    for case in cases()[:120]:
        curve = case.every.information_curve()
        plan, linear = optimal.for_divergence(curve, 3), deltas("linear", 3)
        gained.append(case.every.divergence(linear) - case.every.divergence(plan))
    assert np.mean(np.array(gained) > -1e-9) > 0.9
    assert np.sum(gained) > 0


@pytest.mark.parametrize("steps", [200, 1000, 3000])
def test_many_rounds_have_the_density_of_theory(steps):
    """E KL ~ (int sqrt(-h'))^2 / 2N and linear ~ (h(0) - h(1)) / 2N; SER's exponent ~ (int sqrt e)^2 / N."""
    language, length = LANGUAGES["2-gram"]
    curve, errors = known.curve(language, length), known.error_curve(language, length)
    middle = (np.arange(4000) + 0.5) / 4000
    density = np.sqrt(-curve.slope(middle)).mean() ** 2 / 2
    ours = curve.divergence(optimal.for_divergence(curve, steps)).value
    assert ours * steps == pytest.approx(density, rel=5 / steps + 2e-3)
    linear = curve.divergence(deltas("linear", steps)).value
    assert linear * steps == pytest.approx(float(curve.h(0.0) - curve.h(1.0)) / 2, rel=5 / steps)
    exponent = -math.log1p(-errors.ser(optimal.for_errors(errors, steps)).value)
    assert exponent * steps == pytest.approx(np.sqrt(errors.e(middle)).mean() ** 2, rel=5 / steps + 2e-3)


@pytest.mark.parametrize("fixed_size", [False, True])
@pytest.mark.parametrize("steps", [1, 5, 40, 700])
def test_where_nothing_can_go_wrong_rounds_are_equal(steps, fixed_size):
    """Independent tokens have no divergence, and a language of all strings no errors, whatever the schedule."""
    independent = NGram(2, [0.2, 0.3, 0.5], [[0.2, 0.3, 0.5]] * 3)
    for name, language in (("optimal", independent), ("fewest-pairs", independent), ("fewest-pairs", EVERY)):
        delta = deltas(name, steps, Fit(language, 20, fixed_size))
        wanted = sizes(deltas("linear", steps), 20).double() / 20 if fixed_size else deltas("linear", steps)
        torch.testing.assert_close(delta, wanted, rtol=0, atol=1e-12)


def test_what_can_be_gained():
    """A chain that rarely moves, L = 256: where neighbours agree, the first steps should reveal little."""
    curve = known.curve(STICKY, 256)
    for steps, linear, best in ((8, 28.91, 10.65), (32, 5.929, 2.393), (128, 1.375, 0.5829)):
        assert curve.divergence(deltas("linear", steps)).value == pytest.approx(linear, rel=1e-3)
        delta = deltas("optimal", steps, Fit(STICKY, 256))
        assert curve.divergence(delta).value == pytest.approx(best, rel=1e-3)
        assert bool((delta.diff() > 0).all())  # as where h is convex: (h(p) - h(p')) / -h'(p') >= p' - p


def test_plateaus_need_the_grid(monkeypatch):
    """Where a curve falls in two leaps, or errors live in two positions, the density leads into the wrong valley."""
    f = np.concatenate([np.full(3, 1.9), np.full(151, 0.5), np.zeros(24)])
    curve = InformationCurve(f, "two leaps")
    g = np.concatenate([np.full(20, 0.2), np.full(60, 2.0), np.zeros(50), np.ones(33)])
    errors = ErrorCurve(g, "two places")

    def costs(steps):
        p = np.append(0, np.cumsum(optimal.for_errors(errors, steps).numpy())).clip(max=1)
        return curve.divergence(optimal.for_divergence(curve, steps)).value, errors_of(errors, p)

    found = {steps: costs(steps) for steps in (2, 3, 4, 6)}
    monkeypatch.setattr(optimal, "MOST_ON_GRID", 0)
    without = {steps: costs(steps) for steps in found}
    for which in range(2):
        ratios = [without[steps][which] / found[steps][which] for steps in found]
        assert min(ratios) > 0.999
        assert max(ratios) > 1.02


@pytest.mark.sampled(4)
@pytest.mark.parametrize("fixed_size", [False, True])
@pytest.mark.parametrize("steps", [4, 16, 64])
def test_a_measured_curve_is_not_fitted_to_its_noise(steps, fixed_size):
    """A curve of 60 rows, held against the exact one: within 1% of linear where little can be gained, else far below.

    Mutant: what solves it as if it were exact is much worse than linear with fixed sizes.
    """
    flat, sticky = random_ngram(2, 8, threshold=0.008, seed=0), STICKY
    for language, most in ((flat, 1.01), (sticky, 0.6)):
        truth = known.curve(language, 128)
        measured = sampled.information_curve(language, 128, rows=60, seed=1)
        linear = truth.divergence(deltas("linear", steps), fixed_size=fixed_size).value
        ours = truth.divergence(
            optimal.for_divergence(measured, steps, fixed_size=fixed_size), fixed_size=fixed_size
        ).value
        assert ours <= most * linear
        taken = InformationCurve(measured.f, "as if exact")
        if language is flat and fixed_size and steps == 64:
            theirs = optimal.for_divergence(taken, steps, fixed_size=True)
            assert truth.divergence(theirs, fixed_size=True).value > 1.5 * linear


def test_smoothing_keeps_a_line_and_the_order():
    line = np.linspace(3, 1, 20)
    for degree in (1, 2, 8, 19):
        np.testing.assert_allclose(optimal.smooth(line, degree), line, atol=1e-12)
        assert (np.diff(optimal.smooth(np.where(line > 2, 1.0, 0.0), degree)) <= 1e-12).all()
    np.testing.assert_allclose(optimal.smooth(line, 0), 3.0)


@pytest.mark.parametrize("sampler", ["ancestral", "fixed-size", "low-confidence", "left-to-right"])
@pytest.mark.parametrize("schedule", ["optimal", "fewest-pairs"])
def test_wherever_a_schedule_is_named(sampler, schedule):
    language = random_ngram(2, 4, threshold=0.05, seed=2)
    made = generate(language, sampler=sampler, schedule=schedule, steps=6, length=20, rows=10)
    delta = deltas(schedule, 6, Fit(language, 20, fixed_size=sampler != "ancestral"))
    again = generate(language, sampler=sampler, schedule=delta.tolist(), length=20, rows=10)
    assert torch.equal(made.tokens, again.tokens)
    assert made.configuration["schedule"] == schedule


class Stranger(Denoiser):
    vocabulary = 4

    def posterior(self, tokens, positions=None, time=None):
        raise AssertionError("nobody should have asked")


def test_where_no_language_is_known():
    with pytest.raises(UnmaskError, match="schedule 'optimal' is fitted to a language, but no language is known here"):
        generate(Stranger(), schedule="optimal", steps=4, length=6, rows=2)
    leaking = Perturbed(Interval(3), "leak", 0.1)  # which knows the language behind it
    for source, options in ((Ideal(Interval(3)), {}), (Interval(3), {"temperature": 0.5}), (leaking, {})):
        assert generate(source, schedule="optimal", steps=4, length=6, rows=2, **options).tokens.shape == (2, 6)
