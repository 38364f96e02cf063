"""No circle of imports between modules, whether at the top of a file, inside a function, or for annotations alone."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"


def parsed(root):
    """Modules by name, each with its tree; packages apart."""
    modules, packages = {}, {}
    for file in root.rglob("*.py"):
        *parent, name = file.relative_to(root).with_suffix("").parts
        tree = ast.parse(file.read_text())
        if name == "__init__":
            packages[".".join(parent)] = tree
        else:
            modules[".".join([*parent, name])] = tree
    return modules, packages


def graph(root):
    """Each module with those that it imports; a name that a package exports counts as its module."""
    modules, packages = parsed(root)
    exported = {
        f"{package}.{alias.name}": node.module
        for package, tree in packages.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def imported(tree):
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    yield full if full in modules else exported.get(full, node.module)

    return {name: {one for one in imported(tree) if one in modules} for name, tree in modules.items()}


def test_no_circle():
    found = graph(SOURCE)
    assert len(found) > 150
    assert found["unmask.samplers.loops"] >= {"unmask.samplers.session", "unmask.denoisers.canvas"}
    TopologicalSorter(found).prepare()


CIRCLES = [
    ("from p.b import y", "from p.a import x"),
    ("def f():\n    import p.b", "from p import a"),
    ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.b import y", "from p import x"),
]


@pytest.mark.parametrize(("one", "other"), CIRCLES)
def test_circles_are_found(tmp_path, one, other):
    (tmp_path / "p").mkdir()
    for name, text in {"__init__": "from p.a import x", "a": one, "b": other}.items():
        (tmp_path / "p" / f"{name}.py").write_text(text)
    with pytest.raises(CycleError):
        TopologicalSorter(graph(tmp_path)).prepare()
