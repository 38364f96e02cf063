"""Audit: test whether samples have the distribution of a known sampler, and name the likely fault if not."""

from unmask.diagnosis.audit.verdict import Audit, audit

__all__ = ["Audit", "audit"]
