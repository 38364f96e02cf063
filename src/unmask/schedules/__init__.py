"""How much is revealed at each round, and where: schedules delta and orders tau."""

from unmask.schedules.schedule import SCHEDULES, Fit, Schedule, ScheduleLike, check, deltas, is_fitted, sizes

__all__ = ["SCHEDULES", "Fit", "Schedule", "ScheduleLike", "check", "deltas", "is_fitted", "sizes"]
