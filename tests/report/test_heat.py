"""A heat map of a chain: each cell with its own probability, and no color of its own."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from unmask.core.errors import UnmaskError
from unmask.languages import NGram, random_ngram
from unmask.report.heat import HeatMap


def test_each_cell_has_its_probability():
    chain = NGram(2, [0.5, 0.5], [[0.25, 0.75], [1.0, 0.0]]).named(("<", "b"))
    drawn = ElementTree.fromstring(HeatMap(chain)._repr_html_())
    opacity = {path[0].text: path.get("fill-opacity") for path in drawn.iter("path")}
    expected = {
        "< after <: 0.25": "0.250",
        "b after <: 0.75": "0.750",
        "< after b: 1": "1.000",
        "b after b: 0": "0.000",
    }
    assert opacity == expected
    assert drawn.get("fill") == "currentColor"


@pytest.mark.parametrize("language", [random_ngram(3, 2, seed=0), random_ngram(2, 41, seed=0)])
def test_longer_contexts_and_many_symbols_are_refused(language):
    with pytest.raises(UnmaskError, match="expected a 2-gram of at most 40 symbols"):
        HeatMap(language)
