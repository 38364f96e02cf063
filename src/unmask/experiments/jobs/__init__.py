"""Sweeps: a grid of cells that survives kill -9, on one machine or on a Ray cluster."""

from unmask.experiments.jobs.recipe import Recipe, read_recipe
from unmask.experiments.jobs.run import Sweep, sweep

__all__ = ["Recipe", "Sweep", "read_recipe", "sweep"]
