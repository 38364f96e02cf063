"""The house: its rooms, the statements of each, and imports that only go down."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "unmask"
CAPS = {  # statements of each room, from the one under all to the one on top; an import goes to a room before its own
    "core": 1880,
    "languages": 3740,
    "denoisers": 1760,
    "samplers": 3455,
    "metrics": 355,
    "models": 4060,
    "theory": 1550,
    "diagnosis": 5140,
    "planning": 780,
    "experiments": 3150,  # engines, a cluster of Ray, parts of a sweep that a queue runs, infilling
    "tasks": 1880,  # lm-eval as a job of a sweep: a job of models stands with its tasks
    "report": 1710,  # accuracy and infilling on pages
    "cli": 1450,
}
MOST = 30_980  # statements of the whole package
ROOMS = list(CAPS)


def statements(folder: Path) -> int:
    """Statements of the files in a folder: air and comments are free, and cramming a line gains nothing."""
    trees = (ast.parse(path.read_text()) for path in folder.rglob("*.py"))
    return sum(isinstance(node, ast.stmt) for tree in trees for node in ast.walk(tree))


def test_the_rooms_are_these():
    assert {path.parent.name for path in SOURCE.glob("*/__init__.py")} == {*ROOMS}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_keeps_to_its_statements(room):
    """A new ability names the statements that it replaces (CONTRIBUTING.md)."""
    assert statements(SOURCE / room) <= CAPS[room]


def test_the_house_keeps_to_its_statements():
    assert statements(SOURCE) <= MOST


def test_tests_are_no_longer_than_src():
    assert statements(ROOT / "tests") <= statements(SOURCE)


def upwards(root: Path) -> list[str]:
    """Imports of each file that go to a room above its own."""
    found = []
    for path in sorted(root.glob("*/**/*.py")):
        room = path.relative_to(root).parts[0]
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            names = [f"unmask.{alias.name}" for alias in node.names] if names == ["unmask"] else names
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            above = {*ROOMS[ROOMS.index(room) + 1 :]}
            rooms = {name: name.split(".")[1] for name in names if name.startswith("unmask.")}
            found += [f"{path.relative_to(root)} imports {name}" for name, one in rooms.items() if one in above]
    return found


def test_imports_go_down():
    assert upwards(SOURCE) == []


def test_an_import_that_goes_up_is_seen(tmp_path):
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "errors.py").write_text("def f():\n    from unmask.samplers.rules import repair\n")
    assert upwards(tmp_path) == ["core/errors.py imports unmask.samplers.rules"]
