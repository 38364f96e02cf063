"""The tables of results, and their command."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.tasks.parallel.files import line, write
from tests.tasks.parallel.test_points import outcome
from unmask.cli.main import main
from unmask.tasks.parallel.table import suites


def test_tables_name_ceilings():
    rows = [outcome(str(item), float(item < 8), 8, written=4) for item in range(10)]
    rows += [outcome(str(item), 1.0, 16, "grid", canvas=64, written=8) for item in range(10)]
    rows.append(replace(outcome("1", 1.0, 4), setting="k8"))
    ceilings = {("copy", "s", "k4"): 0.9, ("grid", "s", "k4"): 1.0}
    (suite,) = suites(rows, (80.0,), ceilings, draws=200)
    assert suite.messages[0] == "s, k8: left out; it has 1 of 2 tasks"
    (entry,) = suite.to_dict()["settings"]
    assert (entry["ceiling"], entry["options"]) == (95.0, {"k": 4.0})
    copy = entry["tasks"]["copy"]
    assert (copy["accuracy"]["method"], copy["accuracy"]["value"], copy["ceiling"]) == ("clopper-pearson", 80.0, 90.0)
    assert suite.by_task()[2][0][1].endswith("of 90.0")
    assert suite.by_setting()[1] == ["sampler, setting", "score", "ceiling", "tokens per step", "real"]


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
    assert "wino, k=8" in text
