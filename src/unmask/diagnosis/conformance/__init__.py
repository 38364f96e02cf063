"""Tests for authors of samplers: `check(sampler)` raises an error unless the sampler keeps its contract."""

from unmask.diagnosis.conformance.kit import check, examine
from unmask.diagnosis.conformance.report import Check, Report

__all__ = ["Check", "Report", "check", "examine"]
