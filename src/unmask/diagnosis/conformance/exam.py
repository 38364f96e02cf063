"""Runs of one sampler under watch, which separate refusals from failures.

A watched session detects uncounted model calls, and uniform random numbers that are used twice.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from unmask.core.chance import Randomness, Stream
from unmask.core.entries import column
from unmask.core.errors import UnmaskError
from unmask.denoisers import Canvas, Causal, Denoiser, Engine, Marginals
from unmask.denoisers.reshaped import Around
from unmask.diagnosis.conformance.cases import Case, cases, patterns
from unmask.samplers import Generation, Sampler, StopRule, fill, generate
from unmask.samplers.contract import Distribution
from unmask.samplers.schedules import deltas
from unmask.samplers.session import Breach, Session

Result = TypeVar("Result")
Filled = list[tuple[str, "WatchedSession"]]  # with a description of each
Runs = Iterator[tuple[str, "WatchedSession | None"]]  # the same, None where the sampler refuses
ROWS = 24  # of a generation that is compared
Outcome = Literal["passed", "failed", "refused", "skipped", "not run", "no claim"]


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
    results: dict[Hashable, tuple[Any, int, list[str]]] = field(default_factory=dict)

    def take(self, name: str, function: Callable[[Exam], None]) -> Check:
        self.done, self.refused = 0, []
        try:
            function(self)
        except Failure as wrong:
            return Check(name, "failed", str(wrong))

        count = len(self.refused)
        if count:
            why = f"refuses {count} of {self.done + count}, first {self.refused[0]}"
            return Check(name, "passed" if self.done else "refused", why)
        return Check(name, "passed" if self.done else "no claim")

    def try_(self, where: str, work: Callable[[], Result]) -> Result | None:
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
        session = WatchedSession(
            Watched(case.denoiser),
            given.clone(),
            rng or Randomness(1, torch.arange(100, 100 + len(given))),
            deltas("linear", steps),
            self.name,
            valid=valid,
            stop=stop,
        )

        def work() -> WatchedSession:
            fill(self.sampler, session)
            return session

        return self.try_(f"{task} of {case.name}, {case.length} tokens in {steps} steps", work)

    def make(self, case: Case, task: str = "blank sequences", **options: Any) -> Generation | None:
        """`generate` on a case."""
        where = f"{task} of {case.name}, {case.length} tokens in {options['steps']} steps"
        return self.try_(where, lambda: generate(case.denoiser, sampler=self.sampler, length=case.length, **options))

    @property
    def blank(self) -> Filled:
        """Blank sequences of every case, in fewer, equally many and more steps than positions, unless refused."""

        def runs() -> Runs:
            for case in cases(self.sampler.removes):
                blank = torch.full((6, case.length), case.denoiser.vocabulary)
                for steps in sorted({1, 4, case.length, 3 * case.length}):
                    yield f"on {case.name} in {steps} steps", self.fill(case, "blank sequences", steps, blank)

        return self.once("blank", lambda: _filled(runs()))

    @property
    def prompted(self) -> Filled:
        """Every pattern of given tokens of every case, unless refused."""

        def runs() -> Runs:
            for case in cases(self.sampler.removes):
                for task, given in patterns(case):
                    yield f"{task} of {case.name}", self.fill(case, task, 3, given)

        return self.once("prompted", lambda: _filled(runs()))

    def batch(self, case: Case, seed: int) -> Generation | None:
        """Rows of a case in four steps, by `generate`."""
        return self.once((case.name, seed), lambda: self.make(case, steps=4, rows=ROWS, seed=seed))


def _filled(runs: Runs) -> Filled:
    return [(where, session) for where, session in runs if session is not None]


@dataclass(frozen=True)
class Check:
    """Result of one check; `why` names the error, or the refused task."""

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
        verdict = "conforms" if self.passed else f"does not conform: {', '.join(column(self.failed, 'name'))}"
        lines = [f"  {check.name:<14}{check.outcome:<9}{check.why}".rstrip() for check in self.checks]
        return "\n".join([f"{self.sampler} {verdict}", *lines])


class Watched(Around):
    """A denoiser that records calls that bypass the canvas and the causal reader of the session."""

    def __init__(self, inner: Denoiser) -> None:
        super().__init__(inner)
        self.ideal = inner.ideal
        self.uncounted: list[str] = []
        self._counting = 0

    @property
    def name(self) -> str:
        return self.inner.name

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Context for calls that are counted elsewhere."""
        self._counting += 1
        try:
            yield
        finally:
            self._counting -= 1

    def engine(self, tokens: Tensor, given: Tensor | None = None, valid: Tensor | None = None) -> Engine:
        self._note("engine")
        return self.inner.engine(tokens, given, valid)

    def causal(self, rows: int, length: int, valid: Tensor | None = None) -> Causal:
        self._note("causal")
        return self.inner.causal(rows, length, valid)

    def posterior(
        self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None
    ) -> Tensor | Marginals:
        self._note("posterior")
        return self.inner.posterior(tokens, positions, time)

    def _note(self, name: str) -> None:
        if not self._counting:
            self.uncounted.append(name)


class WatchedCanvas(Canvas):
    """A canvas whose calls are marked as counted."""

    denoiser: Watched

    def __init__(self, denoiser: Watched, *arguments: Any, **options: Any) -> None:
        with denoiser.counting():
            super().__init__(denoiser, *arguments, **options)

    def ask(self, tokens: Tensor, rows: Tensor, *positions: Any, **options: Any) -> Marginals:
        with self.denoiser.counting():
            return super().ask(tokens, rows, *positions, **options)


class WatchedSession(Session):
    """A session with a watched denoiser and watched random numbers."""

    canvas_kind = WatchedCanvas
    denoiser: Watched

    def __init__(self, denoiser: Watched, given: Tensor, rng: Randomness, *arguments: Any, **options: Any) -> None:
        self.noted = NotedRandomness(rng.seed, rng.row_ids)
        super().__init__(denoiser, given, self.noted, *arguments, **options)

    @property
    def model_calls(self) -> Tensor:  # (B), as of a Generation; so is the next
        return self.account().model_calls

    @property
    def impossible(self) -> Tensor:
        return self.account().impossible

    @cached_property
    def causal(self) -> Causal:
        with self.denoiser.counting():
            reader = super().causal
        vars(reader)["extend"] = self.patient(reader.extend)
        return reader

    def patient(self, extend: Callable[..., Tensor | Marginals]) -> Callable[..., Tensor | Marginals]:
        """The reading of tokens, with a limit of the number of calls."""
        calls = count(1)

        def read(*arguments: Any) -> Tensor | Marginals:
            if (number := next(calls)) > self.patience:
                raise Breach(f"{self.name} has read {number} times and is not done; it seems to loop for ever")
            return extend(*arguments)

        return read


@dataclass(frozen=True)
class NotedRandomness(Randomness):
    """Randomness that records (row, position, visit) of every uniform used to draw a token."""

    drawn: list[Tensor] = field(default_factory=list)

    def uniform(self, stream: Stream, rows: Tensor, positions: Tensor, visits: Tensor | int = 0) -> Tensor:
        if stream == Stream.TOKEN:
            places = torch.broadcast_tensors(rows, positions, torch.as_tensor(visits))
            self.drawn.append(torch.stack([part.reshape(-1) for part in places], 1))
        return super().uniform(stream, rows, positions, visits)

    def twice(self) -> tuple[int, int] | None:
        """(row, position) of a token with the same uniform as an earlier one."""
        if not self.drawn:
            return None
        draws, counts = torch.cat(self.drawn).unique(dim=0, return_counts=True)
        again = draws[counts > 1]
        return (int(self.row_ids[again[0, 0]]), int(again[0, 1])) if len(again) else None
