"""`unmask board frontier`: thin over the module, with files where they are asked for."""

from __future__ import annotations

from pathlib import Path

from tests.sparing import undrawn

FEW = ("--language", "interval-5", "--length", 20, "--rows", 20, "--steps", 4, "--temperatures", 0.5, 1)


def test_table_and_files(run):
    with undrawn():
        ran = run("board", "frontier", *FEW, "--samplers", "ancestral", "low-confidence", "--out", "shown")
    assert (ran.code, ran.err) == (0, "")
    lines = [line.split() for line in ran.out.splitlines()]
    rows = {(line[0], line[1]): line for line in lines if len(line) == 7 and line[0] != "sampler"}
    assert rows["ancestral", "0.5"][3].startswith("~")
    assert rows["low-confidence", "1"][3:5] == ["-", "-"]
    assert rows["language", "-"][-1] == "0.000"
    names = {f"frontier.{end}" for end in ("svg", "png", "json", "csv")}
    assert {path.name for path in Path("shown").iterdir()} == names


def test_json(run):
    ran = run("board", "frontier", *FEW, "--samplers", "autoregressive", "--json")
    assert (ran.code, ran.err) == (0, "")
    names = [(point["sampler"], point["setting"]) for point in ran.result["points"]]
    assert names[:3] == [("language", None), ("autoregressive", 0.5), ("autoregressive", 1.0)]
    assert ran.result["beats"] is None


def test_mistakes(run):
    Path("file").touch()
    ran = run("board", "frontier", *FEW, "--out", "file")
    assert ran.code == 2
    assert "it is a file" in ran.err
