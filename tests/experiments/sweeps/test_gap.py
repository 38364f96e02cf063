"""The job `gap` in a sweep."""

from __future__ import annotations

import pytest

from unmask.core.errors import UnmaskError
from unmask.experiments.jobs.catalogue import find
from unmask.experiments.jobs.gap import FactorizationGap

CELL = {"language": "sparse-hmm(pruned=False)", "length": 12, "rows": 40, "steps": 3}


def test_a_cell_has_the_gap_and_the_order_gap():
    records = {one["measure"]: one for one in find("gap").run(**CELL)}
    assert {"gap_nats", "gap_nats_per_token", "gap_changed_tokens", "gap_infinite", "order_gap_nats"} == set(records)
    assert records["gap_nats"]["value"] == pytest.approx(12 * records["gap_nats_per_token"]["value"])
    assert records["gap_nats"]["model_calls"] == pytest.approx(3, abs=0.1)
    greedy = {one["measure"] for one in find("gap").run(**CELL, temperature=0.0, prompt_length=2)}
    assert "gap_regret" in greedy
    assert "gap_nats" not in greedy


def test_cells_are_checked_before_anything_runs():
    FactorizationGap(**CELL, calls="pair").check()
    with pytest.raises(UnmaskError, match="calls"):
        FactorizationGap(**CELL, calls="two").check()
    with pytest.raises(UnmaskError, match="calls"):
        FactorizationGap(**CELL, calls=0).check()
