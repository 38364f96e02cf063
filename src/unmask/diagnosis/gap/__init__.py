"""Factorization gap: what a model loses by drawing several tokens at once, measured from the rows it wrote."""

from unmask.diagnosis.gap.measure import gap
from unmask.diagnosis.gap.result import Gap

__all__ = ["Gap", "gap"]
