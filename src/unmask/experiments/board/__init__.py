"""The board: samplers compared on languages with exactly known probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.core.lazy import lazily

if TYPE_CHECKING:
    from unmask.experiments.board.settings import Settings as Settings
    from unmask.experiments.board.table import Board as Board
    from unmask.experiments.board.table import board as board

__getattr__, __dir__ = lazily(__name__)  # listing the jobs of a sweep need not import torch
