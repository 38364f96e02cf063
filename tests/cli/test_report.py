"""`unmask report`: a page of any store, and one line for what is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import unmask
from unmask.cli.report import NAMES
from unmask.experiments import read_recipe
from unmask.report.publishing import page_of


@pytest.fixture
def store(tmp_path):
    recipe = {"name": "small", "jobs": ["samples", "autoregressive"], "grid": {"steps": [2, 8, 32]}, "rows": 40}
    recipe |= {"fixed": {"language": "interval-5", "length": 20}}
    return unmask.sweep(recipe, store=tmp_path / "store", engine="here")


def test_a_page_and_what_it_says(run, store, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    ran = run("report", "store", "--out", "page", "--svg", "--open", "--json")
    assert ran.code == 0, ran.err
    names = {path.name for path in Path("page").iterdir()}
    assert {"index.html", "data.json", "data.csv", "ser-by-language.svg"} <= names
    assert {Path(file).name for file in ran.result["files"]} == names
    assert opened == [Path("page/index.html").resolve().as_uri()]
    ser = {r["steps"]: r["value"] for r in store.rows() if (r["measure"], r["job"]) == ("ser", "samples")}
    kept = json.loads(Path("page/data.json").read_text())["records"]
    assert {r["steps"]: r["value"] for r in kept if (r["measure"], r["kind"]) == ("ser", "mdm")} == ser
    assert ran.result["verdict"]["sentence"] in Path("page/index.html").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "there is no directory nowhere"),
        (["."], "contains no results"),
        (["store", "--out", "store/sweep.jsonl"], "it is a file; name a directory with --out"),
        ([], "name either directories with results, or --recipe"),
        (["store", "--recipe", "gap"], "name either directories with results, or --recipe"),
        (["store", "--quick"], "--quick is for --recipe"),
        (["--recipe", "figure-3"], "unknown recipe 'figure-3'; did you mean figure-"),
        (["--recipe", "growth-networks", "--quick"], "growth-networks-quick"),
        (["--recipe", "growth", "--out", "store/sweep.jsonl"], "it is a file"),
        (["--recipe", "growth", "--quick", "--set", "rows=0"], "rows is 0"),
    ],
)
def test_mistakes(run, store, words, said):
    ran = run("report", *words)
    assert ran.code == 2
    assert said in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_has_a_view(name):
    assert page_of(name).recipe
    assert read_recipe(name).name == name
