"""unmask model time: one object, a table, and what is refused."""

from __future__ import annotations

import pytest

SMALL = ("--hidden", 16, "--layers", 1, "--lengths", 4, 8, "--batch", 2, "--repeats", 1, "--device", "cpu")


def test_json(run):
    ran = run("model", "time", *SMALL, "--steps", 4, "--threads", 1, "--json")
    assert ran.code == 0
    assert [row["length"] for row in ran.result["timings"]] == [4, 8]
    for row in ran.result["timings"]:
        assert row["threads"] == 1
        assert {"model_call_ms", "token_ms", "break_even_model_calls", "break_even_steps", "peak_bytes"} <= row.keys()
    assert ran.result["failures"] == []


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
