"""Is a sampler what it says? What its author runs in the tests of another package: `check(sampler)`."""

from unmask.conformance.kit import check, examine
from unmask.conformance.report import Check, Report

__all__ = ["Check", "Report", "check", "examine"]
