"""`unmask diff` against the same in Python: its exit codes, its verdict, and its errors."""

from __future__ import annotations

import json

import pytest

from unmask import difference, generate
from unmask.samplers import trace as traces

LANGUAGE = "paper-2gram"
ASKED = {"length": 16, "rows": 6, "steps": 4}


@pytest.fixture
def files(tmp_path, run):
    for name, options in {"a": {}, "b": {"temperature": 0.9}, "c": {"seed": 1}}.items():
        generate(LANGUAGE, **ASKED | options).trace().write(tmp_path / f"{name}.json")
    return tmp_path


def test_exit_codes_and_python(run, files):
    same = run("diff", "a.json", "a.json", "--json")
    assert (same.code, same.result["equal"], same.result["rounding"]) == (0, True, None)
    ran = run("diff", "a.json", "b.json", "--json")
    a, b = (traces.read(files / f"{name}.json") for name in "ab")
    expected = difference(a, b)
    assert ran.code == 1
    assert ran.result == json.loads(json.dumps(expected.to_dict()))
    assert ran.result["verdict"].startswith("different, not by rounding")
    told = run("diff", "a.json", "c.json")
    assert told.code == 1
    assert told.out.startswith("verdict           different, not by rounding\nfirst difference  row ")


def test_a_trace_and_our_sampler(run, files):
    assert run("diff", "a.json", "--language", LANGUAGE).code == 0
    assert run("diff", "c.json", "--language", LANGUAGE, "--seed", 1).code == 0
    ran = run("diff", "c.json", "--language", LANGUAGE, "--json")
    assert (ran.code, ran.result["verdict"]) == (1, "different, not by rounding")
    assert run("diff", "b.json", "--language", LANGUAGE, "--temperature", 0.9).code == 0
    assert run("diff", "a.json", "--language", LANGUAGE, "--sampler", "entropy", "--steps", 16).code == 1


def test_one_row(run, files):
    trace = traces.read(files / "a.json")
    trace.of([3]).write(files / "alone.json")
    assert run("diff", "a.json", "alone.json").code == 2
    assert run("diff", "a.json", "alone.json", "--row", 3).code == 0
    assert run("diff", "alone.json", "a.json", "--row", 3).code == 0
    assert run("diff", "a.json", "alone.json", "--row", 2).code == 1


def test_a_row_that_was_cut_at_its_end_is_made_again(run, tmp_path):
    asked = {"length": 24, "rows": 4, "steps": 24, "seed": 3, "sampler": "left-to-right", "stop": 2}
    generate(LANGUAGE, **asked).trace().write(tmp_path / "a.json")
    words = ["diff", "a.json", "--language", LANGUAGE, "--sampler", "left-to-right", "--seed", 3, "--steps", 24]
    assert run(*words, "--length", 24, "--ends", 2).code == 0
    assert run(*words, "--length", 24).code == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.json", "a.json"], "cannot read nowhere.json: No such file"),
        (["a.json"], "no second trace. Add its file, or --model or --language to generate one"),
        (["a.json", "b.json", "--steps", 3], "--steps does not apply to two traces"),
        (["a.json", "b.json", "--length", 30], "--length does not apply to two traces"),
        (["a.json", "--language", "interval-5"], "the trace has 8 symbols, the model has 16"),
        (["a.json", "--language", LANGUAGE, "--model", "x"], "expected either --language"),
        (["a.json", "b.json", "--language", LANGUAGE], "--language does not apply to two traces"),
        (["a.json", "--language", LANGUAGE, "--dtype", "bfloat16"], "--dtype needs an open model"),
        (["a.json", "--language", LANGUAGE, "--length", 3], "length is 3; expected at least 16"),
        (["a.json", "b.json", "--row", 9], "row is 9; expected"),
        (["a.json", "s.json"], "A has 8 symbols, B has 16; expected traces of one vocabulary"),
        (["a.json", "t.json"], "A has 6 rows, B has 2; expected the same rows. Choose one row of each with --row"),
        (["a.json", "l.json"], "row 0 has 16 positions in A, 12 in B; expected rows of the same length"),
    ],
)
def test_bad_input_is_one_line(run, files, words, said):
    generate("interval-5", length=16, rows=6).trace().write(files / "s.json")
    generate(LANGUAGE, length=16, rows=2).trace().write(files / "t.json")
    generate(LANGUAGE, length=12, rows=6).trace().write(files / "l.json")
    ran = run("diff", *words)
    assert ran.code == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1
