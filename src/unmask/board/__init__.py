"""Samplers side by side on languages that are known exactly: what each needs, and what it does to what it writes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unmask.board.grid import Settings as Settings
    from unmask.board.grid import quick as quick
    from unmask.board.run import Board as Board
    from unmask.board.run import board as board

_LAZY = {  # on first use: a sweep that looks for its metrics need not wait for torch
    "Board": "unmask.board.run",
    "Settings": "unmask.board.grid",
    "board": "unmask.board.run",
    "quick": "unmask.board.grid",
}

__all__ = ["Board", "Settings", "board", "quick"]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'unmask.board' has no attribute {name!r}")
