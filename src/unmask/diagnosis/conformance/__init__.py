"""Is a sampler what it says? What its author runs in the tests of another package: `check(sampler)`."""

from unmask.diagnosis.conformance.kit import check, examine
from unmask.diagnosis.conformance.report import Check, Report

__all__ = ["Check", "Report", "check", "examine"]
