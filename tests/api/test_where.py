"""The table "Where is ..?" of docs/architecture.md: each file has the name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "unmask"
ROW = re.compile(r"^\| (.+) \| `([\w/]+\.py)` \| `([\w.]+)` \|$", re.MULTILINE)
SECTION = (ROOT / "docs" / "architecture.md").read_text().partition("## Where is ..?")[2].partition("\n## ")[0]


def names(body: list[ast.stmt]) -> set[str]:
    """What these statements define; the methods of a class with its name before them."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {node.name} | {f"{node.name}.{inner}" for inner in names(node.body)}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def test_every_line_of_the_table_is_read():
    rows = [line for line in SECTION.splitlines() if line.startswith("| ")][1:]  # without the head
    assert len(rows) == len(ROW.findall(SECTION)) >= 25


@pytest.mark.parametrize(("question", "file", "name"), ROW.findall(SECTION))
def test_the_file_has_the_name(question, file, name):
    assert name in names(ast.parse((SOURCE / file).read_text()).body), question


@pytest.mark.parametrize("path", re.findall(r"`([\w/]+\.py)`", SECTION))
def test_a_file_that_a_question_names_is_there(path):
    """A path may begin within the room of its row."""
    assert any(
        path == one or one.endswith(f"/{path}") for one in (f"{p.relative_to(SOURCE)}" for p in SOURCE.rglob("*.py"))
    )


def test_a_name_that_is_not_there_is_seen():
    body = ast.parse("class A:\n    def b(self): ...\nC = 1\n").body
    assert names(body) == {"A", "A.b", "C"}
