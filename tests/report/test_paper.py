"""The page of the paper in a browser: its contents, its filter, and both widths without a warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from unmask.experiments.paper.items import ITEMS
from unmask.experiments.paper.reproduction import read
from unmask.report import paper

RECORDS = Path(__file__).parents[2] / "results/paper-quick.json"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    target = tmp_path_factory.mktemp("paper") / "index.html"
    target.write_bytes(paper.drawn(*read(RECORDS)))
    return target


@pytest.mark.rotates(3)
def test_claims_are_filtered_by_verdict(open_page, file):
    page = open_page(file)
    shown = {}
    for verdict in ("agrees", "differs", "not-tested"):
        page.locator(f"#{verdict}").uncheck()
        shown[verdict] = page.locator("details.claim:visible").count()
    assert shown == {"agrees": 22, "differs": 13, "not-tested": 0}


def test_contents_lead_to_items_and_differences_to_claims(open_page, file):
    page = open_page(file)
    assert [link.get_attribute("href") for link in page.locator(".contents a").all()] == [f"#{name}" for name in ITEMS]
    differing = [link.get_attribute("href")[1:] for link in page.locator("dl a").all()]
    assert len(differing) == 9
    for name in differing:
        assert page.locator(f'[id="{name}"]').get_attribute("open") is not None
    assert page.locator("dd").count() == 18


@pytest.mark.parametrize("width", [1400, 390])
def test_the_page_is_short_and_as_wide_as_the_window(open_page, file, width):
    page = open_page(file, width=width, dark=width == 390)
    page.wait_for_selector(".plot.vega-embed svg")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.documentElement.scrollHeight") < 25_000
