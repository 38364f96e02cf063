"""The data sets themselves: their own answers are right, however they are read, and others are not."""

from __future__ import annotations

import pytest

from tests.needs import needs
from tests.tasks.data import data, needs_data
from unmask.core.reading import read_lines
from unmask.tasks import TASKS
from unmask.tasks.gsm8k import TRAIN, Row, truth

__all__ = ["data"]
pytestmark = needs_data


@pytest.mark.parametrize("how", ["flexible", "strict"])
def test_every_reference_of_gsm8k_is_right_and_one_more_is_wrong(data, how):
    task = TASKS.make(f"gsm8k(answer_by={how})")
    items = task.items(None)
    assert len(items) == 1319
    for item in items:
        row = item.row[0]
        answer = task.answer(item, row.answer)
        assert task.right(item, answer)
        assert not task.right(item, str(truth(row) + 1))


def test_shots_of_gsm8k(data):
    first = TASKS.make("gsm8k(shots=2)").items(None)
    assert all(item.row[1] == first[0].row[1] for item in first)
    asked = TASKS.make("gsm8k(shots=2)").prompt(first[3])
    assert asked.count("Question: ") == 3
    assert asked.endswith("Answer:")
    drawn = TASKS.make("gsm8k(shots=5, draw=lm-eval)").items(None)
    assert len({item.row[1][0].question for item in drawn}) > 1000  # other ones for each
    turns = TASKS.make("gsm8k(shots=2, turns=True)").messages(first[3])
    assert [turn.role for turn in turns] == ["user", "assistant"] * 2 + ["user"]
    assert turns[-1].content == f"Question: {first[3].row[0].question}\nAnswer:"


@needs("lm-eval")
def test_shots_are_those_that_lm_eval_draws(data):
    from lm_eval.api.samplers import ContextSampler

    train = [{"question": row.question, "answer": row.answer} for _, row in read_lines(data / TRAIN, Row)]
    sampler = ContextSampler(train, rnd=1234)
    drawn = TASKS.make("gsm8k(shots=5, draw=lm-eval)").items(None)
    for item in drawn[:20]:
        assert [shot.question for shot in item.row[1]] == [shot["question"] for shot in sampler.sample(5)]
