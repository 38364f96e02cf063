"""`unmask` without its extras: each module is imported, or names the extra that it needs and how to install it."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions, requires
from typing import NamedTuple

import pytest

from tests.needs import PROJECT, ROOT, distributions, plain
from unmask.core.errors import NotInstalled, needed

SOURCE = ROOT / "src"
INSTALLED = {package: set(map(plain, names)) for package, names in packages_distributions().items()}


DEPENDENCIES = distributions("")
for name in sorted(DEPENDENCIES):  # and what these require themselves, as numba does llvmlite
    DEPENDENCIES |= {plain(line) for line in requires(name) or () if "extra ==" not in line}


def always(package: str) -> bool:
    """Whether the dependencies of `unmask` bring it."""
    return bool(INSTALLED.get(package, set()) & DEPENDENCIES)


def brings(extra: str, package: str) -> bool:
    """Whether an extra declares the distribution of an import package; where that is missing, both have one name."""
    return bool(INSTALLED.get(package, {plain(package)}) & distributions(extra))


class Import(NamedTuple):
    path: str
    line: int
    package: str
    guard: str | None  # the extra of `needed`, "" for `except ImportError` and for types, None without a guard


def imports(tree: ast.AST, path: str, guard: str | None = None) -> Iterator[Import]:
    """Every import of another package below `tree`, with its guard."""
    for node in ast.iter_child_nodes(tree):
        inner = guard
        match node:
            case ast.Import(names=names):
                yield from (Import(path, node.lineno, name.name.partition(".")[0], guard) for name in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield Import(path, node.lineno, module.partition(".")[0], guard)
            case ast.With(items=[ast.withitem(ast.Call(ast.Name("needed"), [ast.Constant(str(extra)), *_]))]):
                inner = extra
            case ast.Try(handlers=[ast.ExceptHandler(type=ast.Name("ImportError")), *_]):
                inner = ""
            case ast.If(test=ast.Name("TYPE_CHECKING")):
                inner = ""
        yield from imports(node, path, inner)


@cache
def others() -> list[Import]:
    """Imports of `unmask` of packages that neither Python nor its dependencies bring."""
    found = []
    for path in SOURCE.rglob("*.py"):
        found += imports(ast.parse(path.read_text()), str(path.relative_to(ROOT)))
    usual = {*sys.stdlib_module_names, "unmask"}
    return [one for one in found if one.package not in usual and not always(one.package)]


def test_each_import_of_an_extra_has_its_guard():
    """`with needed(EXTRA, ..)` around it, of the extra that brings it, or `except ImportError`."""
    wrong = [
        f"{one.path}:{one.line} imports {one.package}: write `with needed(EXTRA, WHAT):` around it"
        for one in others()
        if one.guard is None or (one.guard and not brings(one.guard, one.package))
    ]
    assert not wrong, "\n".join(wrong)


def test_a_planted_import_is_found():
    code = (
        "import ray\nwith needed('open', 'x'):\n    from ray.data import y\ntry:\n    import ray\nexcept ImportError: 0"
    )
    found = list(imports(ast.parse(code), "m.py"))
    assert found == [Import("m.py", n, "ray", guard) for n, guard in ((1, None), (3, "open"), (5, ""))]
    assert brings("open", "transformers")
    assert brings("lm-eval", "transformers")
    assert not brings("open", "ray")


def test_mypy_does_not_depend_on_what_is_installed():
    """pyproject.toml skips exactly the packages that `.[test]` does not install."""
    skipped = [one for one in PROJECT["tool"]["mypy"]["overrides"] if one.get("follow_imports") == "skip"]
    listed = {name.removesuffix(".*") for one in skipped for name in one["module"]}
    listed -= set(filter(always, listed))
    imported = {one.package for one in others() if not brings("test", one.package)}
    assert listed == imported, "in pyproject.toml, tool.mypy.overrides: write follow_imports = skip for exactly these"


BARE = """
import json, pkgutil, sys
from importlib import import_module

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in json.loads(sys.argv[1]):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import unmask
from unmask.core.errors import UnmaskError

said = {}
for found in pkgutil.walk_packages(unmask.__path__, "unmask."):
    if found.name != "unmask.__main__":
        try:
            import_module(found.name)
        except UnmaskError as error:
            said[found.name] = str(error)
        except Exception as error:
            said[found.name] = f"{type(error).__name__}: {error}"
print(json.dumps(said))
"""


@pytest.mark.long
def test_every_module_is_imported_or_says_what_to_install():
    """As on a machine that has no package of any extra; the message is the same wherever the tests run."""
    absent = {one.package for one in others()}
    ran = subprocess.run([sys.executable, "-c", BARE, json.dumps(sorted(absent))], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    form = r".* needs the extra (.+): the package \S+ is not installed; pip install 'unmask\[\1\]'.*"
    wrong = [f"import {name}: {text}" for name, text in said.items() if not re.fullmatch(form, text)]
    assert not wrong, "\n".join([*wrong, "write `with needed(EXTRA, WHAT):` around the import of the package"])
    assert "unmask.tasks.lm_eval" in said


def test_what_is_said():
    with pytest.raises(NotInstalled) as caught, needed("open", "a model", "name a directory"):
        import no_such_package  # noqa: F401
    expected = "a model needs the extra open: the package no_such_package is not installed; pip install 'unmask[open]'"
    assert str(caught.value) == f"{expected}, or name a directory"
    with pytest.raises(NotInstalled, match="cannot import name 'nothing'"), needed("open", "a model"):
        from json import nothing  # noqa: F401
