"""HumanEval and the sanitized MBPP: what their authors wrote passes, and what is changed in it does not."""

from __future__ import annotations

import ast
import gzip
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from unmask.sandbox import Limits, Ran, Sandbox

DATA = Path(os.environ.get("UNMASK_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
LIMITS = Limits(wall=30)
EVERY = 16  # of which one is changed
pytestmark = [
    pytest.mark.skipif(not DATA.is_dir(), reason=f"no data in {DATA}; set UNMASK_DATA to where they are"),
    pytest.mark.filterwarnings("ignore:invalid escape sequence"),  # in what their authors wrote
]


@dataclass(frozen=True)
class Item:
    name: str
    program: str
    tests: str
    entry: str


def humaneval() -> list[Item]:
    with gzip.open(DATA / "HumanEval.jsonl.gz", "rt") as lines:
        said = [json.loads(line) for line in lines]
    return [
        Item(
            i["task_id"],
            i["prompt"] + i["canonical_solution"],
            f"{i['test']}\ncheck({i['entry_point']})",
            i["entry_point"],
        )
        for i in said
    ]


def mbpp() -> list[Item]:
    """Its entry point is the function of the reference that the tests name."""
    found = []
    for i in json.loads((DATA / "sanitized-mbpp.json").read_text()):
        tests = "\n".join([*i["test_imports"], *i["test_list"]])
        used = {node.id for node in ast.walk(ast.parse(tests)) if isinstance(node, ast.Name)}
        entry = next(
            n.name for n in ast.walk(ast.parse(i["code"])) if isinstance(n, ast.FunctionDef) and n.name in used
        )
        found.append(Item(f"MBPP/{i['task_id']}", i["code"], tests, entry))
    return found


def checked(box: Sandbox, items: list[Item]) -> list[Ran]:
    """Two at a time: here run other tests beside."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda item: box.check(item.program, item.tests, item.entry, LIMITS), items))


@pytest.mark.parametrize(("items", "number"), [(humaneval, 164), (mbpp, 427)])
def test_references_pass(items: Callable[[], list[Item]], number, strongest):
    every = items()
    ran = checked(strongest, every)
    assert {item.name: one.why for item, one in zip(every, ran, strict=True) if not one.passed} == {}
    assert len(ran) == number


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_references_pass_at_other_levels(kind, box):
    every = humaneval()[::8]
    assert [item.name for item, one in zip(every, checked(box(kind), every), strict=True) if not one.passed] == []


class Nothing(ast.NodeTransformer):
    """Every function returns None."""

    def visit_Return(self, node: ast.Return) -> ast.Return:
        return ast.Return(ast.Constant(None))


class Other(ast.NodeTransformer):
    """The first comparison of each function is turned around, and what is returned is changed."""

    def visit_Return(self, node: ast.Return) -> ast.Return:
        return ast.Return(ast.Tuple([node.value or ast.Constant(None), ast.Constant(1)], ast.Load()))


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
