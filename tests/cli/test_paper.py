"""unmask paper: items accumulate in one store, page and document come from records, errors are one line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sparing import in_this_process
from unmask.experiments.paper import items, reproduction
from unmask.experiments.paper.judge import claim, item, part, shown
from unmask.report import paper

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "results/paper-quick.json"


def fake(name, length, claim):
    return item(name, f"pairs, {length} tokens", lambda size: [part("theory", language="interval-5", length=length)], {
        "wrong": replace(claim, where="Lemma 0", words="Half is wrong.", command="unmask theory list", figure="1/2")
    })  # fmt: skip


SER = shown("SER", "ser", length=10)
HALF = claim("", "", "", SER, test=lambda ser: ser >= 0.05, agrees="More than half <is>.", differs="Less.")
UNTESTED = claim("", "", "", untested="Weights.")


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(items, "ITEMS", {"a": fake("a", 10, HALF), "b": fake("b", 15, UNTESTED)})
    monkeypatch.setattr(reproduction, "ITEMS", items.ITEMS)
    monkeypatch.setattr(paper, "ITEMS", items.ITEMS)


def test_items_accumulate(run, few):
    with in_this_process():
        first = run("paper", "a", "--out", "o", "--json")
        assert (first.code, first.result["agrees"], first.result["not tested"]) == (0, 1, 0)
        assert [claim["name"] for claim in first.result["claims"]] == ["a.wrong"]
        both = run("paper", "--out", "o")
    assert (both.code, "agrees: " in both.out) == (0, False)
    whole = json.loads(Path("o/paper.json").read_text())
    assert (whole["items"], whole["size"], len(whole["records"]) > 1) == (["a", "b"], "quick", True)
    page = Path("o/index.html").read_text()
    assert page.count('<details class="claim') == 2
    assert "More than half &lt;is&gt;." in page
    assert "1 agree<" in page

    Path("o/index.html").unlink()
    again = run("paper", "report", "--out", "o", "--json")
    assert (again.code, again.result["agrees"], again.result["not tested"]) == (0, 1, 1)
    assert Path("o/index.html").read_text() == page
    assert run("paper", "report", "--records", "o/paper.json", "--markdown", "r.md").out.endswith("r.md\n")
    text = Path("r.md").read_text()
    assert "**2 claims: 1 agree, 0 differ, 1 not tested.**" in text
    assert "*agrees*. Paper: Half is wrong. The paper's value: 1/2." in text


WRONG = [
    ("theorm --out o", "unknown item 'theorm'; did you mean"),
    ("lemmas --quick --full --out o", "are two sizes"),
    ("lemmas --out file", "it is a file"),
    ("lemmas --device gpu --out o", "gpu"),
    ("report --out nowhere", "nowhere"),
    ("report --records broken.json --out o", "broken.json"),
    ("report --records empty.json --out o", "empty.json"),
    ("report --records record.json --markdown r.md", "record 0 is not a record of the paper"),
    ("report --records other.json --markdown r.md", "unknown item 'c'"),
    ("report --records good.json --markdown no/r.md", "there is no directory no"),
    ("lemmas --out damaged", "damaged"),
]
GOOD = {"origin": {"command": ["unmask"], "code": "", "machine": ""}, "size": "quick", "seconds": 1.0}
GOOD |= {"items": ["lemmas"], "records": []}


@pytest.mark.parametrize(("words", "message"), WRONG)
def test_errors_are_one_line(run, words, message):
    Path("file").write_text("")
    Path("broken.json").write_text("{")
    Path("empty.json").write_text("{}")
    Path("good.json").write_text(json.dumps(GOOD))
    Path("other.json").write_text(json.dumps(GOOD | {"items": ["c"]}))
    Path("record.json").write_text(json.dumps(GOOD | {"records": [{"job": "lemma", "value": 1}]}))
    Path("damaged/sweep").mkdir(parents=True)
    Path("damaged/sweep/sweep.jsonl").write_text('{"no": "store"}')
    ran = run("paper", *words.split())
    assert ran.code == 2
    last = ran.err.strip().splitlines()[-1]
    assert last.startswith("unmask: error: ")
    assert message in last
    assert not Path("o").exists()


def test_the_list_has_all(run):
    assert set(run("paper", "list", "--json").result) == set(items.ITEMS)
    assert run("paper", "list").code == 0


def test_the_document_is_that_of_the_records():
    records, origin = reproduction.read(RECORDS)
    assert paper.markdown(records, origin, RECORDS.name) == (ROOT / "docs/reproduction.md").read_text()
    assert set(records.items) == set(items.ITEMS)
    assert sum(paper.totals(records).values()) == sum(len(item.claims) for item in items.ITEMS.values())


@pytest.mark.rotates(4)
@pytest.mark.parametrize("item", paper.DRAWN)
def test_the_figures_of_an_item_show_its_measurements(item):
    records, _ = reproduction.read(RECORDS)
    drawn = paper.figures(records, item)
    assert [figure.name for figure, _ in drawn] == list(paper.DRAWN[item])
    measured = {record["value"] for record in records.of(item)}
    for figure, definition in drawn:
        rows = definition["datasets"]["rows"]
        assert len(rows) > 2
        if figure.name == "generative-perplexity-by-language" and item == "figure-1":  # in units of the language's own
            own = [record["value"] for record in records.of(item) if record["job"] == "autoregressive"]
            assert all(any(row["value"] * ter == pytest.approx(x) for ter in own for x in measured) for row in rows)
        else:
            assert {row["value"] for row in rows if "at" in row} <= measured


def test_the_page_has_the_figures():
    records, origin = reproduction.read(RECORDS)
    page = paper.drawn(replace(records, items=("timing", "length")), origin).decode()
    assert page.count("<figure>") == 1
    assert page.index('<h2 id="length">') < page.index('data-figure="length-lengths"')


def test_growth_is_of_exact_denoisers_or_of_networks(run):
    ran = run("paper", "growth", "--quick", "--networks", "--out", "out")
    assert ran.code != 0
    assert "--quick is without networks. Leave it out, or pass --set training_steps=300 rows=100" in ran.err
