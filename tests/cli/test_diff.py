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
    assert ran.result["verdict"].startswith("different, by more than float32 rounds")
    told = run("diff", "a.json", "c.json")
    assert told.code == 1
    assert told.out.startswith("verdict           different, by more than float32 rounds\nfirst difference  row ")


def test_one_row(run, files):
    trace = traces.read(files / "a.json")
    trace.of([3]).write(files / "alone.json")
    assert run("diff", "a.json", "alone.json").code == 2
    assert run("diff", "a.json", "alone.json", "--row", 3).code == 0
    assert run("diff", "alone.json", "a.json", "--row", 3).code == 0
    assert run("diff", "a.json", "alone.json", "--row", 2).code == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a.json"], "unmask diff needs B"),
        (["nowhere.json", "a.json"], "cannot read nowhere.json: No such file"),
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
