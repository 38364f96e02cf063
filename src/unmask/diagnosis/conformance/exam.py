"""Runs of one sampler under watch, which separate refusals from failures."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from unmask.core.chance import Randomness
from unmask.core.errors import UnmaskError
from unmask.diagnosis.conformance.cases import Case, cases, patterns
from unmask.diagnosis.conformance.watch import Watched, WatchedSession
from unmask.samplers import Generation, Sampler, StopRule, fill, generate
from unmask.samplers.contract import Distribution
from unmask.samplers.schedules import deltas
from unmask.samplers.session import Breach

Result = TypeVar("Result")
Filled = list[tuple[str, WatchedSession]]  # with a description of each
ROWS = 24  # of a generation that is compared


class Failure(Exception):
    """A check has failed."""


@dataclass
class Exam:
    """One sampler, its claimed distribution, and the results of the current check."""

    sampler: Sampler
    name: str
    distribution: Distribution | None
    done: int = 0
    refused: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    results: dict[Hashable, tuple[Any, int, list[str]]] = field(default_factory=dict)

    def take(self, name: str, function: Callable[[Exam], None]) -> Check:
        self.done, self.refused, self.warnings = 0, [], []
        try:
            function(self)
        except Failure as wrong:
            return Check(name, "failed", str(wrong))
        if self.warnings:
            return Check(name, "warned", "; ".join(self.warnings))
        outcome: Outcome = "passed" if self.done else "refused" if self.refused else "no claim"
        count, every = len(self.refused), self.done + len(self.refused)
        return Check(name, outcome, f"refuses {count} of {every}, first {self.refused[0]}" if count else "")

    def try_(self, where: str, work: Callable[[], Any]) -> Any:
        """Result of `work`; None if the sampler refuses."""
        try:
            result = work()
        except Breach as breach:
            raise Failure(f"{where}: {breach}") from breach
        except UnmaskError as refusal:
            self.refused.append(f"{where}: {refusal}")
            return None
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            line = f"{Path(last.filename).name}, line {last.lineno}"
            raise Failure(f"{where}: {type(error).__name__} in {line}: {error}") from error
        self.done += 1
        return result

    def once(self, name: Hashable, work: Callable[[], Result]) -> Result:
        """Result of `work`, computed once for all checks; each check counts its runs and refusals."""
        if name in self.results:
            result, done, refused = self.results[name]
            self.done += done
            self.refused += refused
        else:
            before, first = self.done, len(self.refused)
            result = work()
            self.results[name] = result, self.done - before, self.refused[first:]
        return result

    def fill(
        self,
        case: Case,
        task: str,
        steps: int,
        given: Tensor,
        rng: Randomness | None = None,
        valid: Tensor | None = None,
        stop: StopRule | None = None,
    ) -> WatchedSession | None:
        """A session filled under watch."""
        watched = Watched(case.denoiser)
        rng = rng or Randomness(1, torch.arange(100, 100 + len(given)))
        delta = deltas("linear", steps)
        session = WatchedSession(watched, given.clone(), rng, delta, self.name, valid=valid, stop=stop)

        def work() -> WatchedSession:
            fill(self.sampler, session)
            return session

        return self.try_(f"{task} of {case.name}, {case.length} tokens in {steps} steps", work)

    def make(self, case: Case, task: str = "blank sequences", **options: Any) -> Generation | None:
        """`generate` on a case."""
        where = f"{task} of {case.name}, {case.length} tokens in {options['steps']} steps"
        generation: Generation | None = self.try_(
            where, lambda: generate(case.denoiser, sampler=self.sampler, length=case.length, **options)
        )
        return generation

    @property
    def blank(self) -> Filled:
        """Blank sequences of every case, in fewer, equally many and more steps than positions, unless refused."""
        return self.once("blank", self._blank)

    @property
    def prompted(self) -> Filled:
        """Every pattern of given tokens of every case, unless refused."""
        return self.once("prompted", self._prompted)

    def batch(self, case: Case, seed: int) -> Generation | None:
        """Rows of a case in four steps, by `generate`."""
        return self.once((case.name, seed), lambda: self.make(case, steps=4, rows=ROWS, seed=seed))

    def _blank(self) -> Filled:
        filled = []
        for case in cases(self.sampler.removes):
            for steps in sorted({1, 4, case.length, 3 * case.length}):
                blank = torch.full((6, case.length), case.denoiser.vocabulary)
                session = self.fill(case, "blank sequences", steps, blank)
                if session is not None:
                    filled.append((f"on {case.name} in {steps} steps", session))
        return filled

    def _prompted(self) -> Filled:
        filled = []
        for case in cases(self.sampler.removes):
            for task, given in patterns(case):
                session = self.fill(case, task, 3, given)
                if session is not None:
                    filled.append((f"{task} of {case.name}", session))
        return filled


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
