"""The list of samplers in recipes/board.yaml, made again after a sampler is added:

python -m tests.index --write
"""

from __future__ import annotations

import pkgutil
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import unmask
from unmask.core.errors import NotInstalled
from unmask.core.registry import PLACES, Registry
from unmask.experiments.board.run import standard

ROOT = Path(__file__).parents[1]
BOARD = ROOT / "recipes" / "board.yaml"


def found() -> dict[str, dict[str, str]]:
    """The names of registries with their modules, after every module was imported."""
    for module in pkgutil.walk_packages(unmask.__path__, "unmask."):
        with suppress(NotInstalled):
            if module.name != "unmask.__main__":  # which is the command
                import_module(module.name)
    ours = [module for name, module in sys.modules.items() if name.startswith("unmask.")]
    every = {one.noun: one for module in ours for one in vars(module).values() if isinstance(one, Registry)}
    return {noun: {name: maker.__module__ for name, maker in every[noun]._makers.items()} for noun in PLACES}


def listed(recipe: str) -> str:
    """The recipe with a line for each sampler."""
    head, _, rest = recipe.partition("  sampler:\n")
    items = "".join(f"    - {name}\n" for name in standard())
    return f"{head}  sampler:\n{items}{rest[rest.index('zip:') :]}"


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("expected --write: python -m tests.index --write")
    BOARD.write_text(listed(BOARD.read_text()))
