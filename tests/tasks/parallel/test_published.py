"""Files of items, the data of ParallelBench's site, own records; and broken files."""

from __future__ import annotations

import json

import pytest

from tests.tasks.parallel.files import TASKS, WINO, full, write
from tests.tasks.parallel.test_points import sample
from unmask.core.errors import UnmaskError
from unmask.tasks.parallel.points import Outcome, of_samples
from unmask.tasks.parallel.published import read
from unmask.tasks.parallel.table import suites
from unmask.tasks.sample import write as write_samples

DREAM = ((1.3976853625085057, 1527), (4.120472475241852, 1486), (5.503961786687467, 1373), (6.807909934765663, 1233))
DREAM += ((8.023889967992739, 1100), (9.814801767944573, 956))


@pytest.mark.parametrize(
    ("sampler", "curve", "expected"),
    [("wino_dllm", WINO, (5.916, 6.398, 6.930)), ("confidence_threshold", DREAM, (5.625, 6.417, 7.201))],
)
def test_items_of_a_whole_benchmark_give_the_published_scores(tmp_path, sampler, curve, expected):
    """17 tasks of 100 items at six settings with the published R and S."""
    for number, (speed, right) in enumerate(curve):
        write(
            tmp_path / f"{number}.jsonl", full(speed, right), sampler=sampler, setting=f"t{number}", model="org/Model"
        )
    (suite,) = suites(read([tmp_path]), draws=200)
    assert (suite.source, suite.model) == ("items", "org/Model")
    assert len(suite.settings) == 6
    assert {len(setting.tasks) for setting in suite.settings} == {len(TASKS)}
    (swept,) = suite.swept
    for threshold, value in zip((80, 75, 70), expected, strict=True):
        reached = swept.pbx(threshold)
        assert reached.value == pytest.approx(value, abs=6e-4)
        assert reached.low < reached.value < reached.high


def test_site(tmp_path):
    """Settings are the rows `avg`, in any order; 0 in the leaderboard means never."""
    figures, boards = tmp_path / "figures" / "m", tmp_path / "leaderboard"
    figures.mkdir(parents=True)
    boards.mkdir()
    (figures / "wino.csv").write_text("task,tps,accuracy\ncopy,1.0,99\navg,6.0,78.5\navg,1.5,86\n")
    (figures / "l2r.csv").write_text("task,tps,accuracy\navg,2.0,70\navg,1.0,79\n")
    results = {"wino": {"80": 5.1, "75": 6.0}, "l2r": {"80": 0.0, "75": 1.0}}
    (boards / "m.json").write_text(json.dumps({"thresholds": [80, 75], "results": results}))
    published = read([tmp_path])
    assert [(one.sampler, one.setting, one.speed, one.score) for one in published.points] == [
        ("l2r", "k1", 1.0, 79.0),
        ("l2r", "k2", 2.0, 70.0),
        ("wino", "#1", 1.5, 86.0),
        ("wino", "#2", 6.0, 78.5),
    ]
    assert [one.value for one in published.claims] == [5.1, 6.0, None, 1.0]
    (suite,) = suites(published, (80, 75))
    assert [message for message in suite.messages if "published" in message] == []
    (figures / "wino.csv").write_text("task,tps,accuracy\navg,6.0,77\navg,1.5,86\n")
    (suite,) = suites(read([tmp_path]), (80, 75))
    assert "wino: PB80 as published and by its points: 5.100 and 4.500" in suite.messages
    for text, message in (
        ("task,accuracy\n", "there are no results in"),
        ("task,tps,accuracy\navg,1.0\n", "line 2: it has 2 columns"),
        ("task,tps,accuracy\navg,x,1\n", "line 2: avg,x,1 has no numbers"),
        ("task,tps,accuracy\navg,1.0,150\n", "line 2: accuracy is 150.0; expected"),
    ):
        (figures / "wino.csv").write_text(text)
        with pytest.raises(UnmaskError, match=message):
            read([figures / "wino.csv"])


def test_items_in_a_table_or_as_json_are_the_same(tmp_path):
    """Numbers of all columns; an empty cell is unknown, and the file names a sampler without a name."""
    rows = [
        {"item": "a", "right": 0.25, "calls": 3.7, "canvas": 64, "written": 19, "task": "copy", "setting": "k2"},
        {"item": 7, "right": 1, "calls": None, "task": "sort"},
    ]
    columns = list(rows[0])
    cells = [["" if row.get(name) is None else str(row[name]) for name in columns] for row in rows]
    (tmp_path / "wino.csv").write_text("\n".join(map(",".join, [columns, *cells])) + "\n")
    (tmp_path / "json").mkdir()
    write(tmp_path / "json" / "wino.jsonl", rows)
    outcomes = read([tmp_path / "wino.csv"]).outcomes
    assert outcomes == read([tmp_path / "json"]).outcomes
    assert read([tmp_path]).outcomes == [*outcomes, *outcomes]
    names = {"source": "items", "model": "model", "sampler": "wino"}
    cost = {"forwards": 3.7, "canvas": 64, "written": 19.0}
    assert outcomes == [
        Outcome(**names, setting="k2", task="copy", item="a", score=0.25, **cost),
        Outcome(**names, setting="usual", task="sort", item="7", score=1.0),
    ]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", '{"item": "0", "right": 1}\n{"item": "0", "ri', r"a.jsonl, line 2 is not JSON"),
        ("a.jsonl", '{"item": "0"}', r"a.jsonl, line 1 has no 'right'; expected"),
        ("a.jsonl", '{"item": "0", "right": 100}', r"a.jsonl, line 1: right is 100; expected"),
        ("a.jsonl", '{"item": "0", "right": 1, "nfe": 7}', r"a.jsonl, line 1: unknown key 'nfe'"),
        ("a.csv", "item,right\n0,yes\n", r"a.csv, line 2: right is 'yes'; expected"),
        ("a.csv", "item,right\n0,nan\n", r"a.csv, line 2: right is 'nan'; expected"),
        ("a.csv", "item,right\n0\n", r"a.csv, line 2: it has 1 columns; expected 2"),
        ("a.csv", "item,calls\n0,1\n", r"a.csv, line 2 has no 'right'"),
        ("a.csv", "item,right\n", r"there are no results in"),
    ],
)
def test_broken_files_of_items_are_named(name, text, message, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(UnmaskError, match=message):
        read([tmp_path])


def test_own_records(tmp_path):
    samples = [
        sample(str(item), item % 3 > 0, 8 + item, sampler, steps, values={"strict": 0.0})
        for item in range(5)
        for sampler, steps in (("confidence", 8), ("threshold(threshold=0.9, block_length=8)", None))
    ]
    write_samples(tmp_path / "records.jsonl", samples)
    assert read([tmp_path / "records.jsonl"]).outcomes == read([tmp_path]).outcomes == of_samples(samples)


def test_nothing_to_read(tmp_path):
    with pytest.raises(UnmaskError, match=r"it does not exist; expected files of items"):
        read([tmp_path / "absent"])
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(UnmaskError, match=r"there are no results in"):
        read([tmp_path])
