"""`unmask eval parallel run`: settings, the exact denoiser as a ceiling, the page, and a second run."""

from __future__ import annotations

import math

import pytest

from unmask.core.errors import UnmaskError
from unmask.report.publishing import PARALLEL, publish
from unmask.tasks import TASKS
from unmask.tasks.parallel.run import EVERY, SAMPLERS, Settings, budgets

SHUFFLE, COPY = "lists(operation=shuffle, low=3, high=3)", "lists(operation=copy, low=3, high=3)"
FEW = Settings(tasks=(SHUFFLE, COPY), samplers=("fixed-size", "threshold(threshold=[0.4, 0.9])"), items=12, quick=True)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_settings_of_a_sampler_go_from_one_token_per_step_to_the_whole_canvas(sampler):
    own = budgets(sampler, 64)
    assert len(own) == len(set(own)) > 3
    steps = [n for _, n in own if n is not None]
    assert steps == [] or [math.ceil(64 / k) for k in (1, 2, 4, 8, 16, 32)] == steps


def test_a_list_of_values_gives_the_settings():
    assert [sampler for sampler, _ in budgets("threshold(threshold=[0.4, 0.9])", 64)] == [
        "threshold(threshold=0.4)",
        "threshold(threshold=0.9)",
    ]
    assert [steps for _, steps in budgets("margin(steps=[3, 5])", 64)] == [3, 5]


def test_all_tasks_list_their_right_answers():
    for task in EVERY:
        target = TASKS.make(task)
        assert target.solutions(target.items(None)[0])


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "page"
    return publish(PARALLEL, FEW, out), out


def test_the_ceiling_of_a_copy_is_one_and_of_a_shuffle_falls(published):
    (suite,) = published[0].measured
    numbers = {(one.sampler, one.setting): one.tasks for one in suite.settings}
    accuracy = {
        (*place, task): sum(outcome.score for outcome in own) / len(own)
        for place, tasks in numbers.items()
        for task, own in tasks.items()
    }
    copies = [value for (_, _, task), value in accuracy.items() if task == "copy(low=3, high=3)"]
    assert copies == [1.0] * 6
    shuffled = [accuracy["fixed-size", f"k{k}", "shuffle(low=3, high=3)"] for k in (1, 32)]
    assert shuffled[0] == 1.0
    assert shuffled[1] < 0.9


def test_the_page_has_the_tables_and_the_figure(published):
    content = (published[1] / "index.html").read_text()
    for words in ("tokens per step at a score", "shuffle(low=3, high=3)", "threshold=0.9", "Accuracy against speed"):
        assert words in content
    assert content.count("<caption>") >= 3


def test_the_same_run_measures_nothing_again_and_more_items_only_the_new(published):
    out = published[1]
    before = sorted((out / "sweep" / "files").glob("*/*"))
    publish(PARALLEL, FEW, out)
    assert sorted((out / "sweep" / "files").glob("*/*")) == before
    more = Settings(FEW.model, FEW.tasks, FEW.samplers, items=15, quick=True)
    (suite,) = publish(PARALLEL, more, out).measured
    assert {len(own) for one in suite.settings for own in one.tasks.values()} == {15}
    assert set(before) < set((out / "sweep" / "files").glob("*/*"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tasks": ("lists(operation=shuffle, low=9, high=9)",)}, "not listed"),
        ({"tasks": ("chess",)}, "unknown task"),
        ({"samplers": ("thresold",)}, "threshold"),
        ({"model": "ideal(words=3)"}, "wrong options"),
        ({"items": 0}, "items is 0"),
    ],
)
def test_wrong_settings_fail_before_anything_is_measured(options, words, tmp_path):
    with pytest.raises(UnmaskError, match=words):
        publish(PARALLEL, Settings(**{"quick": True, "tasks": (COPY,)} | options), tmp_path)
