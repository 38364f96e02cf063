"""Benchmarks of parallel decoding: results of items, their scores with intervals, own measurements."""

from unmask.tasks.parallel.points import Outcome, Setting, of_samples, read, settings

__all__ = ["Outcome", "Setting", "of_samples", "read", "settings"]
