"""Comparisons of samplers on the same items, the tables and the command."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.tasks.parallel.files import line, write
from tests.tasks.parallel.test_pbx import CURVE, population
from tests.tasks.parallel.test_points import outcome
from unmask.cli.main import main
from unmask.core.errors import UnmaskError
from unmask.experiments.board.compare import difference
from unmask.tasks.parallel.points import settings
from unmask.tasks.parallel.table import Items, at_speed, suites, versus


def made(sampler, curve, seed=0):
    return population(np.random.default_rng(seed), 3, 60, curve, sampler)[0]


BETTER = tuple((calls, min(chance + 0.2, 1)) for calls, chance in CURVE)


def test_curves_follow_the_rule_of_the_board():
    """The same numbers as the board's difference of the same rows, and the better sampler is found."""
    one, other = settings(made("a", BETTER)), settings(made("b", CURVE, seed=1))
    found = versus(one, other)
    assert found.verdict == "better"
    assert versus(other, one).verdict == "worse"
    assert found.band
    assert all(budget.low <= budget.value <= budget.high for budget in found.band)
    curves = []
    for own in (one, other):
        points = []
        for setting in own:
            rows = [single for task in sorted(setting.tasks) for single in setting.tasks[task]]
            cost = float(np.mean([single.forwards for single in rows]))
            points.append((cost, torch.tensor([single.score for single in rows], dtype=torch.float64)))
        points.sort(key=lambda point: point[0])
        curves.append(Items(32, [cost for cost, _ in points], [right for _, right in points]))
    assert difference(*curves) == found


def test_a_canvas_of_another_size_costs_the_same():
    """8 calls for 64 positions are 4 calls for 32: costs are those of the largest canvas."""
    small = [outcome(str(item), 1, 4, "small", sampler="a") for item in range(3)]
    large = [outcome(str(item), 1, 8, "large", sampler="a", canvas=64) for item in range(3)]
    twin = [replace(one, sampler="b", score=0.0) for one in (*small, *large)]
    found = versus(settings([*small, *large]), settings(twin))
    assert [budget.calls for budget in found.band] == [8.0]
    assert found.band[0].value == 1.0


def test_equal_speed():
    """On the line between two settings: weights by tokens per model call, item by item."""
    slow = [outcome(str(item), float(item < 30), 16, sampler="a", setting="k2") for item in range(40)]
    fast = [outcome(str(item), float(item < 10), 4, sampler="a", setting="k8") for item in range(40)]
    other = [
        outcome(str(item), 0.0, calls, sampler="b", setting=f"k{calls}") for item in range(40) for calls in (4, 16)
    ]
    result = at_speed(settings([*slow, *fast]), settings(other), 5.0)
    assert result.first == pytest.approx(0.5 * 30 / 40 + 0.5 * 10 / 40)
    assert result.verdict == "better"
    assert at_speed(settings([*slow, *fast]), settings(other), 8.0).first == pytest.approx(10 / 40)
    with pytest.raises(UnmaskError, match=r"--speed is 9 tokens per model call; both samplers were measured at 2 to 8"):
        at_speed(settings([*slow, *fast]), settings(other), 9.0)


def test_other_items_cannot_be_compared():
    with pytest.raises(UnmaskError, match="no items in common"):
        versus(settings([outcome("a", 1, 4)]), settings([outcome("b", 1, 4)]))
    bare = [replace(outcome("a", 1, None), sampler="b")]
    with pytest.raises(UnmaskError, match="b, k4: copy has no model calls"):
        versus(settings([outcome("a", 1, 4)]), settings(bare))


def test_tables_name_ceilings_canvases_and_padding():
    rows = [outcome(str(item), float(item < 8), 8, written=4) for item in range(10)]
    rows += [outcome(str(item), 1.0, 16, "grid", canvas=64, written=8) for item in range(10)]
    rows.append(replace(outcome("1", 1.0, 4), setting="k8"))
    ceilings = {("copy", "s", "k4"): 0.9, ("grid", "s", "k4"): 1.0}
    (suite,) = suites(rows, (80.0,), ceilings, draws=200)
    assert suite.messages[0] == "s, k8: left out; it has 1 of 2 tasks"
    assert "tokens per step are a mean over canvases of 32 and 64 positions" in suite.messages
    assert any(message.startswith("88% of the tokens per step are padding") for message in suite.messages)
    (entry,) = suite.to_dict()["settings"]
    assert (entry["ceiling"], entry["options"]) == (95.0, {"k": 4.0})
    copy = entry["tasks"]["copy"]
    assert (copy["accuracy"]["method"], copy["accuracy"]["value"], copy["ceiling"]) == ("clopper-pearson", 80.0, 90.0)
    assert suite.by_task()[2][0][1].endswith("of 90.0")
    assert suite.by_setting()[1] == ["sampler, setting", "score", "ceiling", "tokens per step", "by totals", "real"]


@pytest.fixture
def tree(tmp_path):
    """Two samplers at two settings of a task."""
    for sampler, shift in (("klass", 0), ("wino", 4)):
        for k, right in ((8, 12), (32, 5)):
            rows = [line("copy", item, float(item < right + shift), 32 / k) for item in range(20)]
            write(tmp_path / "results" / f"{sampler}-{k}.jsonl", rows, sampler=sampler, setting=f"k{k}", model="org/M")
    return tmp_path / "results"


def answer(capsys, *words):
    assert main(["eval", "parallel", *map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_command_read(tree, capsys):
    result = answer(capsys, "read", tree, "--thresholds", "60", "90")
    (suite,) = result["suites"]
    values = {one["sampler"]: [score["value"] for score in one["pbx"]] for one in suite["samplers"]}
    assert values == {"klass": [8.0, None], "wino": [8.0, None]}
    assert main(["eval", "parallel", "read", str(tree), "--tasks"]) == 0
    text = capsys.readouterr().out
    assert "PB80: wino ~ klass (>: more than chance" in text
    assert "wino, k=8" in text


def test_command_compare(tree, capsys):
    result = answer(capsys, "compare", tree, "--first", "wino", "--second", "klass", "--speed", "8")
    assert result["at_speed"]["difference"]["value"] == pytest.approx(0.2)
    assert main(["eval", "parallel", "compare", str(tree), "--first", "wino", "--second", "klas"]) == 2
    assert "did you mean klass?" in capsys.readouterr().err
    assert main(["eval", "parallel", "compare", str(tree), "--first", "wino", "--second", "klass", "--speed", "8"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("org/M: ")
    assert "At 8 tokens per model call: wino and klass are not distinguishable in 20 items" in text
