"""Samplers side by side on languages that are known exactly: what each needs, and what it does to what it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.core.lazy import door

if TYPE_CHECKING:
    from unmask.experiments.board.grid import Settings as Settings
    from unmask.experiments.board.grid import quick as quick
    from unmask.experiments.board.run import Board as Board
    from unmask.experiments.board.run import board as board

PLACES = {
    "Board": "unmask.experiments.board.run",
    "Settings": "unmask.experiments.board.grid",
    "board": "unmask.experiments.board.run",
    "quick": "unmask.experiments.board.grid",
}

__all__ = [*PLACES]
__getattr__, __dir__ = door(__name__, PLACES, {})  # a sweep that looks for its metrics need not wait for torch
