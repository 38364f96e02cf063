"""Sweeps: grids of cells that survive kill -9, on one machine or on a Ray cluster."""

from typing import TYPE_CHECKING

from unmask.core.lazy import lazily

if TYPE_CHECKING:
    from unmask.experiments.sweeps.recipe import Recipe as Recipe
    from unmask.experiments.sweeps.recipe import read_recipe as read_recipe
    from unmask.experiments.sweeps.run import Sweep as Sweep
    from unmask.experiments.sweeps.run import sweep as sweep

__getattr__, __dir__ = lazily(__name__, __path__)
