"""The house: its rooms, the statements of each, and imports that only go down."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.air import of_folder

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "unmask"
CAPS = {  # statements of each room, from the one under all to the one on top; an import goes to a room before its own
    "core": 2140,
    "languages": 3900,
    "denoisers": 1840,
    "samplers": 3670,
    "metrics": 412,
    "models": 4240,
    "theory": 1690,  # what joint draws can do
    "diagnosis": 5165,
    "planning": 780,
    "experiments": 3200,  # engines, a cluster of Ray, parts of a sweep that a queue runs, infilling
    "tasks": 1860,  # lm-eval as a job of a sweep: a job of models stands with its tasks
    "report": 2125,  # accuracy and infilling on pages
    "cli": 1545,
}
MOST = 32_880  # statements of the whole package
BESIDE = 1_370  # lines of html, css, js and toml in it
UP = ["samplers/generation.py imports unmask.models.loading"]  # generate() takes the directory of a model
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


def test_pages_and_tables_keep_to_their_lines():
    paths = [path for path in SOURCE.rglob("*") if path.suffix in (".html", ".css", ".js", ".toml")]
    assert sum(len(path.read_text().splitlines()) for path in paths) <= BESIDE


@pytest.mark.parametrize("room", ROOMS)
def test_long_functions_have_their_thoughts_apart(room):
    """At most three of ten are one block without a blank line or a comment; `python -m tests.air --list` names them."""
    counted = of_folder(SOURCE / room)
    assert counted.solid <= 0.3 * counted.long


def test_a_block_is_seen(tmp_path):
    lines = ["def f():", *["    x = 1"] * 15]
    (tmp_path / "solid.py").write_text("\n".join(lines))
    (tmp_path / "apart.py").write_text("\n".join([*lines[:8], "", *lines[8:]]))
    counted = of_folder(tmp_path)
    assert (counted.solid, counted.long) == (1, 2)


def test_tests_are_no_longer_than_src():
    assert statements(ROOT / "tests") <= statements(SOURCE)


def imported_by_name(node: ast.AST) -> list[str]:
    """The module of import_module("..") with a literal name: an import that happens at run time."""
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "import_module"
    return [arg.value for arg in node.args if isinstance(arg, ast.Constant)] if called else []


def upwards(root: Path) -> list[str]:
    """Imports of each file that go to a room above its own."""
    found = []
    for path in sorted(root.glob("*/**/*.py")):
        room = path.relative_to(root).parts[0]
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            names = [f"unmask.{alias.name}" for alias in node.names] if names == ["unmask"] else names
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += imported_by_name(node)
            above = {*ROOMS[ROOMS.index(room) + 1 :]}
            rooms = {name: name.split(".")[1] for name in names if name.startswith("unmask.")}
            found += [f"{path.relative_to(root)} imports {name}" for name, one in rooms.items() if one in above]
    return found


def test_imports_go_down():
    assert upwards(SOURCE) == UP


def test_an_import_that_goes_up_is_seen(tmp_path):
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "errors.py").write_text("def f():\n    from unmask.samplers.rules import repair\n")
    assert upwards(tmp_path) == ["core/errors.py imports unmask.samplers.rules"]
    (tmp_path / "core" / "errors.py").write_text('import_module("unmask.models.loading")\n')
    assert upwards(tmp_path) == ["core/errors.py imports unmask.models.loading"]
