"""The page and its files: whole, self-contained, and true to the records."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from tests.sparing import undrawn
from unmask.core.errors import UnmaskError
from unmask.experiments.jobs.cells import cells_of
from unmask.report.demo import PAGE, Settings, Story, figures
from unmask.report.publishing import publish, write

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
FIGURES = {"correctness", "fluency", "generative-perplexity", "lengths", "overview", "samplers"}


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
    definitions = [json.loads(text) for text in elements.scripts if text.startswith("{")]
    assert len(definitions) == len(FIGURES) - 1
    for definition in definitions:
        assert '"url"' not in json.dumps(definition)
        assert definition.get("width") == "container" or len(definition["hconcat"]) == len(SETTINGS.sampler_languages)


def test_json_and_csv_are_the_records(made):
    data = json.loads((made.page.parent / "data.json").read_text(), parse_constant=pytest.fail)
    assert data["records"] == made.measured.records
    assert data["origin"]["configuration"] == data["settings"]
    assert data["settings"]["rows"] == 20
    with open(made.page.parent / "data.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["measure"] for row in rows] == [record["measure"] for record in made.measured.records]
    assert [float(row["value"]) for row in rows] == [record["value"] for record in made.measured.records]


def test_the_page_has_the_numbers_and_three_sentences(made, elements):
    text = " ".join("".join(elements.text).split())
    assert len(made.measured.sentences()) == 3
    for sentence in made.measured.sentences():
        assert sentence.text in text
    for table in made.measured.tables():
        for _, cells in table.rows:
            assert all(part in text for cell in cells for part in cell)
    assert "generative perplexity" in text
    assert "not what the paper plots" in text


def test_what_was_not_seen_is_not_zero(made):
    """An exact zero is one, a measured one is an upper limit."""
    tables = made.measured.tables()
    *_, autoregression = tables[0].rows
    assert autoregression[0].startswith("AR")
    assert autoregression[1][0] == ("0", "exact")
    unseen = {"value": 0.0, "low": 0.0, "high": 0.1, "n": 20, "method": "clopper-pearson"}
    records = [r | unseen if (r["measure"], r["steps"]) == ("ser", 64) else r for r in made.measured.records]
    last = Story(records, SETTINGS).tables()[0].rows[-2]
    assert last[1][0] == ("< 10.0%", "none in 20")


def test_a_figure_is_declared_in_one_place(made, monkeypatch):
    """Its part of the sweep, its records, its files and its place in the page come from its class alone."""

    class Unique(figures.Correctness):
        name, title, shows = "unique", "Nothing but a test", frozenset({"unique"})

        def parts(self, settings):
            return [{"metrics": ["autoregressive"], "grid": {"language": ["brackets"]}, "fixed": {"length": 6}}]

    monkeypatch.setattr(figures, "FIGURES", (*figures.FIGURES, Unique()))
    monkeypatch.setattr(figures.Samplers, "records", lambda self, sweep: [])
    assert "brackets" in {cell.spec["language"] for cell in cells_of(PAGE.recipe(SETTINGS))}
    row = {"metric": "autoregressive", "pruned": True, "language": "brackets", "evaluations": 6.0, "n": 0, "level": 1.0}
    row |= {"value": 1.0, "low": 1.0, "high": 1.0, "method": "exact"}
    sweep = SimpleNamespace(rows=lambda: [row | {"measure": measure} for measure in ("unique", "another")])
    sweep.whole = lambda: sweep
    assert [record["measure"] for record in PAGE.measured(sweep, SETTINGS).records] == ["unique"]
    origin = json.loads((made.page.parent / "data.json").read_text())["origin"]
    with undrawn():
        contents = PAGE.contents(made.measured, SETTINGS, origin, 1.0)
    assert {"unique.svg", "unique.png"} <= contents.keys()
    assert "<h3>Nothing but a test</h3>" in contents["index.html"].decode()


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


PROBE = """<script>
const failures = [];
addEventListener("error", event => failures.push(String(event.message)));
addEventListener("unhandledrejection", event => failures.push(String(event.reason)));
for (const kind of ["error", "warn"]) console[kind] = (...words) => failures.push(words.join(" "));
setTimeout(() => {
  const requests = performance.getEntriesByType("resource").map(entry => entry.name);
  const drawn = [...document.querySelectorAll(".plot.vega-embed svg .mark-symbol path")].length;
  document.documentElement.dataset.probe = JSON.stringify({ failures, requests, drawn });
}, 3000);
</script>"""


def test_the_page_opens_in_a_browser(made, tmp_path):
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium here to open the page with")
    probed = tmp_path / "index.html"
    probed.write_text(made.page.read_text().replace("<head>", f"<head>{PROBE}", 1))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
    flags += ["--disable-background-networking", "--disable-component-update", "--virtual-time-budget=6000"]
    command = [chromium, *flags, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", probed.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    (probe,) = [attributes["data-probe"] for tag, attributes in Elements(done.stdout).tags if tag == "html"]
    seen = json.loads(probe)
    assert seen["failures"] == []
    assert seen["requests"] == []
    assert seen["drawn"] > 40
