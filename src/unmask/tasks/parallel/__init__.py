"""Benchmarks of parallel decoding: published results and own records, their scores with intervals."""

from unmask.tasks.parallel.points import Outcome, Point, Setting, of_samples, settings

__all__ = ["Outcome", "Point", "Setting", "of_samples", "settings"]
