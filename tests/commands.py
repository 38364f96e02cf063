"""Every command of `unmask` by its words: "eval lm-eval"."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

from unmask.cli.main import COMMANDS, PLACES


def every() -> dict[str, Callable[..., Any]]:
    found = {}
    for name in COMMANDS:
        module, _, attribute = PLACES.get(name, name).partition(":")
        found |= dict(_inside(name, getattr(import_module(f"unmask.cli.{module}"), attribute or "command")))
    return found


def _inside(name: str, command: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    if not isinstance(command, Mapping):
        yield name, command
        return
    for part, one in command.items():
        yield from _inside(f"{name} {part}", one)
