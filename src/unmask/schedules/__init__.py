"""Schedules delta (the fraction that each step reveals) and orders tau (the step of each position)."""

from unmask.schedules.schedule import SCHEDULES, Fit, Schedule, ScheduleLike, check, deltas, is_fitted, sizes

__all__ = ["SCHEDULES", "Fit", "Schedule", "ScheduleLike", "check", "deltas", "is_fitted", "sizes"]
