"""Whether somebody's samples follow the law of a sampler that we know, and which known fault they show if not."""

from unmask.diagnosis.audit.verdict import Audit, audit

__all__ = ["Audit", "audit"]
