"""The page and its files: whole, self-contained, true to the records, and one choice at a time."""

from __future__ import annotations

import csv
import json
import os
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import altair as alt
import pytest

from tests.report.tiny import demo
from unmask.core.errors import UnmaskError
from unmask.report import charts
from unmask.report.figures import drawn
from unmask.report.metrics import METRICS
from unmask.report.page import choices
from unmask.report.publishing import page_of, publish, write
from unmask.report.verdict import table, value_text, verdict

FIGURES = {"ser-by-language", "lengths", "ter-by-language", "front"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("demo")
    return publish(page_of("demo"), demo(place), place / "out", svg=True)


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
    drawings = {f"{figure}.svg" for figure in FIGURES - {"front"}}  # the first three
    assert names == drawings | {"index.html", "data.json", "data.csv"}
    assert {path.name for path in made.page.parent.iterdir()} == names | {"sweep"}
    for path in made.files:
        if path.suffix == ".svg":
            assert ElementTree.fromstring(path.read_text()).tag.endswith("svg")
    assert made.page.stat().st_size < 1.9e6


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
    theorems = {f"#{attributes['id']}" for tag, attributes in elements.tags if tag == "tr" and "id" in attributes}
    assert linked - theorems == {path.name for path in made.files} - {"index.html"}
    assert theorems <= linked


@pytest.mark.long
def test_figures_are_those_of_the_view_and_valid(made):
    """In the order of the view, each with its sentence, and as the schema of Vega-Lite has it."""
    figures = drawn(made.shown)
    assert list(figures)[:3] == ["ser-by-language", "lengths", "ter-by-language"]
    assert set(figures) == FIGURES
    for one in figures.values():
        alt.Chart.from_dict(one.definition)
        assert '"url"' not in json.dumps(one.definition)
        assert one.sentences


def test_each_row_of_a_figure_is_a_point(made):
    """Of SER: every measured and predicted value, at its N, in the drawing of its setting."""
    results, figure = made.shown.results, drawn(made.shown)["ser-by-language"]
    lines = [p for p in results.of("ser", "ser_predicted") if p["kind"] == "mdm" and p["steps"]]
    expected = {(p["of"], p["steps"], p["value"], p["low"], p["high"]) for p in lines}
    rows = [row for row in figure.rows if row["kind"] == "mdm"]
    assert {(row["hue"], row["x"], row["value"], row["low"], row["high"]) for row in rows} == expected
    assert {(p["of"], p["value"]) for p in results.of("ser") if p["kind"] == "ar"} == {
        (made.shown.languages[int(row["l"])], row["value"]) for row in figure.rows if row["kind"] == "ar"
    }


def test_json_and_csv_are_the_records(made):
    data = json.loads((made.page.parent / "data.json").read_text(), parse_constant=pytest.fail)
    points = made.shown.results.points
    assert [record["value"] for record in data["records"]] == [point["value"] for point in points]
    assert data["origin"]["configuration"] == data["settings"]
    assert data["settings"]["recipe"].endswith("demo.yaml")
    with open(made.page.parent / "data.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["measure"] for row in rows] == [point["measure"] for point in points]
    assert [float(row["value"]) for row in rows] == [point["value"] for point in points]


def test_the_page_has_three_messages_from_the_numbers(made, elements):
    text = " ".join("".join(elements.text).split())
    (fluent, _), (correct, _), (longer, _) = cards = made.shown.view.cards(made.shown.results, made.shown.state)
    points = made.shown.results.points
    of_64 = [p for p in points if (p["steps"], p["kind"], p["length"], p["sampler"]) == (64, "mdm", 20, "ancestral")]
    known = [p for p in of_64 if "pruned" not in p["of"] and p["job"] != "curve"]
    most = max(p["value"] for p in known if p["measure"] in ("ter_ratio", "ter_upper_ratio"))
    assert fluent == f"TER within {100 * (most - 1):.2g}% of the language's own"
    wrong = [100 * p["value"] for p in known if p["measure"] == "ser"]
    assert len(wrong) == 4
    least, most = f"{min(wrong):.3g}%", f"{max(wrong):.3g}%"
    assert correct == (f"SER {least} to {most}" if min(wrong) else f"SER up to {most}")
    needed = {p["length"]: p["value"] for p in points if (p["measure"], p["of"]) == ("steps_for_ser", "interval-5")}
    assert [float(x) for x in re.findall(r"[\d.]+", longer)] == pytest.approx([needed[10], needed[20]], rel=1e-2)
    for number, words in cards:
        assert number in text
        assert words in text


def test_the_table_of_a_terminal_has_every_sampler(made):
    title, head, rows = table(made.shown)
    assert (title, head[:2]) == (METRICS["ser"].title, ["sampler", "setting"])
    assert rows[-1][:2] == ["AR", ""]


def test_what_was_not_seen_is_not_zero():
    """An exact zero is one, a measured one is an upper limit; every end of an interval has its unit."""
    ser, about = METRICS["ser"], {"n": 20, "level": 0.95, "method": "clopper-pearson"}
    assert value_text({"value": 0.0, "low": 0.0, "high": 0.1} | about, ser) == "< 10%"
    assert value_text({"value": 0.0, "low": 0.0, "high": 0.0} | about | {"method": "exact"}, ser) == "0%"
    assert value_text({"value": 0.25, "low": 0.125, "high": 0.5} | about, ser) == "25% [12.5%, 50%]"


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


@pytest.mark.long
@pytest.mark.parametrize(("width", "dark"), [(1400, False), (390, True)])
def test_the_page_opens_in_a_browser(made, open_page, serious, width, dark):
    shown = open_page(made.page, width=width, dark=dark)
    shown.wait_for_selector("#front.vega-embed svg")
    assert shown.locator(".plot.vega-embed svg .mark-symbol path").count() > 40
    assert serious(shown) == []
    assert shown.evaluate("document.documentElement.scrollWidth") == width


def seen(page, selector):
    return [one.inner_text() for one in page.locator(selector).all() if one.is_visible()]


@pytest.mark.long
def test_a_choice_decides_words_and_figures(made, open_page):
    """For each setting and language: the verdict of Python, and a sentence and points in each figure."""
    page, shown = open_page(made.page), made.shown
    page.wait_for_selector("#front.vega-embed svg")
    assert seen(page, ".verdict") == []  # the messages are in its place
    of = shown.languages.index("interval-5")
    page.select_option("#language", str(of))
    for at, values in enumerate(shown.settings):
        page.select_option("#at", str(at))
        for target in choices(shown)["target"]:
            page.select_option("#target", target)
            own = verdict(shown.results, shown.metric, values | {"of": "interval-5"}, float(target))
            assert seen(page, ".verdict") == [own.sentence]
        for name, figure in drawn(shown).items():
            words = "".join(seen(page, f"#figure-{name} .says"))
            assert words in [one.words for one in figure.sentences]
            assert page.locator(f"#{name} .mark-symbol path").count()


def test_a_click_on_a_point_chooses_for_all_figures(made, open_page):
    page, shown = open_page(made.page), made.shown
    page.wait_for_selector("#front.vega-embed svg")
    points = page.locator("#ser-by-language .mark-symbol path[aria-label*='interval-5']")
    points.first.dispatch_event("click")
    assert page.input_value("#language") == str(shown.languages.index("interval-5"))
    faint = page.locator("#ter-by-language .mark-symbol path[aria-label*='paper-2gram']").first
    page.wait_for_function("one => one.getAttribute('opacity') < 1", arg=faint.element_handle())
    page.locator("#front .mark-symbol path[aria-label*='low-confidence']").first.dispatch_event("click")
    assert shown.settings[int(page.input_value("#at"))]["sampler"] == "low-confidence"


def test_without_a_script_the_drawings_stay(made, open_page):
    page = open_page(made.page, java_script_enabled=False)
    assert page.locator(".plot svg").count() == len(FIGURES)
    page.select_option("#language", "0")
    assert len(seen(page, ".verdict")) == 1


def test_a_panic_of_the_drawing_library_is_one_line(monkeypatch):
    """It is no Exception: with `ulimit -n 12` it ended the program with a traceback."""

    class PanicException(BaseException):
        pass

    def panic(definition):
        raise PanicException("called `Result::unwrap()` on an `Err` value: Too many open files")

    monkeypatch.setattr(charts.vl_convert, "vegalite_to_svg", panic)
    with pytest.raises(UnmaskError, match=r"Too many open files; .* Raise their limit \(ulimit -n\)"):
        charts.svg({})
