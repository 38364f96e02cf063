"""The names beside a figure: a gap apart, and as near to their lines as that allows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.needs import required

with required("pages"):
    from unmask.report.charts import spread


@pytest.mark.parametrize("gap", [0.0, 0.3, 1.0])
def test_names_are_a_gap_apart_and_nearest_in_squares(gap):
    """Of all places that are a gap apart: no way from the found ones to others leads nearer to the values."""
    rng = np.random.default_rng(0)
    for count in [*range(1, 8)] * 5:
        values = rng.normal(size=count)
        places, order = np.array(spread(values.tolist(), gap)), values.argsort()
        assert (np.diff(places[order]) >= gap - 1e-12).all()

        other = np.empty((40, count))
        other[:, order] = np.sort(rng.normal(size=(40, count))) + gap * np.arange(count)
        assert ((other - places) @ (values - places) < 1e-9).all()

    assert min(spread([0.0, 0.1], gap, least=2.0)) == pytest.approx(2.0)
    assert spread([], gap) == []
