"""Factorization gap: the loss by drawing several tokens in one step, measured from the rows that a model wrote."""

from unmask.diagnosis.gap.measure import gap
from unmask.diagnosis.gap.result import Gap

__all__ = ["Gap", "gap"]
