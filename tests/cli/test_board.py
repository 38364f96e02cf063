"""`unmask board`: thin over the board, its files whole, its JSON plain."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.sparing import in_this_process, undrawn
from unmask import UnmaskError
from unmask.experiments.board import Settings, board
from unmask.experiments.board.run import Failure
from unmask.experiments.pool import Processes
from unmask.models import trained
from unmask.report.publishing import BOARD

TINY = ("--languages", "interval-5", "--lengths", 20, "--rows", 20, "--seeds", 2, "--steps", 2, 20)
FEW = ("--samplers", "ancestral", "left-to-right", "autoregressive")


@pytest.fixture
def alone():
    with in_this_process() as asked:
        yield
    assert asked


@pytest.mark.long
@pytest.mark.usefixtures("alone")
def test_json_and_files(run):
    ran = run("board", *FEW, *TINY, "--out", "shown", "--json")
    assert (ran.code, ran.err) == (0, "")
    names = {"board.json", "board.csv", "index.html"}
    assert {path.name for path in Path("shown").iterdir()} == names | {"sweep"}
    assert sorted(ran.result["files"]) == sorted(f"shown/{name}" for name in names)
    assert ran.result["failures"] == []
    assert {(r["language"], r["length"], r["budget"]) for r in ran.result["standings"]} == {("interval-5", 20, None)}
    needs = [r for r in ran.result["standings"] if r["measure"] == "model_calls_for_ser"]
    assert {(r["sampler"], r["target"]) for r in needs} >= {("left-to-right", 0.5), ("ancestral", 0.01)}
    data = json.loads(Path("shown/board.json").read_text(), parse_constant=pytest.fail)
    assert {"origin", "seconds", "settings", "failures", "records"} == data.keys()
    assert {"command", "versions", "machine", "configuration"} <= data["origin"].keys()
    assert (data["settings"]["seed"], data["settings"]["rows"]) == (0, 20)
    with open("shown/board.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["measure"] for row in rows] == [record["measure"] for record in data["records"]]


@pytest.mark.long
@pytest.mark.usefixtures("alone")
def test_table(run):
    ran = run("board", *FEW, *TINY, "--seed", 3)
    assert (ran.code, ran.err) == (0, "")
    assert "interval-5, 20 tokens" in ran.out
    assert "left-to-right" in ran.out
    assert "2 seeds with 20 sequences" in ran.out
    assert str(Path("board/board.csv")) in ran.out
    assert json.loads(Path("board/board.json").read_text())["settings"]["seed"] == 3


@pytest.mark.usefixtures("alone")
def test_a_budget_that_fails_is_said(run):
    ran = run("board", "--samplers", "ancestral", "blocks(block_length=5)", *TINY)
    assert ran.code == 0
    said = "blocks(block_length=5) at steps = 2: steps is 2 for 4 blocks of 5 positions; expected at least 4 steps"
    assert f"{said} (interval-5)" in " ".join(ran.out.split())


@pytest.mark.usefixtures("alone")
def test_two_samplers_are_compared_in_the_store_of_a_board(run):
    few = TINY[:-3]  # budgets are fixed
    pair = ("strided", "ancestral")
    compared = run("board", "compare", *pair, *few)
    assert (compared.code, compared.err) == (0, "")
    out = " ".join(compared.out.split())
    assert out.startswith(
        "interval-5: strided is better than ancestral. Fraction correct, mean over log2 of model calls"
    )
    assert "from 1 to 20: +" in out
    assert "percentage points [+" in out
    assert "Fixed budgets of strided: steps 2, 3, 4, 5, 8, 16, 32." in out
    assert "Fixed budgets of ancestral: steps 1, 2, 4, 5, 8, 10, 15, 20, 40, 160." in out
    assert {path.name for path in Path("board").iterdir()} == {"sweep"}
    (found,) = run("board", "compare", *pair, *few, "--json").result["languages"]
    assert (found["language"], found["difference"]["verdict"]) == ("interval-5", "better")
    assert all(budget["low"] <= budget["value"] <= budget["high"] for budget in found["difference"]["band"])


@pytest.mark.parametrize("name", ["strided(steps=[2, 4])", "ancestral(steps=8)", "threshold(threshold=[0.2, 0.9])"])
def test_a_comparison_does_not_take_budgets(run, name):
    ran = run("board", "compare", name, "ancestral", *TINY[:-3])
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert f"{name} sets its budgets. A comparison has fixed budgets. Leave them out" in ran.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--samplers", "ancestrl"), "did you mean ancestral"),
        (("--languages", "paper-2grm"), "did you mean"),
        (("--rows", 0), "rows is 0"),
        (("--out", "file"), "it is a file"),
    ],
)
def test_mistakes(run, monkeypatch, arguments, expected):
    Path("file").touch()
    monkeypatch.setattr("unmask.report.publishing.sweep", pytest.fail)
    ran = run("board", "--samplers", "ancestral", *arguments)
    assert ran.code == 2
    assert expected in ran.err
    assert [path.name for path in Path(".").iterdir()] == ["file"]


@pytest.mark.long
def test_an_interrupted_board_goes_on(run, monkeypatch):
    """Stopped among its processes; its numbers are those of a board that one process measured."""
    with in_this_process(), undrawn():
        assert run("board", *FEW, *TINY, "--out", "whole").code == 0

    def stop(self, timeout):
        nonlocal came
        found = wait(self, timeout)
        came += len(found)
        if came > 2:
            raise KeyboardInterrupt
        return found

    wait, came = Processes.wait, 0
    with monkeypatch.context() as patch:
        patch.setattr(Processes, "wait", stop)
        assert run("board", *FEW, *TINY, "--out", "shown").code == 130
    assert [path.name for path in Path("shown").iterdir()] == ["sweep"]
    with in_this_process(), undrawn():
        assert run("board", *FEW, *TINY, "--out", "shown").code == 0
    records = [json.loads(Path(out, "board.json").read_text())["records"] for out in ("whole", "shown")]
    assert records[0] == records[1]
    status = run("sweep", "status", "shown/sweep", "--json").result
    assert (status["cells"], status["done"]) == (6, 6)


@pytest.mark.usefixtures("alone")
def test_what_was_left_out_altogether_is_said(run, monkeypatch):
    where = {"languages": ("interval-5",), "lengths": (20,)}
    made = board(Settings(samplers=("ancestral",), **where, rows=20, seeds=2, steps=(2, 20)))
    lost = Failure("interval-5", 20, "strided", "steps", None, "its process was killed")
    board_page = replace(BOARD, measured=lambda *given: replace(made, failures=[lost]))
    monkeypatch.setattr("unmask.report.publishing.BOARD", board_page)
    ran = run("board", *FEW, *TINY)
    assert ran.code == 0, ran.err
    said = " ".join(ran.out.split())
    assert "left out: strided: its process was killed (interval-5)" in said
    assert "`unmask sweep retry board/sweep` measures the skipped samplers again" in said


@pytest.mark.parametrize(("device", "engine"), [("cpu", "local"), ("cuda", "here")])
def test_a_device_is_for_one_process(run, monkeypatch, device, engine):
    trained.save(trained.Trunk(trained.Shape("mdm", 8, 12, hidden=8, layers=1, heads=1)), "mdm")
    monkeypatch.setattr("unmask.models.trained.checkpoints.choose_device", lambda name: torch.device(device))

    def measure(page, settings, out, *, engine, **how):
        raise UnmaskError(f"{settings.lengths} {out} {engine}")

    monkeypatch.setattr("unmask.report.publishing.publish", measure)
    assert run("board", "--model", "mdm").err == f"unmask: error: (12,) board {engine}\n"
    assert "board local" in run("board", "run").err


def test_help_is_light():
    program = (
        "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr));"
        "from unmask.cli.main import main; main(['board', 'run', '--help'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert not loaded & {"torch", "numba", "altair", "pandas", "vl_convert", "numpy"}
    assert "--samplers" in done.stdout
