"""The conformance kit: what every sampler must keep, tried on small languages of every kind in about a second.

A sampler may refuse a case by an UnmaskError, as autoregression refuses to fill in; that is told, and no failure, but
for a blank canvas of the first case. What is random has a fixed seed: the same sampler always gets the same report.
"""

from __future__ import annotations

from collections.abc import Collection

from unmask.core.errors import unknown
from unmask.diagnosis.conformance.checks import CHECKS
from unmask.diagnosis.conformance.exam import Exam
from unmask.diagnosis.conformance.report import Check, Report
from unmask.samplers import SAMPLERS, Sampler
from unmask.samplers.contract import Law, check_kind


def check(sampler: str | Sampler, *, law: Law | None = None, skip: Collection[str] = ()) -> Report:
    """`examine`, and an AssertionError that says all that is wrong: one line is a test."""
    report = examine(sampler, law=law, skip=skip)
    report.raise_if_failed()
    return report


def examine(sampler: str | Sampler, *, law: Law | None = None, skip: Collection[str] = ()) -> Report:
    """Try a sampler, or its name with options, and report what was found.

    law: which law its output is to follow; what the sampler itself claims (`Sampler.law`) unless told otherwise.
    skip: names of CHECKS that a sampler does not pass for a known reason.
    """
    for name in skip:
        if name not in CHECKS:
            raise unknown("check", name, CHECKS)
    used = SAMPLERS.make(sampler) if isinstance(sampler, str) else sampler
    shown = sampler if isinstance(sampler, str) else type(used).__name__
    check_kind(type(used), shown)
    exam = Exam(used, f"sampler {shown}", law or used.law)
    found: list[Check] = []
    for name, look in CHECKS.items():
        if name in skip:
            found.append(Check(name, "skipped"))
        elif found and found[0].outcome == "failed":
            found.append(Check(name, "not run", "the contract is broken"))
        else:
            found.append(exam.take(name, look))
    return Report(exam.name, tuple(found))
