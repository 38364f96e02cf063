"""Two samplers at equal evaluations: mixtures and pairs against what their rows say one by one."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from unmask import UnmaskError, generate, languages
from unmask.experiments.board import Settings, cells
from unmask.experiments.board.grid import recipe
from unmask.experiments.board.versus import ALL, meeting, right, versus, weights
from unmask.experiments.jobs import sweep
from unmask.languages.presets import varied

FEW = {"languages": ("paper-2gram", "interval-5"), "lengths": (20,), "rows": 30, "seeds": 2, "steps": (2, 8, 20)}
SETTINGS = Settings((), **FEW)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A board that has both samplers."""
    place = tmp_path_factory.mktemp("versus") / "sweep"
    sweep(recipe(Settings(("ancestral", "strided"), **FEW)), store=place, engine="here", fresh=True)
    return place


def wrong(name, sampler, steps):
    """Of the rows of both seeds, each of its own language."""
    found = []
    for seed in range(2):
        language = languages.load(varied(name, seed=seed))
        made = generate(language, sampler=sampler, steps=steps, length=20, rows=30, seed=seed)
        found.append((~language.supports(made.tokens), made.evaluations.double()))
    return (torch.cat(parts) for parts in zip(*found, strict=True))


@given(st.lists(st.floats(0.5, 40), min_size=1, max_size=5, unique=True), st.floats(0, 1), st.floats(0, 1))
def test_weights_are_of_the_mixture_that_takes_as_many(evaluations, a, b):
    evaluations = sorted(evaluations)
    low, high = sorted(evaluations[0] + share * (evaluations[-1] - evaluations[0]) for share in (a, b))
    at = weights(evaluations, low, low)
    assert sum(at) == pytest.approx(1)
    assert sum(w > 0 for w in at) <= 2
    assert np.dot(at, evaluations) == pytest.approx(low)
    fine = np.exp(np.linspace(math.log(low), math.log(high), 65))
    over = np.mean([np.interp(e, evaluations, np.arange(len(evaluations))) for e in fine])
    assert np.dot(weights(evaluations, low, high), np.arange(len(evaluations))) == pytest.approx(over)


def curve(*evaluations):
    return SimpleNamespace(evaluations=list(evaluations), points=[None] * len(evaluations))


def test_where_two_meet():
    assert meeting(curve(2, 8), curve(4, 16)) == ((4, 8), (4, 8))
    assert meeting(curve(2, 8), curve(4)) == ((4, 4), (4, 4))
    assert meeting(curve(3), curve(5)) == ((3, 3), (5, 5))
    assert meeting(curve(2, 8), curve(4, 16), 5) == ((5, 5), (5, 5))
    for case in (
        (curve(2, 8), curve(9, 16)),
        (curve(2, 8), curve(9)),
        (curve(2, 8), curve(4, 16), 9),
        (curve(3), curve(5), 5),
    ):
        with pytest.raises(UnmaskError, match=r"their budgets take .* evaluations, which"):
            meeting(*case)


def test_two_budgets_are_compared_row_by_row(store):
    """As they are, by McNemar's test of rows that were made one by one."""
    found = versus("ancestral(steps=[8])", "ancestral(steps=[2])", SETTINGS, store=store, engine="here")
    assert [one.language for one in found] == ["paper-2gram", "interval-5", ALL]
    whole = [0, 0]
    for one in found[:2]:
        (ours, needed), (theirs, less) = (wrong(one.language, "ancestral", steps) for steps in (8, 2))
        b, c = int((theirs & ~ours).sum()), int((ours & ~theirs).sum())
        whole = [whole[0] + b, whole[1] + c]
        assert one.evaluations == ((float(needed.mean()),) * 2, (float(less.mean()),) * 2)
        assert (one.comparison.items, one.comparison.first_alone, one.comparison.second_alone) == (60, b, c)
        assert one.comparison.difference.value == pytest.approx((b - c) / 60)
        assert one.comparison.p == pytest.approx(binomtest(b, b + c).pvalue if b + c else 1.0)
        halves = (theirs.double() - ours.double()).view(2, 30).mean(1)
        assert one.by_seed == pytest.approx(tuple(halves.tolist()))
    together = found[2].comparison
    assert (together.items, together.first_alone, together.second_alone) == (120, *whole)


def test_between_budgets_it_is_the_mixture(store):
    found = versus("ancestral", "strided(steps=[4])", SETTINGS, store=store, engine="here")[0]
    (cheap, low), (dear, high), (other, four) = (
        wrong("paper-2gram", sampler, steps) for sampler, steps in (("ancestral", 2), ("ancestral", 8), ("strided", 4))
    )
    share = float((four.mean() - low.mean()) / (high.mean() - low.mean()))
    mixed = (1 - share) * cheap.double() + share * dear.double()
    assert found.comparison.difference.value == pytest.approx(float((other.double() - mixed).mean()))
    assert found.comparison.p is None  # a row is neither right nor wrong
    assert found.evaluations == ((4.0, 4.0), (4.0, 4.0))


def test_over_a_range_it_is_the_mean_over_log_evaluations(store):
    found = versus("ancestral", "strided", SETTINGS, store=store, engine="here")[0]
    (low, high), other = found.evaluations
    assert (low, high) == other
    means = []
    for sampler in ("ancestral", "strided"):
        points = [tuple(float(v.double().mean()) for v in wrong("paper-2gram", sampler, n)) for n in (2, 8, 20)]
        grid = np.exp(np.linspace(math.log(low), math.log(high), 65))
        means.append(np.interp(grid, [e for _, e in points], [ser for ser, _ in points]).mean())
    assert found.comparison.difference.value == pytest.approx(means[1] - means[0])
    assert (found.comparison.verdict, found.comparison.p) == ("worse", None)


def test_a_sampler_is_as_good_as_itself(store):
    for found in versus("ancestral", "ancestral", SETTINGS, 5.0, store=store, engine="here"):
        assert (found.comparison.verdict, found.comparison.difference.value) == ("not distinguishable", 0.0)


def test_what_a_board_has_measured_is_not_measured_again(store, monkeypatch):
    monkeypatch.setattr(cells, "measure", pytest.fail)
    assert versus("strided", "ancestral", SETTINGS, store=store, engine="here")[2].comparison.verdict == "better"


def test_where_two_do_not_meet_it_says_so(store):
    with pytest.raises(UnmaskError, match=r"to 7.* and 2 to 20 evaluations, which do not both hold 12.2; list budgets"):
        versus("ancestral(steps=[2, 8])", "strided", SETTINGS, 12.2, store=store, engine="here")


def test_shares_of_rows_are_clean():
    """Weights that sum to one but for rounding make no row differ that does not."""
    points = [SimpleNamespace(wrong=torch.tensor([True, False, True])) for _ in range(3)]
    made = SimpleNamespace(evaluations=[1.0, 3.0, 7.0], points=points)
    for low, high in itertools.combinations_with_replacement(np.linspace(1, 7, 20), 2):
        assert right(made, low, high).tolist() == [0.0, 1.0, 0.0]
