"""core/lazy.py and the list in recipes/board.yaml, made again after a name is added or moved:

    python -m tests.index --write

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
from unmask.core.lazy import PACKAGES
from unmask.core.registry import Registry
from unmask.experiments.board.run import standard

ROOT = Path(__file__).parents[1]
FILE = Path(unmask.__file__).parent / "core" / "lazy.py"
BOARD = ROOT / "recipes" / "board.yaml"
NOUNS = ("kind of language", "sampler", "schedule", "task")


def registries() -> dict[str, Registry]:
    """Registries by their noun, after every module was imported."""
    for module in pkgutil.walk_packages(unmask.__path__, "unmask."):
        with suppress(NotInstalled):
            if module.name != "unmask.__main__":  # which is the command
                import_module(module.name)
    ours = [module for name, module in sys.modules.items() if name.startswith("unmask.")]
    return {one.noun: one for module in ours for one in vars(module).values() if isinstance(one, Registry)}


def found() -> dict[str, dict[str, str]]:
    every, table = registries(), dict[str, dict[str, str]]()
    for noun in NOUNS:
        names: dict[str, list[str]] = {}
        for name, maker in every[noun].makers.items():
            names.setdefault(maker.__module__.removeprefix(f"unmask.{PACKAGES.get(noun, '')}"), []).append(name)
        table[noun] = {module: " ".join(own) for module, own in names.items()}
    return table


def text(table: dict[str, dict[str, str]]) -> str:
    head, _, rest = FILE.read_text().partition("BY_MODULE: ")
    rows = [
        row
        for noun, names in table.items()
        for row in (f'    "{noun}": {{', *(f'        "{module}": "{own}",' for module, own in names.items()), "    },")
    ]
    body = "\n".join(rows)
    after = rest.partition("\n}\n")[2]
    return f"{head}BY_MODULE: dict[str, dict[str, str]] = {{\n{body}\n}}\n{after}"


def listed(recipe: str) -> str:
    """The recipe with a line for each sampler."""
    head, _, rest = recipe.partition("  sampler:\n")
    items = "".join(f"    - {name}\n" for name in standard())
    return f"{head}  sampler:\n{items}{rest[rest.index('zip:') :]}"


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("expected --write: python -m tests.index --write")
    FILE.write_text(text(found()))
    BOARD.write_text(listed(BOARD.read_text()))
