"""The figure of a board: what it shows, and where it writes the names."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.experiments.board import Settings, board
from unmask.report import board as drawing
from unmask.report import kinds, labels


@pytest.fixture(scope="module")
def made():
    usual = ("ancestral", "strided", "speculative(draft_length=[2, 4])", "autoregressive")
    return board(Settings(usual, ("paper-2gram", "interval-5"), (20,), 20, 2, steps=(2, 20)))


def marks(definition, kind):
    """Every layer with this mark, wherever it stands."""
    if isinstance(definition, dict):
        mark = definition.get("mark")
        if (mark["type"] if isinstance(mark, dict) else mark) == kind:
            yield definition
        for part in definition.values():
            yield from marks(part, kind)
    elif isinstance(definition, list):
        for part in definition:
            yield from marks(part, kind)


def test_one_column_a_language(made):
    drawn = drawing.panels(made.records).to_dict()
    assert [column["vconcat"][0]["title"] for column in drawn["hconcat"]] == ["paper-2gram", "interval-5"]
    assert all(len(column["vconcat"]) == 2 for column in drawn["hconcat"])
    assert "NaN" not in json.dumps(drawn)


def test_every_line_has_its_name_or_leaves_room(made):
    drawn = drawing.panels(made.records).to_dict()
    shown = {row["sampler"] for data in drawn["datasets"].values() for row in data if "py" in row}
    assert shown == {"ancestral", "strided", "speculative(draft_length=[2, 4])"}


def test_ar_is_a_diamond_at_its_own_cost(made):
    drawn = drawing.panels(made.records).to_dict()
    diamonds = [m for m in marks(drawn, "point") if m["mark"].get("shape") == "diamond"]
    assert len(diamonds) == 4
    for diamond in diamonds:
        ((row,),) = [drawn["datasets"][diamond["data"]["name"]]]
        assert row["evaluations"] == 20


def test_what_is_not_ours_has_a_colour_of_its_own():
    assert kinds.colour("ancestral") == kinds.colour("blocks(block_length=8)")
    assert kinds.colour("mine.samplers:Mine(strength=[1, 2])") == kinds.OWN


LINES = st.dictionaries(
    st.sampled_from(["ancestral", "strided", "low-confidence", "a", "b", "c"]),
    st.lists(st.tuples(st.integers(0, 330), st.integers(0, 300)), min_size=1, max_size=5, unique=True),
    min_size=1,
)


@settings(deadline=None, max_examples=30)
@given(LINES)
def test_names_lie_in_the_panel_and_on_nothing(lines):
    placed = labels.place(lines, 330, 300)
    boxes = []
    for name, (x, y, side) in placed.items():
        width = labels.LETTER * len(name)
        left = x if side == "left" else x - width
        boxes.append((left, y - labels.HALF, left + width, y + labels.HALF))
        assert left >= 0
        assert left + width <= 330 + 1e-9
        assert 0 <= boxes[-1][1] < boxes[-1][3] <= 300
        points = np.array(lines[name], dtype=float)
        inside = (points[:, 0] > left) & (points[:, 0] < left + width)
        assert not (inside & (np.abs(points[:, 1] - y) < labels.HALF)).any()
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def test_a_name_stands_where_its_line_is_alone():
    (x, _, _), _ = labels.place(
        {"a": [(0, 100), (300, 100)], "b": [(0, 110), (100, 290), (300, 290)]}, 330, 300
    ).values()
    assert x > 40  # where they part
