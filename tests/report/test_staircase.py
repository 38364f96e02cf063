"""The figure of the information curve: what is shaded is what the schedule pays."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from unmask import languages
from unmask.report import staircase
from unmask.schedules import Fit, deltas
from unmask.theory.known import curve


@pytest.mark.parametrize("name", ["paper-2gram", "interval-5"])
def test_the_shaded_area_is_the_divergence(name):
    language, length, rounds = languages.load(name), 20, 4
    drawn = staircase.chart(language, length, rounds)
    assert len(drawn["hconcat"]) == len(staircase.SCHEDULES)
    for panel, schedule in zip(drawn["hconcat"], staircase.SCHEDULES, strict=True):
        shaded = pd.DataFrame(drawn["datasets"][panel["layer"][0]["data"]["name"]])
        assert (shaded["top"] >= shaded["h"] - 1e-12).all()
        area = np.trapezoid(shaded["top"] - shaded["h"], shaded["u"])
        truth = curve(language, length).divergence(deltas(schedule, rounds, Fit(language, length))).value
        assert area == pytest.approx(truth / length / np.log(2), rel=0.05)  # the points are not the corners
        assert f"{truth / length / np.log(2):.4f}" in panel["title"]["subtitle"]
