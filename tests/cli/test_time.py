"""unmask model time: one object, a table, and what is refused."""

from __future__ import annotations

import pytest

from unmask.models.trained import PRESETS

SMALL = ("--hidden", 16, "--layers", 1, "--lengths", 4, 8, "--batch", 2, "--repeats", 1, "--device", "cpu")


def test_json(run):
    ran = run("model", "time", *SMALL, "--steps", 4, "--threads", 1, "--json")
    assert ran.code == 0
    assert [row["length"] for row in ran.result["timings"]] == [4, 8]
    for row in ran.result["timings"]:
        assert row["threads"] == 1
        assert {"model_call_ms", "token_ms", "break_even_model_calls", "break_even_steps", "peak_bytes"} <= row.keys()
        assert "poster" not in row
    assert ran.result["failures"] == []


def test_the_table_stands_beside_the_poster_where_it_is_the_paper_s_network(run, monkeypatch):
    monkeypatch.setitem(PRESETS, "paper", {"hidden": 16, "layers": 1, "heads": 1, "length": 512})
    known = ("--preset", "paper", "--repeats", 1, "--device", "cpu", "--batch", 1)
    out = run("model", "time", *known).out
    assert "poster: MDM, s" in out
    assert " 3.1 " in out
    assert run("model", "time", *known, "--json").result["timings"][0]["poster"] == {
        "mdm_seconds": 3.1,
        "ar_seconds": 1.7,
    }
    for other in (("--steps", 64), ("--layers", 2)):
        assert "poster" not in run("model", "time", *known, *other).out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--preset", "papr"), "did you mean paper"),
        (("--threads", 0), "--threads is 0"),
        (("--steps", 0), "steps"),
        (("--hidden", 15), "multiple of 2 x heads"),
    ],
)
def test_mistakes(run, options, message):
    ran = run("model", "time", *options)
    assert ran.code == 2
    assert message in ran.err
