"""The page and its files: whole, self-contained, and true to the records."""

from __future__ import annotations

import csv
import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from unmask.core.errors import UnmaskError
from unmask.core.files import origin
from unmask.experiments.jobs import sweep
from unmask.report.demo import PAGE, Settings, Story
from unmask.report.explorer.fragment import Explorer
from unmask.report.publishing import Made, publish, write
from unmask.report.results import read

SETTINGS = Settings(
    rows=20,
    small_rows=6,
    steps=(2, 8, 64),
    length=20,
    panel_lengths=(10, 20),
    profile_rows=5,
    perplexity_rows=5,
    generative_perplexity=True,
    lengths=("paper-3gram",),
    samplers=("ancestral", "low-confidence"),
    sampler_languages=("paper-2gram", "interval-5"),
    sampler_length=20,
    sampler_rows=8,
)
FIGURES = {"ser-by-language", "ter-by-language", "generative-perplexity-by-language", "diversity-by-language"}
FIGURES |= {"lengths", "front", "overview", "schedule"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return publish(PAGE, SETTINGS, tmp_path_factory.mktemp("demo") / "out")


class Elements(HTMLParser):
    """The tags with their attributes, and the text of scripts and of the first of each other element."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.text, self.inside = [], [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.inside = tag
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        (self.scripts if self.inside == "script" else self.text).append(data)


@pytest.fixture(scope="module")
def elements(made):
    return Elements(made.page.read_text())


def test_files(made):
    names = {path.name for path in made.files}
    drawings = {f"{figure}.{kind}" for figure in FIGURES for kind in ("svg", "png")}
    assert names == drawings | {"index.html", "data.json", "data.csv"}
    assert {path.name for path in made.page.parent.iterdir()} == names | {"sweep"}
    for path in made.files:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
        if path.suffix == ".svg":
            assert ElementTree.fromstring(path.read_text()).tag.endswith("svg")
    assert made.page.stat().st_size < 1.6e6


def test_the_page_asks_nobody_for_anything(made, elements):
    """No attribute names another machine but XML namespaces, and no style imports."""
    text = made.page.read_text()
    assert "$" not in re.sub(r"(?s)<script.*?</script>", "", text)
    for tag, attributes in elements.tags:
        assert tag not in ("link", "iframe", "object", "embed", "base", "img")
        for name, value in attributes.items():
            if not name.startswith("xmlns"):
                assert "//" not in (value or ""), (tag, name, value)
    for style in re.findall(r"(?s)<style>(.*?)</style>", text):
        assert "@import" not in style
        assert "url(" not in style


def test_links_lead_to_the_files(made, elements):
    linked = {attributes["href"] for tag, attributes in elements.tags if tag == "a"}
    assert linked == {path.name for path in made.files} - {"index.html"}


def test_the_definitions_hold_no_data_from_elsewhere(elements):
    (told,) = (json.loads(text) for text in elements.scripts if text.startswith('{"points"'))
    assert {figure["name"] for figure in told["figures"]} == FIGURES - {"overview"}
    for figure in told["figures"]:
        assert '"url"' not in json.dumps(figure)


def test_json_and_csv_are_the_records(made):
    data = json.loads((made.page.parent / "data.json").read_text(), parse_constant=pytest.fail)
    points = made.measured.results.points
    assert [record["value"] for record in data["records"]] == [point["value"] for point in points]
    assert data["origin"]["configuration"] == data["settings"]
    assert data["settings"]["rows"] == 20
    with open(made.page.parent / "data.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["measure"] for row in rows] == [point["measure"] for point in points]
    assert [float(row["value"]) for row in rows] == [point["value"] for point in points]


def test_the_page_has_the_numbers_and_three_sentences(made, elements):
    text = " ".join("".join(elements.text).split())
    assert len(made.measured.sentences()) == 3
    for sentence in made.measured.sentences():
        assert sentence.text in text
    for table in made.measured.tables():
        for _, cells in table.rows:
            assert all(part in text for cell in cells for part in cell)
    assert "what plots often call TER" in text


def test_what_was_not_seen_is_not_zero(made):
    """An exact zero is one, a measured one is an upper limit."""
    tables = made.measured.tables()
    *_, autoregression = tables[0].rows
    assert autoregression[0].startswith("AR")
    assert autoregression[1][0] == ("0", "exact")
    unseen = {"value": 0.0, "low": 0.0, "high": 0.1, "n": 20, "method": "clopper-pearson"}
    results = made.measured.results
    points = [p | unseen if (p["measure"], p["steps"]) == ("ser", 64) else p for p in results.points]
    last = Story(replace(results, points=points), SETTINGS).tables()[0].rows[-2]
    assert last[1][0] == ("< 10.0%", "none in 20")


def test_it_stands_early_and_is_completed_in_place(tmp_path):
    """Of the first cells alone it is a page that says that the rest is to come."""
    store = sweep(PAGE.first(SETTINGS), store=tmp_path / "sweep", engine="here")
    found = PAGE.early(SETTINGS, Made(origin(), 1.0, Explorer(read([store.directory]))))
    assert list(found) == ["index.html"]
    page = found["index.html"].decode()
    assert "completed in place" in page
    assert 'id="ser-by-language"' in page
    assert 'id="front"' not in page


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_a_failure_leaves_nothing(tmp_path, monkeypatch, error):
    replaced = []
    original = os.replace

    def stop(source, target):
        if replaced:
            raise error
        replaced.append(target)
        original(source, target)

    monkeypatch.setattr(os, "replace", stop)
    with pytest.raises((KeyboardInterrupt, UnmaskError)):
        write(tmp_path / "out", {"a.svg": b"a", "index.html": b"b"}, "index.html")
    assert replaced
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_was_there_stays(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    written = write(tmp_path, {"index.html": b"page", "a.svg": b"a"}, "index.html")
    assert [path.name for path in written] == ["a.svg", "index.html"]  # the page last
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_the_page_opens_in_a_browser(made, open_page, serious):
    shown = open_page(made.page)
    shown.wait_for_function("document.documentElement.dataset.ready === 'yes'")
    assert shown.locator(".plot.vega-embed svg .mark-symbol path").count() > 40
    assert serious(shown) == []
