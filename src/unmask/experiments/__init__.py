"""Sweeps: grids of cells that survive kill -9, their jobs, and the board that compares samplers."""

from typing import TYPE_CHECKING

from unmask.core.lazy import lazily

if TYPE_CHECKING:
    from unmask.experiments.recipe import Recipe as Recipe
    from unmask.experiments.recipe import read_recipe as read_recipe
    from unmask.experiments.run import Sweep as Sweep
    from unmask.experiments.run import sweep as sweep

__getattr__, __dir__ = lazily(__name__, __path__)
