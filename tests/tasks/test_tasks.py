"""Tasks whose truth is small enough to be counted, and what their answers are read from."""

from __future__ import annotations

from itertools import permutations, product

import pytest

from unmask.core.errors import UnmaskError
from unmask.tasks import TASKS, Item
from unmask.tasks.lists import REQUESTS
from unmask.tasks.sudoku import grids

MADE = (
    "sudoku",
    "sums",
    "latin",
    *(f"lists(operation={name!r})" for name in REQUESTS),
)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "sign", ["\\boxed{", "(", "```", " ", "```" + " " * 9, "{", "1+", "(\n", "$", "-", "[", ",", '"', "1\n"]
)
@pytest.mark.parametrize("name", ["sudoku", "sums", "latin", "lists"])
def test_texts_of_one_sign_are_graded_in_linear_time(name, sign):
    """Where the time grew with the square, each of these took hours."""
    task = TASKS.make(name)
    item = task.items(None)[0]
    text = f"```{sign * 10**6}"[: 10**6]
    answer = task.answer(item, text)
    assert answer is None or isinstance(answer, str)


def test_sudoku_has_288_grids_and_each_puzzle_one_solution():
    rows = list(permutations("1234"))
    quarters = [(0, 1, 4, 5), (2, 3, 6, 7), (8, 9, 12, 13), (10, 11, 14, 15)]
    found = set()
    for grid in product(rows, repeat=4):
        cells = "".join(map("".join, grid))
        columns = all(len({row[i] for row in grid}) == 4 for i in range(4))
        if columns and all(len({cells[place] for place in quarter}) == 4 for quarter in quarters):
            found.add(cells)
    assert set(grids()) == found
    assert len(found) == 288
    task = TASKS.make("sudoku(empty=6)")
    for item in task.items(None)[:10]:
        right = [grid for grid in found if task.right(item, grid)]
        assert right == [item.row.solution]
        assert task.answer(item, task.solutions(item)[0]) == item.row.solution


@pytest.mark.parametrize("name", MADE)
def test_items_are_the_same_each_time_and_their_examples_are_right(name):
    task = TASKS.make(name)
    items = task.items(None)
    assert [item.row for item in items] == [item.row for item in TASKS.make(name).items(None)]
    other = TASKS.make(f"{name[:-1]}, items_seed=1)" if name.endswith(")") else f"{name}(items_seed=1)")
    assert [item.row for item in other.items(None)] != [item.row for item in items]
    with pytest.raises(UnmaskError, match="generates its items and reads no file"):
        task.items("items.jsonl")


def test_sums_are_right_by_their_last_result_and_by_each_step():
    task = TASKS.make("sums(terms=3)")
    item = Item("0", type(task.items(None)[0].row)("1+2+3", "3+3=6"))
    for answer, right, steps in (("3+3=6", 1, 1), ("4+3=6", 1, 0), ("6", 1, 0), ("3+3=7", 0, 0), ("3+4=7", 0, 0)):
        assert task.answer(item, f" {answer}\nand") == answer
        assert (task.right(item, answer), task.values(item, answer, answer)["every_step"]) == (right, steps)
    assert task.answer(item, "six") is None
    assert task.values(item, None, "") == {"every_step": 0.0}
    for made in task.items(None)[:20]:
        assert task.right(made, made.row.solution)
        assert task.values(made, made.row.solution, made.row.solution) == {"every_step": 1.0}
