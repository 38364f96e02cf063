"""Samplers side by side on languages that are known exactly: what each needs, and what it does to what it writes."""

from unmask.board.grid import Settings, quick
from unmask.board.run import Board, board

__all__ = ["Board", "Settings", "board", "quick"]
