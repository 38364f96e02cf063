"""The job `gap` in a sweep."""

from __future__ import annotations

import pytest

from tests.experiments.sweeps.conftest import by_name, measured
from unmask.core.errors import UnmaskError
from unmask.experiments.cell import cell_of, check

CELL = {"language": "sparse-hmm(pruned=False)", "length": 12, "rows": 40, "steps": 3}


def test_a_cell_has_the_gap():
    records = by_name(measured("gap", **CELL))
    names = {"gap_nats", "gap_nats_per_token", "gap_differ_at_most", "gap_infinite"}
    assert names | {"divergence_nats"} == set(records)
    assert records["gap_nats"]["value"] == pytest.approx(12 * records["gap_nats_per_token"]["value"])
    assert records["gap_nats"]["model_calls"] == pytest.approx(3, abs=0.1)
    greedy = by_name(measured("gap", **CELL, temperature=0.0, prompt_length=2))
    assert "gap_first_flips" in greedy
    assert "gap_nats" not in greedy


def test_measured_gaps_contain_the_exact_divergence():
    """Three independent ways: the gap from the model, log p - log q of the rows, and the recursion of theory."""
    cell = {"language": "paper-2gram(pruned=False)", "length": 16, "rows": 400, "steps": 4}
    records = by_name(measured("gap", **cell))
    exact = records["gap_exact_nats"]["value"]
    for name in ("gap_nats", "divergence_nats"):
        error = (records[name]["high"] - records[name]["low"]) / 3.92
        assert abs(records[name]["value"] - exact) < 6.2 * error, name  # a false alarm in 1e-9 runs
        assert error < 0.1 * exact
    for changed in ({"sampler": "strided"}, {"temperature": 0.7}, {"prompt_length": 3}, {"schedule": "cosine"}):
        found = by_name(measured("gap", **cell | {"rows": 20}, **changed))
        assert ("gap_exact_nats" in found) == ("schedule" in changed)
        assert "divergence_nats" in found


def test_a_divergence_with_prompts_is_conditional():
    """Two of four positions are given and one is drawn at a time, so log p is log q of the rest."""
    from unmask import generate, languages
    from unmask.experiments.jobs.samples import divergence
    from unmask.experiments.jobs.sources import Amount

    q = languages.load("sparse-hmm")
    given, _ = Amount(30, 1, 2, 3).prompts(q, 4)
    found = divergence(generate(q, sampler="fixed-size", steps=2, length=4, given=given), q)
    assert (found.value, found.n) == (pytest.approx(0, abs=1e-9), len(given.unique(dim=0)))


def test_cells_are_checked_before_anything_runs():
    check([cell_of({"job": "gap", "calls": "chain"} | CELL)])
    with pytest.raises(UnmaskError, match="calls"):
        check([cell_of({"job": "gap", "calls": "two"} | CELL)])
