"""Outcomes of items, grouped by setting: three kinds of tokens per step, and own records in the same shape."""

from __future__ import annotations

from typing import Any

import pytest

from unmask.tasks.parallel.points import Outcome, Point, of_samples, settings, tokens_per_step
from unmask.tasks.sample import Sample


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
    assert one.canvases == {32, 64}
    assert one.published is not None
    assert one.point == Point("x", "m", "s", "k4", one.published, 75.0)
    assert one.point.top_k


def test_unknown_costs_are_unknown():
    (one,) = settings([outcome("a", 1, 1), outcome("b", 1, None, canvas=None, written=None)])
    assert (one.published, one.by_totals, one.real, one.point) == (None, None, None, None)
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
