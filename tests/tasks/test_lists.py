"""Lists of names, Latin squares and sudokus: their right answers by enumeration, and hostile texts."""

from __future__ import annotations

import json
from itertools import pairwise, permutations, product

import numpy as np
import pytest

from unmask.tasks import TASKS
from unmask.tasks.latin import squares
from unmask.tasks.lists import REQUESTS, listed
from unmask.tasks.sudoku import completions, grids

SMALL = [f"lists(operation={name!r}, low=3, high=4, many=8)" for name in REQUESTS]
MADE = [*SMALL, "latin(many=2)", "sudoku(empty=10, unique=False, many=8)"]


def meaning(operation, names, new, number, result):
    """Whether a result follows the request, from the meaning of the operation."""
    without = [name for name in result if name != new]
    kept = [name for name in names if name in result]
    match operation:
        case "copy":
            return result == names
        case "reverse":
            return list(reversed(result)) == list(names)
        case "sort":
            return sorted(result) == sorted(names) and all(a.split()[1] < b.split()[1] for a, b in pairwise(result))
        case "shuffle":
            return sorted(result) == sorted(names) and result != names
        case "insert-index":
            return without == list(names) and len(result) == len(names) + 1 and result[number - 1] == new
        case "insert-random":
            return without == list(names) and len(result) == len(names) + 1
        case "remove-index":
            return list(result) == [name for name in names if name != names[number - 1]]
        case "remove-random":
            return list(result) == kept and len(result) == len(names) - 1
        case "replace-index":
            return (
                len(result) == len(names)
                and list(result[: number - 1]) == list(names[: number - 1])
                and (result[number - 1] == new and result[number:] == names[number:])
            )
    return len(result) == len(names) and sum(a != b for a, b in zip(names, result, strict=True)) == 1 and new in result


@pytest.mark.parametrize("operation", REQUESTS)
def test_right_answers_by_enumeration_of_all_lists(operation):
    task = TASKS.make(f"lists(operation={operation!r}, low=3, high=4, many=4)")
    for item in task.items(None):
        row = item.row
        every = [
            names
            for size in range(len(row.names) - 1, len(row.names) + 2)
            for names in product((*row.names, row.new), repeat=size)
        ]
        right = {listed(names) for names in every if task.right(item, listed(names))}
        assert right == {listed(names) for names in every if meaning(operation, row.names, row.new, row.number, names)}
        assert right == set(task.solutions(item))
        assert listed(row.shown) in right


@pytest.mark.parametrize("name", MADE)
def test_listed_answers_are_right_and_distinct(name):
    task = TASKS.make(name)
    for item in task.items(None):
        solutions = task.solutions(item)
        assert len(set(solutions)) == len(solutions) > 0
        for text in solutions:
            assert task.right(item, task.answer(item, text))
        loose = f"So: {solutions[0]}" if name.startswith("lists") else f"So:\n{solutions[0]}"
        assert task.right(item, task.answer(item, loose))


def test_sizes_have_equal_shares_and_indices_every_value():
    rows = [item.row for item in TASKS.make("lists(operation='insert-index')").items(None)]
    assert [len(row.names) for row in rows] == [3 + number % 4 for number in range(256)]
    for size in range(3, 7):
        assert {row.number for row in rows if len(row.names) == size} == set(range(1, size + 2))
    for row in rows:
        assert len({name.split()[1] for name in (*row.names, row.new)}) == len(row.names) + 1  # the key has no ties
    (item,) = TASKS.make("lists(operation=shuffle, low=15, high=15, many=1)").items(None)
    task = TASKS.make("lists(operation=shuffle, low=15, high=15, many=1)")
    assert task.solutions(item) is None
    assert task.right(item, listed(item.row.names[::-1]))
    assert not task.right(item, listed(item.row.names))


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ('["A B", "C D"]', True),
        ("[A B, C D]", True),
        ('A B, "C D"', True),
        ('x [[ "A B" ,, "C D", ] ] y', True),
        ('[\n  "A B",\n  "C D"\n]', True),
        ('["A B", "C D"', True),
        ('["A B", "C D"] or [nothing]', False),
        ('["A B"; "C D"]', False),
        ('["A B", "C D", "C D"]', False),
        ('["a b", "C D"]', False),
        ('["\uff21 B", "C D"]', False),
        ("[]", False),
        ("", False),
        ("[" * 1000, False),
        (", " * 1000, False),
        ("\x00\ud800", False),
    ],
)
def test_lists_are_read_leniently(text, right):
    task = TASKS.make("lists")
    item = task.items(None)[0]._replace(row=task.items(None)[0].row._replace(names=("A B", "C D")))
    answer = task.answer(item, text)
    assert (answer is not None and task.right(item, answer)) == right


def test_576_squares_and_161280():
    rows = list(permutations(range(4)))
    every = [s for s in product(rows, repeat=4) if all(len(set(column)) == 4 for column in zip(*s, strict=True))]
    assert {tuple(map(tuple, square)) for square in squares(4).tolist()} == set(every)
    assert len(every) == len(squares(4)) == 576
    five = squares(5)
    assert len(five) == len(np.unique(five, axis=0)) == 161280
    assert (np.sort(five, 1) == np.arange(5)[:, None]).all()
    assert (np.sort(five, 2) == np.arange(5)).all()


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("A,B,C,D\nB,A,D,C\nC,D,A,B\nD,C,B,A", True),
        ("so:\n A , B,C, D\n\nB,A,D,C\nthen\nC,D,A,B\nD,C,B,A\nA,B,C,D", True),
        ("A,B,C,D\nB,A,D,C\nC,D,A,B", None),
        ("A,B,C,D\nA,B,C,D\nA,B,C,D\nA,B,C,D", False),
        ("A,B,C,D,A\nB,A,D,C,A\nC,D,A,B,A\nD,C,B,A,A", None),
        ("A,B,C,D\nB,A,D,C\nC,D,A,B\nD,C,B,B", None),
        ("ABCD\nBADC\nCDAB\nDCBA", None),
        ("A, " * 1000, None),
        ("", None),
    ],
)
def test_latin_squares_are_read_line_by_line(text, right):
    task = TASKS.make("latin")
    item = task.items(None)[0]._replace(row=task.items(None)[0].row._replace(symbols=("A", "B", "C", "D")))
    answer = task.answer(item, text)
    assert (None if answer is None else task.right(item, answer)) is right


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("The 4x4 grid:\n1 2 3 4\n3,4,1,2\n2143\n4 3 2 1\ndone", True),
        ("1 2 3 4\n3 4 1 2\n2 1 4 3\n4 3 2 1\n1 1 1 1", True),
        ("1 2 3 4 1\n3 4 1 2\n2 1 4 3\n4 3 2 1", False),
        ("1 2 3 4\n3 4 1 2\n2 1 4 3\n4 3 2 0", False),
        ("\u0661 \u0662 \u0663 \u0664\n3 4 1 2\n2 1 4 3\n4 3 2 1", False),
        ("1234341221434321", False),
        ("", False),
    ],
)
def test_sudokus_are_read_line_by_line(text, read):
    task = TASKS.make("sudoku")
    assert task.answer(task.items(None)[0], text) == ("1234341221434321" if read else None)


def test_a_sudoku_with_several_solutions():
    task = TASKS.make("sudoku(empty=10, unique=False)")
    item = next(item for item in task.items(None) if len(completions(item.row.puzzle)) > 1)
    right = [grid for grid in grids() if task.right(item, grid)]
    assert right == [task.answer(item, text) for text in task.solutions(item)]


def test_names_in_answers_are_text():
    """An answer is JSON whatever the names contain."""
    task = TASKS.make("lists")
    answer = task.answer(task.items(None)[0], 'x["a\\"b\u2028", \x00]')
    assert json.loads(answer) == ['a\\"b\u2028', "\x00"]
