"""Outcomes of items by setting: three kinds of tokens per step; own records and files of items; broken files."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tasks.parallel.files import TASKS, WINO, full, write
from unmask.core.errors import UnmaskError
from unmask.tasks.parallel.points import Outcome, of_samples, read, settings, tokens_per_step
from unmask.tasks.parallel.table import suites
from unmask.tasks.sample import Sample
from unmask.tasks.sample import write as write_samples

DREAM = ((1.3976853625085057, 1527), (4.120472475241852, 1486), (5.503961786687467, 1373), (6.807909934765663, 1233))
DREAM += ((8.023889967992739, 1100), (9.814801767944573, 956))


def outcome(item: str, score: float, forwards: float | None, task: str = "copy", **other: Any) -> Outcome:
    usual = {"source": "x", "model": "m", "sampler": "s", "setting": "k4", "canvas": 32, "written": 8}
    return Outcome(task=task, item=item, score=score, forwards=forwards, **(usual | other))


def test_tokens_per_step_three_ways():
    """A mean of ratios is above the ratio of means, and padding is not a token."""
    (one,) = settings([outcome("b", 1, 2), outcome("a", 0, 8), outcome("c", 1, 64, "grid", canvas=64, written=32)])
    assert [same.item for same in one.tasks["copy"]] == ["a", "b"]
    assert one.score == pytest.approx((0.5 + 1) / 2)  # tasks count the same
    assert one.published == pytest.approx(((16 + 4) / 2 + 1) / 2)
    assert one.by_totals == pytest.approx((32 / 5 + 1) / 2)
    assert one.real == pytest.approx((8 / 5 + 0.5) / 2)
    assert one.top_k


def test_unknown_costs_are_unknown():
    (one,) = settings([outcome("a", 1, 1), outcome("b", 1, None, canvas=None, written=None)])
    assert (one.published, one.by_totals, one.real) == (None, None, None)
    assert one.score == 1.0
    assert tokens_per_step(outcome("a", 1, 0)) is None


def test_an_item_counts_once():
    (one,) = settings([outcome("a", 0, 4), outcome("a", 1, 2)])
    assert (one.score, one.published) == (1.0, 16.0)


def sample(item: str, right: bool | None, calls: int, sampler: str, steps: int | None, **other: Any) -> Sample:
    how = {"length": 32, "until": [], "sampler": sampler, "steps": steps}
    about = {
        "task": "sums(size=2)",
        "data": "built-in",
        "model": {"card": "m", "dtype": "float32", "cache": "none"},
        "how": how,
    }
    own = {"item": item, "about": about, "tokens": [1] * 10, "model_calls": {"model": calls}, "right": right}
    usual = {"number": 0, "row": 0, "prompt": "", "prompt_sha256": "", "prompt_tokens": 1, "order": [], "reason": ""}
    usual |= {"forwards": calls, "flops": 0.0, "seconds": 0.0, "memory": None, "batch": 1, "text": ""}
    return Sample(**(usual | own | other))


def test_own_records_convert():
    samples = [
        sample("1", True, 8, "confidence", 8, values={"strict": 0.0}),
        sample("1", False, 4, "confidence", 8, number=1, values={"strict": 0.0}),
        sample("2", None, 8, "confidence", 8),  # no verdict
        sample("1", True, 5, "threshold(threshold=0.9, block_length=8)", None),
        sample("1", True, 5, "threshold", None),
        sample("1", True, 32, "confidence", None),
    ]
    first, second, third, fourth = of_samples(samples)
    assert (first.sampler, first.setting, first.score, first.strict) == ("confidence", "k4", 0.5, 0.0)
    assert (first.forwards, first.canvas, first.written, first.task) == (6, 32, 10, "sums(size=2)")
    assert (second.sampler, second.setting) == ("threshold(block_length=8)", "threshold=0.9")
    assert (third.setting, fourth.setting) == ("usual threshold", "k1")
    assert len({one.item for one in (first, second, third, fourth)}) == 1  # pairs


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
    outcomes = read([tmp_path / "wino.csv"])
    assert outcomes == read([tmp_path / "json"])
    assert read([tmp_path]) == [*outcomes, *outcomes]
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
        ("a.csv", f"item,right,task\n0,1,{'x' * 10**5}\n", r"a.csv, line 2: task is 'x+.*length <= 200"),
        ("a.csv", f"item,right\n0,{'1' * 140_000}\n", r"a.csv: field larger than field limit"),
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
    assert read([tmp_path / "records.jsonl"]) == read([tmp_path]) == of_samples(samples)


def test_nothing_to_read(tmp_path):
    with pytest.raises(UnmaskError, match=r"it does not exist; expected files of items"):
        read([tmp_path / "absent"])
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(UnmaskError, match=r"there are no results in"):
        read([tmp_path])
