"""Tasks whose truth is small enough to be counted, and what their answers are read from."""

from __future__ import annotations

import gzip
import json
import re
import sys
from fractions import Fraction
from itertools import permutations, product
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask.core.errors import UnmaskError
from unmask.tasks import TASKS, Item, asking
from unmask.tasks.countdown import solves
from unmask.tasks.data import Dataset, read
from unmask.tasks.extraction import fenced, last_number, longest, number
from unmask.tasks.gsm8k import Row
from unmask.tasks.lists import REQUESTS
from unmask.tasks.math500 import boxed, same
from unmask.tasks.sudoku import grids

MADE = (
    "countdown",
    "sudoku",
    "json",
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
    ("layout", "text", "said"),
    [
        ("question", "5 + 3\n#### 8", "8"),
        ("question", "#### -1,200.", "-1,200."),
        ("question", "#### 3\n#### 4", "3"),
        ("question", "####42", None),
        ("question", "#### $5", None),
        ("question", "####  5", None),
        ("cot", "The answer is 42.", "42"),
        ("cot", "The answer is 42", "4"),
        ("cot", "The answer is $42.", None),
    ],
)
def test_strict_finds_what_lm_eval_finds(layout, text, said):
    assert TASKS.make(f"gsm8k(layout={layout}, answer_by=strict)").answer(Item("0", ()), text) == said


@given(st.integers(-(10**9), 10**9), st.text("abc .,", max_size=8))
def test_a_number_is_found_however_it_is_written(value, before):
    for written in (f"{value}", f"{value:,}"):
        assert number(last_number(f"{before} {written}")) == value


@pytest.mark.parametrize(
    ("first", "second", "are"),
    [
        (r"\frac{1}{2}", r"\dfrac12", True),
        (r"\frac12", "0.5", True),
        ("1/2", r"\frac{2}{4}", True),
        ("1,000", "1000", True),
        (r"5\text{ cm}", "5cm", True),
        ("x=5", "5", True),
        (r"\left( 3, \frac{\pi}{2} \right)", r"(3,\frac{\pi}{2})", True),
        (r"10\%", "10", True),
        (r"\sqrt2", r"\sqrt{2}", True),
        ("-1", "1", False),
        (r"\frac{1}{0}", "1", False),
        ("(1,2)", "(2,1)", False),
        ("12", "1,2", False),
    ],
)
def test_answers_that_are_spelt_otherwise(first, second, are):
    assert same(first, second) is are
    assert same(second, first) is are


def test_what_is_boxed():
    assert boxed(r"\boxed{1} and \boxed{\frac{1}{2}}") == r"\frac{1}{2}"
    assert boxed(r"\boxed{3} and \boxed{4") == "3"  # the second is never closed
    assert boxed("nothing") is None


def plainly_boxed(text):
    """The same from its definition: each mark is followed to its end."""
    found = None
    for mark in re.finditer(r"\\boxed\{", text):
        depth, at = 1, mark.end()
        while at < len(text) and depth:
            depth += (text[at] == "{") - (text[at] == "}")
            at += 1
        found = text[mark.end() : at - 1] if depth == 0 else found
    return found


@given(st.lists(st.sampled_from(["\\boxed{", "{", "}", "x"]), max_size=12).map("".join))
def test_the_last_closed_box_is_the_answer(text):
    assert boxed(text) == plainly_boxed(text)


OLD = re.compile(r"[\d(][\d\s+\-*/()]*[\d)]")


@given(st.text(alphabet="1(+ )a=", max_size=14))
def test_an_expression_reaches_from_the_first_number_to_the_last(text):
    found = [part for part in OLD.findall(text.partition("=")[0]) if "+" in part]
    item = TASKS.make("countdown").items(None)[0]
    assert TASKS.make("countdown").answer(item, text) == (found[-1] if found else None)


@pytest.mark.rotates(4)
@pytest.mark.parametrize(
    "sign", ["\\boxed{", "(", "```", " ", "```" + " " * 9, "{", "1+", "(\n", "$", "-", "[", ",", '"', "1\n"]
)
@pytest.mark.parametrize(
    "name", ["gsm8k(shots=0)", "math500", "countdown", "sudoku", "sums", "humaneval", "latin", "lists"]
)
def test_texts_of_one_sign_are_graded_in_linear_time(name, sign):
    """Where the time grew with the square, each of these took hours."""
    row = SimpleNamespace(prompt="def f():\n", entry_point="f")
    task = TASKS.make(name)
    item = Item("0", row) if name in ("humaneval", "math500", "gsm8k(shots=0)") else task.items(None)[0]
    text = f"```{sign * 10**6}"[: 10**6] if name != "humaneval" else sign * 5000
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
        assert task.answer(item, task.written(item.row.solution)) == item.row.solution


def brute(numbers):
    """All that can be reached of numbers by joining them two by two, as fractions."""
    if len(numbers) == 1:
        return {numbers[0]}
    found = set()
    for i, j in permutations(range(len(numbers)), 2):
        rest = [numbers[k] for k in range(len(numbers)) if k not in (i, j)]
        a, b = numbers[i], numbers[j]
        for made in (a + b, a - b, a * b, *([a / b] if b else [])):
            found |= brute([*rest, made])
    return found


def test_countdown_can_be_solved_and_checks_each_number_once():
    task = TASKS.make("countdown(numbers=3)")
    for item in task.items(None)[:20]:
        assert item.row.target in brute([Fraction(number) for number in item.row.numbers])
    assert solves("(3 + 8) * 2", (3, 8, 2), 22)
    for wrong in (
        "(3 + 8) * 2 * 1",
        "22",
        "3 + 8 + 11",
        "(3 + 8) * 3",
        "(3 + 8) * __import__('os')",
        "3 +",
        "(3+8)**2",
    ):
        assert not solves(wrong, (3, 8, 2), 22)
    assert not solves("8 / (3 - 3)", (8, 3, 3), 8)
    item = task.items(None)[0]
    assert task.answer(item, " (3 + 8) * 2 = 22\n\n") == "(3 + 8) * 2"
    assert task.answer(item, "no idea") is None


@pytest.mark.parametrize("name", MADE)
def test_items_are_the_same_each_time_and_their_examples_are_right(name):
    task = TASKS.make(name)
    items = task.items(None)
    assert [item.row for item in items] == [item.row for item in TASKS.make(name).items(None)]
    other = TASKS.make(f"{name[:-1]}, items_seed=1)" if name.endswith(")") else f"{name}(items_seed=1)")
    assert [item.row for item in other.items(None)] != [item.row for item in items]
    with pytest.raises(UnmaskError, match="generates its items and reads no file"):
        task.items("items.jsonl")


def test_json_is_held_against_its_fields():
    task = TASKS.make("json")
    item = task.items(None)[0]
    examples = {
        "a string": "x",
        "a number": 1.5,
        "true or false": True,
        "a list of strings": ["x"],
        "a list of numbers": [],
    }
    right = {name: examples[kind] for name, kind in item.row.fields.items()}
    assert task.right(item, task.answer(item, f"```json\n{json.dumps(right)}\n```"))
    name = next(iter(right))
    for wrong in ({}, right | {"more": 1}, right | {name: None}, right | {name: [True]}):
        assert not task.right(item, json.dumps(wrong))
    assert not task.right(item, "{not json")


def test_programs_in_texts():
    assert fenced("so\n```python\nx = 1\n```\nand\n```\ny\n```") == "x = 1"
    assert fenced("```py\nx = 1\ny = ") == "x = 1\ny = "
    assert fenced("x = 1") is None
    assert longest("x = 1\ny = (2\nwords here") == "x = 1"
    assert longest("no program at all") == "no program at all"


def test_options_of_reading_are_no_part_of_what_is_asked():
    assert asking("gsm8k(shots=5, answer_by=strict)") == "gsm8k(shots=5)"
    assert asking("humaneval(post=raw)") == "humaneval"
    assert asking("sudoku") == "sudoku"


FILE = Dataset(("rows.jsonl",), ("nobody/nothing", None, "test"))


def test_a_broken_line_is_named_and_the_rest_kept(tmp_path, capsys):
    lines = [
        '{"question": "a", "answer": "#### 1"}',
        "{broken",
        '{"question": "b"}',
        '{"question": "c", "answer": "#### 2"}',
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines))
    found = read(FILE, Row, path)
    assert [row.question for row in found.valid] == ["a", "c"]
    assert "rows.jsonl, line 2" in found.broken[0]
    assert "rows.jsonl, line 3" in found.broken[1]
    assert "answer" in found.broken[1]
    packed = tmp_path / "rows.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read(FILE, Row, packed).valid == found.valid
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(UnmaskError, match=r"its gzip data are (truncated|corrupt)"):
        read(FILE, Row, packed)
    path.write_text("nothing")
    with pytest.raises(UnmaskError, match="line 1"):
        read(FILE, Row, path)
    path.write_text("")
    with pytest.raises(UnmaskError, match="contains no items"):
        read(FILE, Row, path)


def test_items_that_are_nowhere(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    monkeypatch.delenv("UNMASK_DATA", raising=False)
    with pytest.raises(UnmaskError, match=r"Pass a file \(--data FILE.jsonl\), put rows.jsonl in the directory"):
        read(FILE, Row)


@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"])
def test_items_are_not_fetched_where_that_is_said(name, monkeypatch):
    fetched = SimpleNamespace(load_dataset=lambda *a, **k: pytest.fail("it has been tried"))
    monkeypatch.setitem(sys.modules, "datasets", fetched)
    monkeypatch.delenv("UNMASK_DATA", raising=False)
    monkeypatch.setenv(name, "1")
    with pytest.raises(UnmaskError, match=rf"nobody/nothing are missing, and {name} is set. Pass a file"):
        read(FILE, Row)


@pytest.mark.parametrize(
    ("name", "file", "line"),
    [
        ("gsm8k", "gsm8k_train.jsonl", '{"question": "a", "answer": "#### 1"}'),
        ("mbpp", "mbpp.jsonl", '{"task_id": 11, "code": "", "test_list": []}'),
    ],
)
def test_shots_of_items_in_a_file_are_not_fetched(name, file, line, tmp_path, monkeypatch):
    fetched = SimpleNamespace(load_dataset=lambda *a, **k: pytest.fail("it has been tried"))
    monkeypatch.setitem(sys.modules, "datasets", fetched)
    monkeypatch.delenv("UNMASK_DATA", raising=False)
    (tmp_path / "items.jsonl").write_text(line)
    with pytest.raises(UnmaskError, match=rf"the shots need {file}, .*items.jsonl. Put it there, pass its path"):
        TASKS.make(name).items(tmp_path / "items.jsonl")
    assert len(TASKS.make(f"{name}(shots=0)").items(tmp_path / "items.jsonl")) == 1
    (tmp_path / "other.jsonl").write_text(line.replace("11", "2"))
    made = TASKS.make(f"{name}(shots=1, shots_file='{tmp_path / 'other.jsonl'}')")
    assert len(made.items(tmp_path / "items.jsonl")) == 1


def test_sums_are_right_by_their_last_result_and_by_each_step():
    task = TASKS.make("sums(terms=3)")
    item = Item("0", type(task.items(None)[0].row)("1+2+3", "3+3=6"))
    for answer, right, steps in (("3+3=6", 1, 1), ("4+3=6", 1, 0), ("6", 1, 0), ("3+3=7", 0, 0), ("3+4=7", 0, 0)):
        assert task.answer(item, f" {answer}\nand") == answer
        assert (task.right(item, answer), task.values(item, answer, answer)["every_step"]) == (right, steps)
    assert task.answer(item, "six") is None
    assert task.values(item, None, "") == {"every_step": 0.0, "strict": 0.0}
    for made in task.items(None)[:20]:
        assert task.right(made, made.row.solution)
        assert task.values(made, made.row.solution, made.row.solution) == {"every_step": 1.0, "strict": 1.0}


PLUS = """import numpy as np

def assertion(out, exp, atol):
    if out != exp and atol != 0:
        assert np.allclose(out, exp, rtol=1e-07, atol=atol)
    else:
        assert not isinstance(out, np.ndarray) and out == exp

def check(candidate):
    for inp, exp in zip([[1.0], [2.0]], [[0.5, 1.0], [1.0, 2.0]]):
        assertion(candidate(*inp), exp, 1e-06)
"""


@pytest.mark.parametrize(
    ("body", "right"), [("[x / 2 + 1e-9, x]", True), ("[x / 2 + 1e-3, x]", False), ("[x / 2]", False)]
)
def test_tests_of_evalplus_need_no_numpy(body, right, tmp_path):
    row = {"task_id": "HumanEval/0", "prompt": "def half(x):\n", "entry_point": "half", "test": PLUS}
    (tmp_path / "plus.jsonl").write_text(json.dumps(row))
    task = TASKS.make("humaneval")
    (item,) = task.items(tmp_path / "plus.jsonl")
    program = task.program(item, task.answer(item, f"    return {body}\n"))
    space: dict = {}
    exec(program.code, space)
    if right:
        exec(program.tests, space)
    else:
        with pytest.raises(AssertionError):
            exec(program.tests, space)


def test_too_many_shots():
    with pytest.raises(UnmaskError, match="shots is 65; expected 0 to 64"):
        TASKS.make("gsm8k(shots=65)")
    with pytest.raises(UnmaskError, match="the shots of gsm8k_cot"):
        TASKS.make("gsm8k(shots=9, draw=cot)")
