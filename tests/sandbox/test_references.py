"""HumanEval and the sanitized MBPP: what their authors wrote passes, and what is changed in it does not."""

from __future__ import annotations

import ast
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from tests.conftest import turn
from tests.tasks.data import DATA, needs_data
from unmask.sandbox import Limits, Ran, Sandbox
from unmask.tasks import TASKS
from unmask.tasks import Item as TaskItem
from unmask.tasks.data import read
from unmask.tasks.mbpp import SANITIZED, Row

LIMITS = Limits(wall=30)
EVERY = 16  # of which one is changed
pytestmark = [
    needs_data,
    pytest.mark.filterwarnings("ignore:invalid escape sequence"),  # in what their authors wrote
]


@dataclass(frozen=True)
class Item:
    name: str
    program: str
    tests: str
    entry: str


def humaneval() -> list[Item]:
    task = TASKS.make("humaneval")
    items = task.items(DATA / "HumanEval.jsonl.gz")
    return [
        Item(item.name, *task.program(item, task.answer(item, item.row.canonical_solution) or "")) for item in items
    ]


def mbpp() -> list[Item]:
    """All of the sanitized ones, of which the task asks those of the test set."""
    task, rows = TASKS.make("mbpp"), read(SANITIZED, Row, DATA / SANITIZED.files[0]).valid
    return [Item(f"MBPP/{row.task_id}", *task.program(TaskItem(str(row.task_id), (row, ())), row.code)) for row in rows]


def checked(box: Sandbox, items: list[Item]) -> list[Ran]:
    """Two at a time: here run other tests beside."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda item: box.check(item.program, item.tests, item.entry, LIMITS), items))


def failed(box: Sandbox, items: list[Item]) -> dict[str, str]:
    return {item.name: one.why for item, one in zip(items, checked(box, items), strict=True) if not one.passed}


@pytest.mark.rotates(3)
@pytest.mark.parametrize("items", [humaneval, mbpp])
def test_a_sixth_of_the_references_passes(items: Callable[[], list[Item]], strongest):
    """Another sixth after each commit."""
    assert failed(strongest, items()[turn() % 6 :: 6]) == {}


@pytest.mark.long
@pytest.mark.parametrize(("items", "number"), [(humaneval, 164), (mbpp, 427)])
def test_references_pass(items: Callable[[], list[Item]], number, strongest):
    every = items()
    assert failed(strongest, every) == {}
    assert len(every) == number


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_references_pass_at_other_levels(kind, box):
    every = humaneval()[::8]
    assert [item.name for item, one in zip(every, checked(box(kind), every), strict=True) if not one.passed] == []


HELPED = {  # a helper of the prompt that agrees with the wrong answer
    "HumanEval/32": "def poly(xs, x): return 0\ndef find_zero(xs): return 0",
    "HumanEval/38": "def encode_cyclic(s): return s\ndef decode_cyclic(s): return s",
    "HumanEval/50": "def encode_shift(s): return s\ndef decode_shift(s): return s",
}


@pytest.mark.parametrize("name", HELPED)
def test_a_helper_of_the_prompt_is_the_prompts(name, strongest):
    task = TASKS.make("humaneval")
    (item,) = [item for item in task.items(DATA / "HumanEval.jsonl.gz") if item.name == name]
    program, tests, entry = task.program(item, task.answer(item, HELPED[name]) or "")
    ran = strongest.check(program, tests, entry, LIMITS)
    assert ran.outcome == "failed", ran


class Nothing(ast.NodeTransformer):
    """Every function returns None."""

    def visit_Return(self, node: ast.Return) -> ast.Return:
        return ast.Return(ast.Constant(None))


class Other(ast.NodeTransformer):
    """The first comparison of each function is turned around, and what is returned is changed."""

    def visit_Return(self, node: ast.Return) -> ast.Return:
        return ast.Return(ast.Tuple([node.value or ast.Constant(None), ast.Constant(1)], ast.Load()))


@pytest.mark.rotates(4)
@pytest.mark.parametrize("change", [Nothing(), Other()])
@pytest.mark.parametrize("items", [humaneval, mbpp])
def test_changed_ones_fail(items, change, strongest):
    every = items()[::EVERY]
    changed = []
    for item in every:
        program = ast.unparse(ast.fix_missing_locations(change.visit(ast.parse(item.program))))
        changed.append(Item(item.name, program, item.tests, item.entry))
    ran = checked(strongest, changed)
    assert [item.name for item, one in zip(changed, ran, strict=True) if one.outcome != "failed"] == []
