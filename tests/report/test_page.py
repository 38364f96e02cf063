"""The page and its files: whole, self-contained, and true to the records."""

from __future__ import annotations

import csv
import json
import os
import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from unmask.report.explorer.chosen import value_text
from unmask.report.explorer.fragment import Explorer
from unmask.report.explorer.metrics import METRICS
from unmask.report.terminal import table
from unmask.report.whole import of_recipe

from tests.report.tiny import demo
from unmask.core.errors import UnmaskError
from unmask.report import frame, publishing
from unmask.report.publishing import TO_COME, publish, write

FIGURES = {"ser-by-language", "ter-by-language", "generative-perplexity-by-language", "diversity-by-language"}
FIGURES |= {"lengths", "front", "overview", "schedule"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("demo")
    return publish(of_recipe("demo"), demo(place), place / "out")


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
    points = made.explorer.results.points
    assert [record["value"] for record in data["records"]] == [point["value"] for point in points]
    assert data["origin"]["configuration"] == data["settings"]
    assert data["settings"]["recipe"].endswith("demo.yaml")
    with open(made.page.parent / "data.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["measure"] for row in rows] == [point["measure"] for point in points]
    assert [float(row["value"]) for row in rows] == [point["value"] for point in points]


def test_the_page_has_three_messages_from_the_numbers(made, elements):
    text = " ".join("".join(elements.text).split())
    fluent, correct, longer = made.explorer.cards
    points = made.explorer.results.points
    of_64 = [p for p in points if (p["steps"], p["kind"], p["length"], p["sampler"]) == (64, "mdm", 20, "ancestral")]
    known = [p for p in of_64 if "pruned" not in p["of"] and p["job"] != "curve"]
    most = max(p["value"] for p in known if p["measure"] in ("ter_ratio", "ter_upper_ratio"))
    assert fluent.number == f"TER within {100 * (most - 1):.2g}% of the optimum"
    wrong = [100 * p["value"] for p in known if p["measure"] == "ser"]
    assert len(wrong) == 5
    least, most = f"{min(wrong):.3g}%", f"{max(wrong):.3g}%"
    assert correct.number == (f"SER {least} to {most}" if min(wrong) else f"SER up to {most}")
    needed = {p["length"]: p["value"] for p in points if (p["measure"], p["of"]) == ("steps_for_ser", "interval-5")}
    assert [float(x) for x in re.findall(r"[\d.]+", longer.number)] == pytest.approx([needed[10], needed[20]], rel=1e-2)
    for card in made.explorer.cards:
        assert card.number in text
        assert card.text in text


def test_a_message_without_numbers_is_left_out(made):
    results = made.explorer.results
    few = Explorer(replace(results, points=[dict(p) for p in results.of("ser")]), of_recipe("demo").view)
    assert [card.number.split()[0] for card in few.cards] == ["SER"]


def test_each_number_is_in_one_table(made, elements):
    """One table of the chosen metric, with a row per sampler and setting; the page has no second one."""
    text = made.page.read_text()
    assert text.count("<caption>") == 1
    title, head, rows = table(made.explorer)
    assert head[:2] == ["sampler", "setting"]
    settings = [(sampler, setting) for sampler, setting, *_ in rows]
    assert len(set(settings)) == len(settings)
    assert {("ancestral", "2 steps"), ("ancestral", "64 steps"), ("low-confidence", "20 steps")} < set(settings)
    assert settings[-1] == ("AR", "")
    shown = [text.count(f'data-at="{p["number"]}"') for p in made.explorer.results.of("ser")]
    assert max(shown) == 1
    assert sum(shown) == sum(cell != "-" for row in rows for cell in row[2:])
    assert title in text


def test_what_was_not_seen_is_not_zero():
    """An exact zero is one, a measured one is an upper limit; every end of an interval has its unit."""
    ser, about = METRICS["ser"], {"n": 20, "level": 0.95, "method": "clopper-pearson"}
    assert value_text({"value": 0.0, "low": 0.0, "high": 0.1} | about, ser) == "< 10%"
    assert value_text({"value": 0.0, "low": 0.0, "high": 0.0} | about | {"method": "exact"}, ser) == "0%"
    assert value_text({"value": 0.25, "low": 0.125, "high": 0.5} | about, ser) == "25% [12.5%, 50%]"


def test_the_first_figures_come_early(tmp_path, monkeypatch):
    """A page of the first cells is written while the others are measured, and says so."""
    pages = []
    monkeypatch.setattr(publishing, "LOOK", 0.05)
    monkeypatch.setattr(publishing, "write", lambda out, contents, last: pages.append(contents) or [])
    real = publishing.sweep

    def slow(recipe, **options):
        real(replace(recipe, parts=recipe.parts[:2]), **options)
        deadline = time.monotonic() + 300
        while not pages and time.monotonic() < deadline:
            time.sleep(0.05)
        return real(recipe, **options)

    monkeypatch.setattr(publishing, "sweep", slow)
    publish(of_recipe("demo"), demo(tmp_path), tmp_path / "out")
    early, whole = (contents["index.html"].decode() for contents in (pages[0], pages[-1]))
    assert len(pages) == 2
    assert list(pages[0]) == ["index.html"]
    assert TO_COME in early
    assert TO_COME not in whole
    assert 'id="ser-by-language"' in early
    assert 'id="front"' not in early
    assert 'id="front"' in whole


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


def test_a_panic_of_the_drawing_library_is_one_line(monkeypatch):
    """It is no Exception: with `ulimit -n 12` it ended the program with a traceback."""

    class PanicException(BaseException):
        pass

    def panic(definition):
        raise PanicException("called `Result::unwrap()` on an `Err` value: Too many open files")

    monkeypatch.setattr(frame.vl_convert, "vegalite_to_svg", panic)
    with pytest.raises(UnmaskError, match=r"Too many open files; .* Raise their limit \(ulimit -n\)"):
        frame.svg({})
