"""Public names of packages, whose modules are imported at their first use. So `import unmask` is fast."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from inspect import getsource
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from unmask.core.errors import unknown

PACKAGE = Path(__file__).parents[1]
Hooks = tuple[Callable[[str], Any], Callable[[], list[str]]]


def lazily(package: str, path: Iterable[str] = ()) -> Hooks:
    """(__getattr__, __dir__) for the names that the package imports under `if TYPE_CHECKING`, with `X as X`.

    path: the package's `__path__`, if its modules are public too.
    """
    parents = declared(package)
    modules = {module.name for module in iter_modules(path)}

    def get(name: str) -> Any:
        if name in parents and parents[name] != package:
            parent = import_module(parents[name])
            value = getattr(parent, name) if hasattr(parent, name) else import_module(f"{parents[name]}.{name}")
            setattr(sys.modules[package], name, value)  # the next time Python finds it itself
            return value
        if name in parents or name in modules:
            return import_module(f"{package}.{name}")

        problem = f"module {package!r} has no attribute {name!r}"
        if name.startswith("_"):  # Python itself tries these
            raise AttributeError(problem)
        home = elsewhere(name)
        raise AttributeError(f"{problem}; it is {home}" if home else f"{problem}: {unknown('name', name, names())}")

    def names() -> list[str]:
        return sorted(parents.keys() | modules)

    return get, names


def declared(package: str) -> dict[str, str]:
    """Each name that the package imports under `if TYPE_CHECKING`, with its module."""
    blocks = (node for node in ast.parse(getsource(sys.modules[package])).body if isinstance(node, ast.If))
    guarded = (block.body for block in blocks if ast.unparse(block.test) == "TYPE_CHECKING")
    imports = (node for body in guarded for node in body if isinstance(node, ast.ImportFrom))
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def elsewhere(name: str) -> str:
    """Where a package has this public name: "unmask.testing.assert_law"; "" if none has."""
    declares = re.compile(rf"^(?:def|class) {name}\b|^    from .* as {name}$", re.MULTILINE)
    files = [*sorted(PACKAGE.glob("**/__init__.py")), *PACKAGE.glob("*.py")]
    for file in files:
        if declares.search(file.read_text("utf-8")):
            home = file.relative_to(PACKAGE.parent).with_suffix("").parts
            return ".".join((*home, name)).replace(".__init__.", ".")
    return ""
