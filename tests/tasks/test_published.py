"""The data sets themselves: their own answers are right, however they are read, and others are not."""

from __future__ import annotations

import ast

import pytest

from tests.needs import needs
from tests.tasks.data import data, needs_data
from unmask.tasks import TASKS
from unmask.tasks.data import read
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

    train = [{"question": row.question, "answer": row.answer} for row in read(TRAIN, Row).valid]
    sampler = ContextSampler(train, rnd=1234)
    drawn = TASKS.make("gsm8k(shots=5, draw=lm-eval)").items(None)
    for item in drawn[:20]:
        assert [shot.question for shot in item.row[1]] == [shot["question"] for shot in sampler.sample(5)]


@needs("lm-eval")
def test_the_eight_chains_of_lm_eval(data):
    task = TASKS.make("gsm8k(draw=cot, layout=cot, answer_by=strict)")
    items = task.items(None)
    assert task.prompt(items[0]).count("\n\nA:") == 9
    for shot in items[0].row[1]:
        assert task.answer(items[0], shot.answer) is not None


def test_items_of_code(data):
    for task, many in (
        ("humaneval", 164),
        ("mbpp", 500),
        ("mbpp(items_of=sanitized)", 257),
        ("mbpp(items_of=all)", 974),
    ):
        made = TASKS.make(task)
        items = made.items(None)
        assert len(items) == many
        for item in items:
            row = item.row if task == "humaneval" else item.row[0]
            code = row.canonical_solution if task == "humaneval" else row.code
            program = made.program(item, made.answer(item, code))
            ast.parse(program.code)
            ast.parse(program.tests)


def test_a_whole_function_in_a_block_is_the_same_program(data):
    task = TASKS.make("humaneval")
    item = task.items(None)[0]
    whole = item.row.prompt + item.row.canonical_solution
    text = f"Here it is:\n```python\n{whole}\n```\nIt compares all pairs."
    found = ast.parse(task.answer(item, text))
    assert [node.name for node in found.body if isinstance(node, ast.FunctionDef)] == ["has_close_elements"] * 2
    cut = item.row.canonical_solution + "\n    this (is cut"
    assert ast.dump(ast.parse(task.answer(item, cut))) == ast.dump(ast.parse(whole))
    assert "this (is cut" in TASKS.make("humaneval(post=raw)").answer(item, cut)
