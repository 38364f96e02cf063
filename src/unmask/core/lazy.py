"""Names whose modules are imported at their first use: public names of packages, and names of registries.

So `import unmask` is fast, and a name is found without an import of the others. `python -m tests.index --write` writes
the table of registries; tests/core/test_index.py holds it true.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from inspect import getsource
from pkgutil import iter_modules
from typing import Any

from unmask.core.errors import unknown

PACKAGES = {"kind of language": "languages.", "sampler": "samplers.rules.", "task": "tasks."}
BY_MODULE: dict[str, dict[str, str]] = {
    "kind of language": {
        "answers": "answers",
        "grammars": "brackets modular-sum",
        "hmm": "hmm",
        "interval": "interval",
        "ngram": "ngram",
    },
    "sampler": {
        "fixed_orders": "ancestral dyadic first-hitting fixed-size left-to-right strided",
        "published": "as-published-mdlm dream llada",
        "speculative": "autoregressive self-speculative speculative",
        "blocks": "blocks",
        "confidence": "entropy low-confidence margin top-probability",
        "adaptive": "entropy-bounded entropy-sum factor klass localleap threshold",
        "repair": "gibbs token-editing wino",
        "remasking": "p2 remdm",
        "uniform": "renoise uniform-ancestral",
    },
    "schedule": {
        "samplers.schedules": "linear cosine cosine-squared polynomial sqrt beta geometric theorem-4.2",
        "theory.optimal": "optimal fewest-pairs",
    },
    "task": {
        "latin": "latin",
        "lists": "lists",
        "sudoku": "sudoku",
        "sums": "sums",
    },
}
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
        near = f": {unknown('name', name, names())}" if not name.startswith("_") else ""  # Python itself tries these
        raise AttributeError(f"module {package!r} has no attribute {name!r}{near}")

    def names() -> list[str]:
        return sorted(parents.keys() | modules)

    return get, names


def declared(package: str) -> dict[str, str]:
    """Each name that the package imports under `if TYPE_CHECKING`, with its module."""
    blocks = (node for node in ast.parse(getsource(sys.modules[package])).body if isinstance(node, ast.If))
    guarded = (block.body for block in blocks if ast.unparse(block.test) == "TYPE_CHECKING")
    imports = (node for body in guarded for node in body if isinstance(node, ast.ImportFrom))
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def modules(noun: str) -> dict[str, str]:
    """Each built-in name of a registry with its module; schedules are in the order of the table, others sorted."""
    table, package = BY_MODULE.get(noun, {}), f"unmask.{PACKAGES.get(noun, '')}"
    names = {name: package + module for module, own in table.items() for name in own.split()}
    return names if noun == "schedule" else dict(sorted(names.items()))
