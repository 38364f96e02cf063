"""Sweeps: a grid of cells that survives kill -9, on one machine or on a Ray cluster."""

from typing import TYPE_CHECKING

from unmask.core.lazy import lazily

if TYPE_CHECKING:
    from unmask.experiments.jobs.recipe import Recipe as Recipe
    from unmask.experiments.jobs.recipe import read_recipe as read_recipe
    from unmask.experiments.jobs.run import Sweep as Sweep
    from unmask.experiments.jobs.run import sweep as sweep

PLACES = {  # imported when they are asked for: a worker, which is started often, asks for none of them
    "Recipe": "unmask.experiments.jobs.recipe",
    "Sweep": "unmask.experiments.jobs.run",
    "read_recipe": "unmask.experiments.jobs.recipe",
    "sweep": "unmask.experiments.jobs.run",
}
__getattr__, __dir__ = lazily(__name__, __path__)
