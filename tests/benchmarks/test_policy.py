"""The study of policy gradients: its file is measured again in part, and its tables are those of the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import policy_gradients as study
from tests.needs import needs

ROOT = Path(__file__).parents[2]
MADE = json.loads(study.RESULTS.read_text())


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("cell", "kept"), study.parts(MADE, "tables"))
def test_free_tables_are_measured_again(cell, kept):
    assert study.tables(cell["sampler"], cell["tokens"]) == pytest.approx(kept, abs=1e-6)


def test_every_exact_gradient_has_a_second_way():
    """Finite differences of the enumerated reward along g, and the values that theory gives."""
    results = [result for cell, some in study.parts(MADE, "bias") if cell["length"] == 4 for result in some]
    assert max(result["difference"] for result in results) < 1e-5
    assert max(result for _, result in study.parts(MADE, "check")) < 1e-4
    for (name, size), own in study.cosines(MADE).items():
        if name == "random" or size == study.KINDS[3]:
            assert min(own["trajectory"]) > 1 - 1e-9
        if size == study.KINDS[3]:
            assert min(own["one-step"]) > 1 - 1e-9


def test_the_page_has_the_tables():
    page = (ROOT / "docs/policy-gradients.md").read_text()
    rows = [line for line in study.table(MADE).splitlines() if line.startswith("| ")]
    assert len(rows) > 40
    assert [row for row in rows if row not in page] == []


@needs("pages")
def test_the_figure_is_drawn():
    assert study.figure(MADE).count("<svg") == 1
