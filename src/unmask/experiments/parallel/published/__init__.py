"""Results of other programs, and own ones, read from files of their layouts."""

from unmask.experiments.parallel.published.reading import Published, read

__all__ = ["Published", "read"]
