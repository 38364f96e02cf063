"""core/index.py, made again: `python -m tests.index --write` after a name is added or moved.

The module of a name is the one whose import registers it. Modules of extras that are not installed are left out: none
of them registers a name. experiments/cell.py has the jobs.
"""

from __future__ import annotations

import pkgutil
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import unmask
from unmask.core.errors import NotInstalled
from unmask.core.registry import Registry

ROOT = Path(__file__).parents[1]
FILE = Path(unmask.__file__).parent / "core" / "index.py"
NOUNS = ("kind of language", "sampler", "schedule", "task")
SORTED = ("kind of language", "sampler", "task")  # the others in the order in which they are shown


def registries() -> dict[str, Registry]:
    """Registries by their noun, after every module was imported."""
    for module in pkgutil.walk_packages(unmask.__path__, "unmask."):
        with suppress(NotInstalled):
            if module.name != "unmask.__main__":  # which is the command
                import_module(module.name)
    ours = [module for name, module in sys.modules.items() if name.startswith("unmask.")]
    return {one.noun: one for module in ours for one in vars(module).values() if isinstance(one, Registry)}


def found() -> dict[str, dict[str, str]]:
    every = registries()
    modules = {noun: {name: maker.__module__ for name, maker in every[noun].makers.items()} for noun in NOUNS}
    return {noun: dict(sorted(names.items())) if noun in SORTED else names for noun, names in modules.items()}


def text(index: dict[str, dict[str, str]]) -> str:
    head, _, _ = FILE.read_text().partition("INDEX: ")
    rows = (
        [f'    "{noun}": {{', *(f'        "{name}": "{module}",' for name, module in names.items()), "    },"]
        for noun, names in index.items()
    )
    body = "\n".join(row for part in rows for row in part)
    return f"{head}INDEX: dict[str, dict[str, str]] = {{\n{body}\n}}\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("expected --write: python -m tests.index --write")
    FILE.write_text(text(found()))
