"""Tasks whose truth is small enough to be counted, and what their answers are read from."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask.core.errors import UnmaskError
from unmask.tasks import TASKS, Item, asking
from unmask.tasks.gsm8k import last_number, number
from unmask.tasks.lists import REQUESTS
from unmask.tasks.sudoku import grids

MADE = (
    "sudoku",
    "sums",
    "latin",
    *(f"lists(operation={name!r})" for name in REQUESTS),
)


@pytest.mark.parametrize(
    ("text", "said"),
    [("so $1,234.50.", "$1,234.50"), ("3 + 4 = 7", "7"), ("-5", "-5"), (".5 or 0.25", "0.25"), ("none", None)],
)
def test_the_last_number(text, said):
    assert last_number(text) == said
    if said is not None:
        assert number(said) == Fraction(said.replace("$", "").replace(",", ""))


@pytest.mark.parametrize(
    "text",
    ["- 42 apples", "so:\n- 42", "Total - 42", "2024 - 11", "is -42", "5-3", "10-20", "-$42", "- $42", "$ 42", "-$ 42"],
)
def test_a_dash_is_a_sign_where_it_is_one_for_lm_eval(text):
    """Its flexible-extract: the last match, without the symbols that it ignores."""
    found = re.findall(r"(-?[$0-9.,]{2,})|(-?[0-9]+)", text)[-1]
    assert number(last_number(text)) == Fraction("".join(found).replace("$", "").replace(",", ""))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("5 + 3\n#### 8", "8"),
        ("#### -1,200.", "-1,200."),
        ("#### 3\n#### 4", "3"),
        ("####42", None),
        ("#### $5", None),
        ("####  5", None),
    ],
)
def test_strict_finds_what_lm_eval_finds(text, said):
    assert TASKS.make("gsm8k(answer_by=strict)").answer(Item("0", ()), text) == said


@given(st.integers(-(10**9), 10**9), st.text("abc .,", max_size=8))
def test_a_number_is_found_however_it_is_written(value, before):
    for written in (f"{value}", f"{value:,}"):
        assert number(last_number(f"{before} {written}")) == value


@pytest.mark.rotates(4)
@pytest.mark.parametrize(
    "sign", ["\\boxed{", "(", "```", " ", "```" + " " * 9, "{", "1+", "(\n", "$", "-", "[", ",", '"', "1\n"]
)
@pytest.mark.parametrize("name", ["gsm8k(shots=0)", "sudoku", "sums", "latin", "lists"])
def test_texts_of_one_sign_are_graded_in_linear_time(name, sign):
    """Where the time grew with the square, each of these took hours."""
    task = TASKS.make(name)
    item = Item("0", None) if name == "gsm8k(shots=0)" else task.items(None)[0]
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


def test_options_of_reading_are_no_part_of_what_is_asked():
    assert asking("gsm8k(shots=5, answer_by=strict)") == "gsm8k(shots=5)"
    assert asking("sudoku") == "sudoku"


def test_a_broken_line_of_gsm8k_is_named(tmp_path):
    path, task = tmp_path / "rows.jsonl", TASKS.make("gsm8k(shots=0)")
    for text, said in (
        ('{"question": "a", "answer": "#### 1"}\n{broken', r"rows.jsonl, line 2"),
        ('{"question": "b"}', r"rows.jsonl, line 1 has no 'answer'"),
        ("", "contains no items"),
    ):
        path.write_text(text)
        with pytest.raises(UnmaskError, match=said):
            task.items(path)


def test_items_and_shots_that_are_nowhere(tmp_path, monkeypatch):
    monkeypatch.delenv("UNMASK_DATA", raising=False)
    line = '{"question": "a", "answer": "#### 1"}'
    with pytest.raises(UnmaskError, match=r"the items of gsm8k are missing; .* Pass it with --data, or put gsm8k_test"):
        TASKS.make("gsm8k").items(None)
    (tmp_path / "items.jsonl").write_text(line)
    with pytest.raises(UnmaskError, match=r"the shots need gsm8k_train.jsonl, .*items.jsonl.* Put it there, pass its"):
        TASKS.make("gsm8k").items(tmp_path / "items.jsonl")
    assert len(TASKS.make("gsm8k(shots=0)").items(tmp_path / "items.jsonl")) == 1
    (tmp_path / "other.jsonl").write_text(line)
    made = TASKS.make(f"gsm8k(shots=1, shots_file='{tmp_path / 'other.jsonl'}')")
    assert len(made.items(tmp_path / "items.jsonl")) == 1
    (tmp_path / "gsm8k_train.jsonl").write_text(line)
    with pytest.raises(UnmaskError, match="shots is 8; expected at most 1, the items of the training set"):
        TASKS.make("gsm8k").items(tmp_path / "items.jsonl")


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


def test_too_many_shots():
    with pytest.raises(UnmaskError, match="shots is 65; expected 0 to 64"):
        TASKS.make("gsm8k(shots=65)")
