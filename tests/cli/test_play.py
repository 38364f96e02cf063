"""`unmask play`: a trace made here or elsewhere becomes a page, or a trace again."""

from __future__ import annotations

import json
import webbrowser
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import torch

from unmask import generate, languages
from unmask.samplers import trace as traces

SMALL = ("--language", "paper-2gram", "--length", 16, "--steps", 3, "--rows", 20)
EXAMPLE = Path(__file__).parents[2] / "examples" / "record_a_trace.py"


def test_a_page_of_the_first_row_that_goes_wrong(run, tmp_path):
    ran = run("play", *SMALL, "--against", "autoregressive", "--json")
    assert (ran.code, ran.err) == (0, "")
    language = languages.load("paper-2gram")
    made = generate(language, length=16, steps=3, rows=20)
    wrong = (~language.supports(made.tokens)).nonzero().squeeze(1).tolist()
    ours, theirs = (ran.result[name] for name in ("ancestral, 3 steps", "autoregressive, 16 steps"))
    assert (ran.result["file"], ran.result["row"], ours["wrong_rows"]) == ("play.html", wrong[0], len(wrong))
    assert (ours["nats_lost"], ours["impossible_in_step"] > 0) == (None, True)
    assert (theirs["wrong_rows"], theirs["impossible_in_step"], theirs["why"]) == (0, None, None)
    assert theirs["nats_lost"] == pytest.approx(0, abs=1e-9)
    page = (tmp_path / "play.html").read_text()
    assert ours["why"] in page
    lines = run("play", *SMALL).out.splitlines()
    said = f"impossible from step {ours['impossible_in_step']} on: {ours['why']}"
    told = f"row {wrong[0]} of 20 ancestral, 3 steps {said} impossible {len(wrong)} of 20 sequences file play.html"
    assert " ".join(" ".join(lines).split()) == told


def test_a_trace_of_the_rows_that_are_shown_plays_again(run, tmp_path):
    first = run("play", *SMALL, "--row", 12, "--out", "t.json", "--json").result
    trace = traces.read(tmp_path / "t.json")
    assert (first["row"], len(trace.rows), trace.sampler) == (12, 8, "ancestral")
    again = run("play", "t.json", "--language", "paper-2gram", "--row", 7, "--out", "t.html", "--json").result
    assert again["ancestral"]["why"] == first["ancestral, 3 steps"]["why"]
    assert (tmp_path / "t.html").read_text().startswith("<!DOCTYPE html>")
    alone = run("play", "t.json", "--out", "u.html").out.splitlines()
    told = ["row        0 of 8", "ancestral  not scored: add --language or --gap", "file       u.html"]
    assert alone == told


def test_a_row_that_is_repaired_says_so(run):
    lines = run("play", "--language", "interval-5", "--length", 40, "--sampler", "gibbs", "--rows", 1).out
    assert "(repaired later, " in " ".join(lines.split())


def test_a_loop_that_is_not_ours_is_played(run, tmp_path):
    """The example's loop and recorder, as they stand."""
    spec = spec_from_file_location("record_a_trace", EXAMPLE)
    example = module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main(str(tmp_path / "t.json"), rows=6, length=16, steps=4)
    trace = traces.read(tmp_path / "t.json")
    assert [len({event[0] for event in row.events}) for row in trace.rows] == [4] * 6
    ran = run("play", "t.json", "--language", "paper-2gram", "--json")
    assert (ran.code, ran.result["LLaDA-like loop"]["steps"]) == (0, 4)
    ids = torch.tensor([[8, 1, 8]])
    recorder = example.Recorder(ids, 8, 8, symbols={"3": "x"})
    for row in ([[3, 1, 8]], [[8, 1, 2]], [[3, 1, 4]]):
        recorder.look(torch.tensor(row), torch.full((1, 3), 0.5))
    recorder.write(tmp_path / "r.json")
    assert traces.read(tmp_path / "r.json").rows[0].events == [
        (1, 0, 3, 0.5),
        (2, 0, None, None),
        (2, 2, 2, 0.5),
        (3, 2, None, None),
        (3, 0, 3, 0.5),
        (3, 2, 4, 0.5),
    ]


def test_it_opens_what_it_has_written(run, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(webbrowser, "open", seen.append)
    assert run("play", *SMALL, "--out", "x.html", "--open").code == 0
    assert seen == [(tmp_path / "x.html").as_uri()]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.json"], "there is no file nowhere.json; expected a trace"),
        (["bad.json"], "bad.json, row 0, event 1: step 1 reveals position 0, which is not hidden"),
        (["good.json", "--steps", "3"], "--steps does not apply to a trace. Leave it out, or leave out good.json"),
        (["good.json", "--language", "interval-5"], "the trace has 8 symbols, interval has 16"),
        (["good.json", "--row", "1"], "row is 1; expected 0 to 0"),
        ([], "no source of sequences. Add --language, --model, or the file of a trace"),
        (["--language", "paper-2gram", "--prompt", "x"], "--prompt needs --model"),
        (["--language", "paper-2gram", "--out", "x.png"], "--out is x.png; expected .html or .json"),
        (
            ["--language", "paper-2gram", "--out", "x.json", "--against", "gibbs"],
            "a trace has one sampler. Leave out",
        ),
        (["--language", "paper-2gram", "--against", "none"], "unknown sampler 'none'"),
    ],
)
def test_what_cannot_be_played_is_said_in_one_line(run, tmp_path, words, said):
    row = {"length": 2, "events": [[1, 0, 1, 0.5], [2, 1, 1, 0.5]]}
    content = {"format": "unmask-trace", "version": 1, "vocabulary": 8, "rows": [row]}
    (tmp_path / "good.json").write_text(json.dumps(content))
    row["events"][1] = [1, 0, 1, 0.5]
    (tmp_path / "bad.json").write_text(json.dumps(content))
    ran = run("play", *words)
    assert ran.code == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1
