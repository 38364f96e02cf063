"""The examples run, and what they show is what they say."""

from __future__ import annotations

import ast
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from unmask import languages, score
from unmask.samplers import SAMPLERS

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.long
def test_the_tests_of_a_decoder_pass():
    tests = example("test_my_decoder")
    for name in [name for name in dir(tests) if name.startswith("test_")]:
        getattr(tests, name)()


def test_samples_of_a_program_are_scored(capsys):
    found = example("score_your_samples").main(rows=500)
    assert found.ser.low < 1 - 0.95**2 < found.ser.high
    assert found.metrics["answer_error"].value <= found.ser.value
    assert "impossible sequences" in capsys.readouterr().out
    assert score(np.load("sums.npy"), languages.ModularSum(terms=3)).ser == found.ser


@pytest.mark.long
def test_a_sampler_conforms_and_stands_on_the_board(capsys):
    made = example("your_sampler_on_the_board").main(rows=20)
    assert "sampler Surest conforms" in capsys.readouterr().out
    assert {record["sampler"] for record in made.records} == {"surest", "low-confidence", "ancestral"}
    assert not made.failures
    assert "surest" not in SAMPLERS.makers


@pytest.mark.long
def test_rounds_of_a_trained_network_are_planned(capsys):
    """It has learned little: what it lacks is more than any number of steps mends."""
    verdicts = example("plan_a_trained_model").main()
    assert [verdict.chosen.steps for verdict in verdicts] == [1, 2, 1]
    assert "no number of steps reaches" in capsys.readouterr().out


TOUR = Path(__file__).parents[2] / "examples" / "tour.ipynb"


def test_the_tour_runs():
    cells = json.loads(TOUR.read_text())["cells"]
    space: dict[str, object] = {}
    shown = []
    for cell in cells:
        if cell["cell_type"] == "code":
            *body, last = ast.parse(cell["source"]).body
            exec(compile(ast.Module(body, []), str(TOUR), "exec"), space)
            if isinstance(last, ast.Expr):
                shown.append(eval(compile(ast.Expression(last.value), str(TOUR), "eval"), space))
            else:
                exec(compile(ast.Module([last], []), str(TOUR), "exec"), space)
    drawn = [thing for thing in shown if thing is not None]
    assert [type(thing).__name__ for thing in drawn] == ["Generation", "Score", "Verdict", "Audit", "Sweep"]
    assert all(not cell.get("outputs") for cell in cells)
