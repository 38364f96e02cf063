"""One sampler under examination: it is run under watch, and what it refuses is told apart from what it gets wrong."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from unmask.core.chance import Luck
from unmask.core.errors import UnmaskError
from unmask.diagnosis.conformance.cases import Case, cases, patterns
from unmask.diagnosis.conformance.report import Check, Outcome
from unmask.diagnosis.conformance.watch import Watched, WatchedSession
from unmask.generation import Generation, generate
from unmask.samplers import Sampler, StopRule, fill
from unmask.samplers.contract import Law
from unmask.samplers.session import Breach
from unmask.schedules import deltas

Made = TypeVar("Made")
Filled = list[tuple[str, WatchedSession]]  # and what each was filled for
ROWS = 24  # of a comparison


class Wrong(Exception):
    """A check has failed."""


@dataclass
class Exam:
    """One sampler, what it claims, and what it has refused so far in this check."""

    sampler: Sampler
    name: str
    law: Law | None
    done: int = 0
    refused: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    kept: dict[Hashable, tuple[Any, int, list[str]]] = field(default_factory=dict)

    def take(self, name: str, look: Callable[[Exam], None]) -> Check:
        self.done, self.refused, self.warnings = 0, [], []
        try:
            look(self)
        except Wrong as wrong:
            return Check(name, "failed", str(wrong))
        if self.warnings:
            return Check(name, "warned", "; ".join(self.warnings))
        outcome: Outcome = "passed" if self.done else "refused" if self.refused else "no claim"
        count, every = len(self.refused), self.done + len(self.refused)
        return Check(name, outcome, f"refuses {count} of {every}, first {self.refused[0]}" if count else "")

    def try_(self, where: str, work: Callable[[], Any]) -> Any:
        """What work returns; None where the sampler refuses."""
        try:
            made = work()
        except Breach as breach:
            raise Wrong(f"{where}: {breach}") from breach
        except UnmaskError as refusal:
            self.refused.append(f"{where}: {refusal}")
            return None
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(last.filename).name}, line {last.lineno}"
            raise Wrong(f"{where}: {type(error).__name__} in {place}: {error}") from error
        self.done += 1
        return made

    def once(self, name: Hashable, work: Callable[[], Made]) -> Made:
        """What work returns, by this name, made once for all checks; each counts what was done and refused for it."""
        if name in self.kept:
            made, done, refused = self.kept[name]
            self.done += done
            self.refused += refused
        else:
            before, first = self.done, len(self.refused)
            made = work()
            self.kept[name] = made, self.done - before, self.refused[first:]
        return made

    def fill(
        self,
        case: Case,
        what: str,
        steps: int,
        given: Tensor,
        luck: Luck | None = None,
        valid: Tensor | None = None,
        stop: StopRule | None = None,
    ) -> WatchedSession | None:
        """A session that was filled under watch."""
        watched = Watched(case.denoiser)
        luck = luck or Luck(1, torch.arange(100, 100 + len(given)))
        delta = deltas("linear", steps)
        session = WatchedSession(watched, given.clone(), luck, delta, self.name, valid=valid, stop=stop)

        def work() -> WatchedSession:
            fill(self.sampler, session)
            return session

        return self.try_(f"{what} of {case.name}, {case.length} tokens in {steps} rounds", work)

    def make(self, case: Case, what: str = "a blank canvas", **options: Any) -> Generation | None:
        """`generate` on a case."""
        where = f"{what} of {case.name}, {case.length} tokens in {options['steps']} rounds"
        made: Generation | None = self.try_(
            where, lambda: generate(case.denoiser, sampler=self.sampler, length=case.length, **options)
        )
        return made

    @property
    def blank(self) -> Filled:
        """Blank canvases of every case that is not refused, by fewer, as many and more rounds than positions."""
        return self.once("blank", self._blank)

    @property
    def prompted(self) -> Filled:
        """What is given every pattern of every case, where it is not refused."""
        return self.once("prompted", self._prompted)

    def batch(self, case: Case, seed: int) -> Generation | None:
        """Rows of a case in four rounds, by `generate`."""
        return self.once((case.name, seed), lambda: self.make(case, steps=4, rows=ROWS, seed=seed))

    def _blank(self) -> Filled:
        filled = []
        for case in cases():
            for steps in sorted({1, 4, case.length, 3 * case.length}):
                blank = torch.full((6, case.length), case.denoiser.vocabulary)
                session = self.fill(case, "a blank canvas", steps, blank)
                if session is not None:
                    filled.append((f"on {case.name} in {steps} rounds", session))
        return filled

    def _prompted(self) -> Filled:
        filled = []
        for case in cases():
            for what, given in patterns(case):
                session = self.fill(case, what, 3, given)
                if session is not None:
                    filled.append((f"{what} of {case.name}", session))
        return filled
