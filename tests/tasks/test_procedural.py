"""Generated tasks: every listed answer is right and no other, on sizes where all answers can be tried."""

from __future__ import annotations

import pytest

from unmask.tasks import TASKS

MADE = ("sums(terms=3)", "lists")
ITEMS = 10


def few(name, count=ITEMS):
    """The task with few items, and these items."""
    task = TASKS.make(f"{name[:-1]}, many={count})" if name.endswith(")") else f"{name}(many={count})")
    return task, task.items(None)


def graded(task, item, text):
    """The verdict on a text."""
    answer = task.answer(item, text)
    return answer is not None and task.right(item, answer)


@pytest.mark.parametrize("name", MADE)
def test_every_listed_answer_is_right_and_in_the_requested_format(name):
    task, items = few(name)
    assert [item.row for item in items] == [item.row for item in few(name)[1]]
    assert len({repr(item.row) for item in items}) > ITEMS // 2
    assert not {repr(item.row) for item in items} & {repr(row) for row in task.examples()}
    for item in items:
        solutions = task.solutions(item)
        assert len(set(solutions)) == len(solutions) > 0
        for text in solutions:
            assert graded(task, item, f" {text}\n")
        assert graded(task, item, f"\n{solutions[-1]} .")


HOSTILE = (
    "",
    " \n ",
    "٣ ² ½",
    "1" * 5000,
    "-" * 5000,
    "9 because",
    "so",
    " so 1",
    "0x1",
    "((((",
    "_" * 12,
    "1;" * 2000,
)


@pytest.mark.parametrize("name", MADE)
def test_no_text_breaks_the_check(name):
    task, (item, *_) = few(name, 1)
    for text in (*HOSTILE, *(sign * 10**5 for sign in ("1+", "1-", "1, ", "red ", "bado-12 ", "(", "a\n", "1,"))):
        assert not graded(task, item, text) or name.startswith("sums")
        assert task.values(item, task.answer(item, text), text).get("every_step", 0) == 0
