"""The conformance kit for authors of samplers: checks on small languages of every kind, in about a second.

`check(sampler)` raises an error unless the sampler keeps its contract. A sampler can refuse a task with an UnmaskError,
as autoregression refuses to fill gaps. The report lists this without a failure, except for fully masked sequences of
the first case. Random seeds are fixed: the report is reproducible.
"""

from __future__ import annotations

from collections.abc import Collection

from unmask.core import arguments
from unmask.diagnosis.conformance.checks import CHECKS
from unmask.diagnosis.conformance.exam import Check, Exam, Report
from unmask.samplers.contract import SAMPLERS, Distribution, Sampler, check_kind

__all__ = ["Check", "Report", "check", "examine"]


def check(sampler: str | Sampler, *, distribution: Distribution | None = None, skip: Collection[str] = ()) -> Report:
    """`examine`, and raise an AssertionError with all failures: one line is a complete test."""
    report = examine(sampler, distribution=distribution, skip=skip)
    report.raise_if_failed()
    return report


def examine(sampler: str | Sampler, *, distribution: Distribution | None = None, skip: Collection[str] = ()) -> Report:
    """Check a sampler, or its name with options.

    `distribution`: expected distribution of the output (default: the claim of the sampler, `Sampler.distribution`).
    `skip`: names of CHECKS that the sampler fails for a known reason.
    """
    for name in skip:
        arguments.word("check", name, CHECKS)

    if isinstance(sampler, str):
        used, shown = SAMPLERS.make(sampler), sampler
    else:
        used, shown = sampler, type(sampler).__name__
    check_kind(type(used), shown)
    exam = Exam(used, f"sampler {shown}", distribution or used.distribution)

    results: list[Check] = []
    for name, function in CHECKS.items():
        if name in skip:
            results.append(Check(name, "skipped"))
        elif results and results[0].outcome == "failed":
            results.append(Check(name, "not run", "the contract is broken"))
        else:
            results.append(exam.take(name, function))
    return Report(exam.name, tuple(results))
