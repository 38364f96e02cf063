"""Bounds from windows: they hold against enumeration and the closed form, and close where the window sees enough."""

from __future__ import annotations

import numpy as np
import pytest

from tests.metrics.small import by_rank, conditional_entropies
from tests.theory.small import SMALL
from unmask.core.errors import UnmaskError
from unmask.languages import load, random_ngram
from unmask.schedules import deltas
from unmask.theory.certified import certified
from unmask.theory.chains import first_order, information_curve
from unmask.theory.curves import InformationCurve

NAMES = ["2-gram", "2-gram, pruned", "3-gram, pruned", "4-gram, pruned", "4-gram, short", "3-gram, short"]
SCHEDULES = [("linear", 1), ("linear", 3), ("cosine", 4), ("linear", 30)]


@pytest.mark.parametrize("name", NAMES)
def test_the_bounds_hold_and_close(name):
    language, length = SMALL[name]
    curve = InformationCurve(by_rank(conditional_entropies(name)), "enumeration")
    u = np.linspace(0, 1, 9)
    for reach in range(length + 1):
        ours = certified(language, length, reach)
        assert (ours.lower.h(u) <= curve.h(u) + 1e-10).all()
        assert (curve.h(u) <= ours.upper.h(u) + 1e-10).all()
        for schedule, steps in SCHEDULES:
            delta = deltas(schedule, steps)
            for fixed_size in (False, True):
                bounds, value = (
                    ours.divergence(delta, fixed_size=fixed_size),
                    curve.divergence(delta, fixed_size=fixed_size).value,
                )
                assert bounds.low - 1e-10 <= value <= bounds.high + 1e-10
        if reach >= length - 1:
            np.testing.assert_allclose([ours.lower.f, ours.upper.f], [curve.f, curve.f], atol=1e-12)
    assert ours.entropy == pytest.approx(curve.entropy.value)


def test_a_long_sequence_against_the_closed_form():
    """Far from stationary at its beginning; wider windows are tighter, and tight at both ends of h."""
    language, u = random_ngram(2, 3, temperature=2.0, threshold=0.1, seed=4), np.linspace(0, 1, 9)
    curve, widths = information_curve(first_order(language), 60), []
    for reach in (0, 1, 2, 3):
        ours = certified(language, 60, reach)
        assert (ours.lower.h(u) <= curve.h(u) + 1e-10).all()
        assert (curve.h(u) <= ours.upper.h(u) + 1e-10).all()
        widths.append((ours.upper.h(u) - ours.lower.h(u)).max())
        bounds = ours.divergence(deltas("linear", 16))
        assert bounds.low <= curve.divergence(deltas("linear", 16)).value <= bounds.high
        assert bounds.high <= (ours.upper.h(0) - ours.lower.h(1)) / 16 + 1e-9
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < widths[0] / 3
    assert certified(language, 60).reach >= 3
    assert ours.lower.h(1.0) == pytest.approx(float(curve.h(1.0)), rel=1e-9)


def test_what_is_too_wide():
    with pytest.raises(UnmaskError, match=r"windows of 3 positions to each side are too many to sum. Lower reach"):
        certified(random_ngram(3), 64, 3)


def test_what_is_certain_has_no_noise():
    found = certified(load("paper-2gram"), 12, 1).divergence(deltas("linear", 4))
    assert found.low < found.high
    assert found.standard_error == 0
