"""Results of the conformance kit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["passed", "warned", "failed", "refused", "skipped", "not run", "no claim"]


@dataclass(frozen=True)
class Check:
    """Result of one check; `why` names the error, the warning, or the refused task."""

    name: str
    outcome: Outcome
    why: str = ""


@dataclass(frozen=True)
class Report:
    sampler: str
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        return not self.failed

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.outcome == "failed")

    def __getitem__(self, name: str) -> Check:
        return next(check for check in self.checks if check.name == name)

    def raise_if_failed(self) -> None:
        if self.failed:
            raise AssertionError(str(self))

    def __str__(self) -> str:
        verdict = "conforms" if self.passed else f"does not conform: {', '.join(check.name for check in self.failed)}"
        lines = [f"  {check.name:<14}{check.outcome:<9}{check.why}".rstrip() for check in self.checks]
        return "\n".join([f"{self.sampler} {verdict}", *lines])
