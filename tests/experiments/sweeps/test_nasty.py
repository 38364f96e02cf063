"""Whatever a job of somebody else does, it is one failed cell with its reason, and the others are measured."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.experiments.sweeps import nasty
from tests.experiments.sweeps.conftest import Bench
from tests.experiments.sweeps.test_faults import gone
from unmask.core.errors import UnmaskError
from unmask.experiments import tables
from unmask.experiments.store import records

XS = {"x": [1, 2, 3, 4, 5]}


def exported(bench: Bench, tmp_path) -> list[str]:
    """The table of a store, which can always be written."""
    tables.write(tmp_path / "t.csv", list(records(bench.store)))
    return (tmp_path / "t.csv").read_text().splitlines()


ANSWERED = {
    "none": "is null; expected a list",
    "text": "is a text; expected a list",
    "number": "is a number; expected a list",
    "texts": "[0] is a text; expected a mapping",
    "empty": "[0] has no 'measure'",
    "nameless": "[0] has no 'measure'",
    "infinite": "not JSON compliant",
    "nan": "not JSON compliant",
    "word": "[0].value is a text; expected a number or null",
    "nested": "[0].more is a mapping",
    "object": "object is not JSON serializable",
    "surrogate": "invalid utf-16 surrogate pair",
    "large": "its numbers take 33.6 MB; expected at most 16.8 MB",
    "cyclic": "Circular reference",
    "deep": "Recursion",
}


@pytest.mark.parametrize("how", nasty.ANSWERS)
def test_an_answer_that_is_none(bench: Bench, tmp_path, how):
    recipe = {"jobs": ["tests.experiments.sweeps.nasty:answers"], "grid": XS, "fixed": {"how": how}}
    state = bench.sweep(recipe, workers=None, engine="here").status()
    assert (state["done"], state["failed"]) == (4, 1)
    assert ANSWERED[how] in state["failures"][0]["error"]
    assert len(exported(bench, tmp_path)) == 5


DONE = {
    "surrogate": r"ValueError: half \udcff of\n\x1b[31m two (<string>, line 1)",
    "long": "ValueError: xxxx",
    "unspeakable": "Unspeakable: its message is not readable",
    "exit": r"it called sys.exit('\udcff')",
    "exit 0": "it called sys.exit(0)",
    "interrupt": "it raised KeyboardInterrupt",
    "_exit": "its process ended with exit code 0",
    "input": "EOF",
    "stop": "it took more than the limit of 6 s and was stopped",
    "close": "its process",
    "write": "its process",
    "segfault": "its process was ended by SIGSEGV; see workers.log",
}


@pytest.mark.long
def test_what_a_job_does_to_its_process(bench: Bench, tmp_path):
    """All in one sweep: what one does is nothing to the others."""
    recipe = {"jobs": ["tests.experiments.sweeps.nasty:does"], "grid": {"how": list(nasty.DEEDS), "x": [1, 2, 3]}}
    recipe["fixed"] = {"here": os.getcwd()}
    state = bench.sweep(recipe, limit=6.0, attempts=2).status()
    errors = {failure["cell"]["how"]: failure["error"] for failure in state["failures"]}
    assert errors.keys() == DONE.keys()
    for how, said in DONE.items():
        assert said in errors[how], how
        assert len(errors[how]) <= 2000
        assert errors[how].isprintable()
    assert state["done"] == 2 * len(nasty.DEEDS)
    assert len(exported(bench, tmp_path)) == 1 + state["done"]


def test_what_a_job_does_is_no_matter(bench: Bench):
    """It prints, leaves its directory, or children: it is measured like any other, and nothing is left."""
    recipe = {"jobs": ["tests.experiments.sweeps.nasty:does"], "grid": {"how": list(nasty.QUIET), **XS}}
    recipe["fixed"] = {"here": os.getcwd()}
    state = bench.sweep(recipe, limit=60.0).status()
    assert (state["done"], state["failed"]) == (5 * len(nasty.QUIET), 0)
    children = [int(line.split()[1]) for line in bench.measured() if line.startswith("child")]
    assert len(children) == 1
    assert gone(children)
    assert not [line for line in sleeping() if "61" in line]


def sleeping() -> list[str]:
    found = []
    for entry in os.listdir("/proc"):
        try:
            words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == b"sleep":
            found.append(b" ".join(words).decode())
    return found


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("tally", "is a number; expected a whole number"),
        ("list", "is a list; expected a mapping"),
        ("raise", "ValueError: no sum"),
        ("none", "is null; expected a list"),
        ("exit", "its process ended with exit code 3"),
    ],
)
def test_what_is_made_of_blocks(bench: Bench, how, said):
    recipe = {"jobs": ["tests.experiments.sweeps.nasty:counts"], "rows": 5, "grid": {"how": ["", how]}}
    engine = {"workers": 1} if how == "exit" else {"workers": None, "engine": "here"}
    state = bench.sweep(recipe, attempts=1, **engine).status()
    assert (state["done"], state["failed"]) == (1, 1)
    assert said in state["failures"][0]["error"]


@pytest.mark.parametrize(
    ("how", "said"),
    [("raise", "its needs fails with ValueError: no idea"), ("exit", "its needs fails with SystemExit: 4")],
)
def test_what_is_asked_while_a_sweep_is_planned(bench: Bench, how, said):
    recipe = {"jobs": ["tests.experiments.sweeps.nasty:planned"], "fixed": {"how": how}}
    with pytest.raises(UnmaskError) as error:
        bench.sweep(recipe, workers=None, engine="here")
    assert said in str(error.value)
