"""Sweeps: jobs that survive, what their cells measure, and the board that compares samplers."""

from unmask.core.lazy import door, modules_of

PLACES = {
    "Recipe": "unmask.experiments.jobs.recipe",
    "Sweep": "unmask.experiments.jobs.run",
    "read_recipe": "unmask.experiments.jobs.recipe",
    "sweep": "unmask.experiments.jobs.run",
}
__getattr__, __dir__ = door(__name__, PLACES, modules_of(__name__, __path__))
