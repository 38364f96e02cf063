"""Files of other programs: the layout of ParallelBench, its site and lm-eval; broken files; and the way back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.experiments.parallel.test_points import outcome, sample
from tests.experiments.parallel.trees import TASKS, WINO, full, line, write_run
from unmask.core.errors import UnmaskError
from unmask.experiments.parallel.points import Point, of_samples, settings
from unmask.experiments.parallel.published import read
from unmask.experiments.parallel.published.writing import write
from unmask.experiments.parallel.table import suites
from unmask.tasks.sample import write as write_samples

DREAM = ((1.3976853625085057, 1527), (4.120472475241852, 1486), (5.503961786687467, 1373), (6.807909934765663, 1233))
DREAM += ((8.023889967992739, 1100), (9.814801767944573, 956))


@pytest.mark.parametrize(
    ("sampler", "curve", "expected"),
    [("wino_dllm", WINO, (5.916, 6.398, 6.930)), ("confidence_threshold", DREAM, (5.625, 6.417, 7.201))],
)
def test_a_whole_tree_gives_the_published_scores(tmp_path, sampler, curve, expected):
    """17 tasks of 100 items at six settings with the published R and S."""
    for number, (speed, right) in enumerate(curve):
        write_run(tmp_path / "results", f"org__Model-7B/{sampler}/t{number}", full(speed, right))
    (suite,) = suites(read([tmp_path]), draws=200)
    assert (suite.source, suite.model) == ("parallelbench", "org/Model-7B")
    assert len(suite.settings) == 6
    assert {len(setting.tasks) for setting in suite.settings} == {len(TASKS)}
    (swept,) = suite.swept
    for threshold, value in zip((80, 75, 70), expected, strict=True):
        reached = swept.pbx(threshold)
        assert reached.value == pytest.approx(value, abs=6e-4)
        assert reached.low < reached.value < reached.high


def test_lines_become_outcomes(tmp_path):
    """Task and setting by names; the canvas from tokens per step; items by their hash; no aggregate."""
    lines = [line("copy", number, 1.0, 7.0, canvas=64, written=19) for number in range(3)]
    lines[1]["score_strict"] = 0.0
    lines[2] |= {"doc_hash": lines[1]["doc_hash"], "doc_id": 9}  # the same item twice is two items
    write_run(tmp_path, "org__M/random/k2", {"copy": lines, "waiting_line": lines})
    outcomes = read([tmp_path]).outcomes
    assert {(one.source, one.model, one.sampler, one.setting, one.task) for one in outcomes} == {
        ("parallelbench", "org/M", "random", "k2", "copy")
    }
    assert len({one.item for one in outcomes}) == 3
    assert sorted((one.score, one.strict) for one in outcomes) == [(1.0, 0.0), (1.0, 1.0), (1.0, 1.0)]
    assert {(one.forwards, one.canvas, one.written) for one in outcomes} == {(7.0, 64, 19.0)}


def test_the_newest_run_counts_for_each_task(tmp_path):
    old = {task: [line(task, 0, 0.0, 4.0)] for task in ("copy", "sort")}
    write_run(tmp_path, "M/random/k8", old, run="20260319_100000_all")
    write_run(tmp_path, "M/random/k8", {"copy": [line("copy", 0, 1.0, 4.0)]}, run="20260320_100000_all")
    assert {one.task: one.score for one in read([tmp_path]).outcomes} == {"copy": 1.0, "sort": 0.0}


def test_runs_without_lines_are_points(tmp_path):
    tasks = {"copy": [line("copy", 0, 1.0, 4.0)], "sort": [line("sort", 0, 0.5, 16.0)]}
    write_run(tmp_path, "org__M/klass/t0.9", tasks, samples=False)
    assert read([tmp_path]).points == [Point("parallelbench", "org/M", "klass", "t0.9", (8 + 2) / 2, 75.0)]


def test_missing_and_torn_lines_are_named(tmp_path):
    tasks = {"copy": [line("copy", number, float(number < 2), 4.0) for number in range(4)]}
    directory = write_run(tmp_path, "M/random/k8", tasks)
    assert read([tmp_path]).notes == []
    file = directory / "samples_parallelbench_copy.jsonl"
    text = file.read_text().splitlines(keepends=True)
    file.write_text("".join(text[:3]))
    (note,) = read([tmp_path]).notes
    assert "copy: the mean score of its 3 lines is 66.67%, but 50% in results_parallelbench.json" in note
    file.write_text("".join(text[:3]) + text[3][:40])
    with pytest.raises(UnmaskError, match=r"samples_parallelbench_copy.jsonl, line 4 is not JSON"):
        read([tmp_path])
    for wrong, message in (
        ({"doc_id": 0}, r"line 1: it has no score; expected score, exact_match, acc or pass@1"),
        ({"doc_id": 0, "score": 100}, r"line 1: score is 100; expected"),
        ({"doc_id": 0, "score": 1, "nfe": "7"}, r"line 1: nfe is '7'; expected"),
    ):
        file.write_text(json.dumps(wrong))
        with pytest.raises(UnmaskError, match=message):
            read([tmp_path])


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
        ("task,accuracy\n", "line 1: expected the columns task,tps,accuracy"),
        ("task,tps,accuracy\navg,1.0\n", "line 2: it has 2 columns"),
        ("task,tps,accuracy\navg,x,1\n", "line 2: avg,x,1 has no numbers"),
        ("task,tps,accuracy\navg,1.0,150\n", "line 2: accuracy is 150.0; expected"),
    ):
        (figures / "wino.csv").write_text(text)
        with pytest.raises(UnmaskError, match=message):
            read([figures / "wino.csv"])


def test_lm_eval(tmp_path):
    """Two filters are the score and the strict score; the newest date counts; the arguments name the sampler."""
    for date, score in (("2026-01-01T10-00-00.1", 0.0), ("2026-01-02T10-00-00.1", 1.0)):
        rows = [
            {"doc_id": 0, "doc_hash": "a", "filter": name, "metrics": ["exact_match"], "exact_match": value}
            for name, value in (("strict-match", 0.0), ("flexible-extract", score))
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"samples_gsm8k_{date}.jsonl").write_text(text)
    config = {"model_args": "model=llada-8b,sampler=llada(block_length=8, eos='last'),steps=64", "gen_kwargs": None}
    summary = {"results": {}, "config": config, "model_name": "llada-8b"}
    (tmp_path / "results_2026-01-02T10-00-00.1.json").write_text(json.dumps(summary))
    outcomes = read([tmp_path]).outcomes
    sampler = "llada(block_length=8, eos='last')"
    new = next(one for one in outcomes if one.sampler == sampler)
    assert (new.source, new.model, new.setting, new.task) == ("lm-eval", "llada-8b", "steps=64", "gsm8k")
    assert (new.score, new.strict, new.forwards, new.item) == (1.0, 0.0, None, "a")
    (suite,) = [one for one in suites(read([tmp_path])) if one.model == "llada-8b"]
    assert suite.swept == []
    assert suite.by_setting()[2][0][1].startswith("100.0 [")


def test_own_records_and_the_way_back(tmp_path):
    """Records, written in the layout of ParallelBench, are read as equal outcomes."""
    samples = [
        sample(str(item), item % 3 > 0, 8 + item, sampler, steps, values={"strict": 0.0})
        for item in range(5)
        for sampler, steps in (("confidence", 8), ("threshold(threshold=0.9, block_length=8)", None))
    ]
    write_samples(tmp_path / "records.jsonl", samples)
    own = read([tmp_path / "records.jsonl"]).outcomes
    assert own == of_samples(samples)
    more = [
        replace(outcome("a", 0.25, None, canvas=None, written=None), model="org/M", sampler="x/y", source="lm-eval"),
        replace(outcome("b", 1.0, 3.7, positions=99.5), model="org/M", sampler="x/y", source="lm-eval"),
    ]
    runs = write(settings([*own, *more]), tmp_path / "tree")
    assert len(runs) == 3
    assert not any(".." in run.relative_to(tmp_path).parts for run in write(settings(_outside()), tmp_path / "t" / "u"))
    assert sorted(read([tmp_path / "t"]).outcomes, key=str) == sorted(_outside(), key=str)
    assert [run.parent.relative_to(tmp_path / "tree").parts[0] for run in runs] == ["m", "m", "org__M"]
    back = read([tmp_path / "tree"])
    assert back.notes == []
    assert sorted(back.outcomes, key=str) == sorted([*own, *more], key=str)


def _outside():
    """Names that would leave the directory."""
    return [outcome("a", 1.0, 4, "../x", model="..", sampler="..", setting="a/../b")]


def test_nothing_to_read(tmp_path):
    with pytest.raises(UnmaskError, match=r"it does not exist; expected a result tree"):
        read([tmp_path / "absent"])
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(UnmaskError, match=r"there are no results in"):
        read([tmp_path])
