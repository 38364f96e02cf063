"""Rows that wait, and the one thread that generates them: those of the same settings together, each by its own luck.

A row depends on what was asked and on its number, not on its company; where a batch fails each of its rows is tried
alone. A row that no client waits for ends after the round that is under way, and a batch of such rows before its next
model call: samplers that own their flow have rounds of any length.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from unmask.core import progress
from unmask.core.errors import UnmaskError
from unmask.core.registry import imports
from unmask.hub.answering import Answered, answers, before_any
from unmask.hub.prompted import Asked, speaker
from unmask.samplers.stopping import Progress, StopRule
from unmask.serve.asked import ROUNDS, Limits, Refused, Task

if TYPE_CHECKING:
    from unmask.hub import OpenModel

IN_REQUEST = "stands in a request, which may be anybody's; where you trust all who ask, serve with"
Event = str | Answered | Refused  # more of a text; the whole, at the end; or why there is none


@dataclass(eq=False)
class Row:
    """An answer that somebody waits for. tell is called in the generating thread."""

    task: Task
    place: int  # of the task's
    tell: Callable[[Row, Event], None]
    sent: str = ""
    gone: bool = False  # nobody waits any more: it is told nothing

    @property
    def asked(self) -> Asked:
        return self.task.asked[self.place]

    def show(self, text: str) -> None:
        """More of what begins with what has been sent; what may be the begin of an ending waits."""
        safe = settled(text, self.task.strings)
        if len(safe) > len(self.sent) and safe.startswith(self.sent):
            self.tell(self, safe[len(self.sent) :])
            self.sent = safe

    def end(self, event: Answered | Refused) -> None:
        """The last that is told; nothing where nobody waits."""
        if not self.gone:
            self.tell(self, event)
        self.gone = True

    def finish(self, answer: Answered) -> None:
        if self.gone:
            return
        if self.task.streams and answer.text.startswith(self.sent) and answer.text != self.sent:
            self.tell(self, answer.text[len(self.sent) :])
        if self.task.streams and not answer.text.startswith(self.sent):
            what = (
                f"sampler {self.task.options['sampler']!r} has taken back what was sent, and does not say that it may"
            )
            self.end(Refused(f"{what}; ask without stream", 500))
        self.end(answer)


def settled(text: str, strings: Sequence[str]) -> str:
    """What of a text is certain, whatever follows: not what stands behind an ending, nor what may begin one."""
    whole = before_any(text, strings)
    if whole != text:
        return whole
    for begin in range(max(len(text) - max(map(len, strings), default=1) + 1, 0), len(text)):
        if any(string.startswith(text[begin:]) for string in strings):
            return text[:begin]
    return text


@dataclass
class Watch:
    """The rule that ends rows, which also ends those that nobody waits for, and shows what stands before the first
    place that is hidden."""

    rows: Sequence[Row]
    model: OpenModel
    rule: StopRule | None = None

    @property
    def fill(self) -> int:
        return 0 if self.rule is None else self.rule.fill

    def ended(self, progress: Progress) -> Tensor:
        many = len(progress.tokens)
        lengths = torch.full((many,), -1) if self.rule is None else self.rule.ended(progress)
        if many != len(self.rows):  # another attempt at some of them
            return lengths
        for number, row in enumerate(self.rows):
            if row.gone:
                lengths[number] = 0
            elif row.task.streams and not row.task.revises:
                made = progress.made[number]
                begin = int(made.int().argmax())
                known = int((progress.hidden[number].int().cumsum(0) == 0).sum())
                end = min(known, int(lengths[number])) if lengths[number] >= 0 else known
                row.show(speaker(self.model).begun(progress.tokens[number, begin:end].tolist()))
        return lengths


class Gone(Exception):
    """No client waits for any row of a batch."""


@dataclass
class Meter:
    """What a batch may cost, asked before each model call."""

    rows: Sequence[Row]
    limits: Limits
    calls: int = 0
    began: float = field(default_factory=time.monotonic)

    def __call__(self) -> None:
        self.calls += 1
        if all(row.gone for row in self.rows):
            raise Gone
        most, seconds = ROUNDS * self.limits.tokens, self.limits.seconds
        if self.calls > most * len(self.rows):
            raise Refused(f"an answer has needed {most} model calls, the most allowed; ask for less", 413)
        if time.monotonic() - self.began > seconds:
            raise Refused(f"an answer has taken {seconds:g} s, the longest allowed; ask for less", 413)


@dataclass
class Batches:
    """The queue and its thread."""

    model: OpenModel
    limits: Limits
    allowed: Sequence[str] = ()  # modules of which samplers may be imported
    made: int = 0  # batches
    _rows: deque[Row] = field(default_factory=deque)
    _news: threading.Condition = field(default_factory=threading.Condition)
    _thread: threading.Thread | None = None
    _closed: bool = False
    _under_way: Sequence[Row] = ()

    def start(self) -> None:
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="unmask serve", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Whoever waits is told; what is under way ends after its round."""
        with self._news:
            self._closed = True
            left, self._rows = [*self._rows, *self._under_way], deque()
            for row in left:
                row.end(Refused("the server is being stopped; ask again later", 503))
            self._news.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=10)

    def put(self, rows: Sequence[Row]) -> None:
        """All of them, or Refused."""
        with self._news:
            if self._closed:
                raise Refused("the server is being stopped; ask again later", 503)
            if len(self._rows) + len(rows) > self.limits.waiting:
                what = f"{len(self._rows)} answers wait already, of {self.limits.waiting} that may"
                raise Refused(f"{what}; ask again later", 429, "queue_full")
            self._rows.extend(rows)
            self._news.notify_all()

    def __len__(self) -> int:
        """Rows that wait."""
        return len(self._rows)

    def drop(self, rows: Sequence[Row]) -> None:
        """Nobody waits for these any more."""
        with self._news:
            for row in rows:
                row.gone = True
            self._rows = deque(row for row in self._rows if not row.gone)

    def _next(self) -> list[Row]:
        """The first that waits, and others of its settings; none when all is over."""
        with self._news:
            self._news.wait_for(lambda: self._rows or self._closed)
            if self._closed:
                return []
            key = self._rows[0].task.key
            taken = [row for row in self._rows if row.task.key == key][: self.limits.batch]
            self._rows = deque(row for row in self._rows if row not in taken)
            self._under_way = taken
            return taken

    def _work(self) -> None:
        with progress.silent(), imports(tuple(self.allowed), IN_REQUEST):
            while rows := self._next():
                self._make(rows)
                self._under_way = ()

    def _make(self, rows: Sequence[Row]) -> None:
        first = rows[0].task
        meter = Meter(rows, self.limits)
        models = [model for model in (self.model, self.model.reader) if model is not None]
        for model in models:
            model.before = meter
        try:
            found, _ = answers(
                self.model,
                [row.asked for row in rows],
                first.length,
                until=first.until,
                watch=lambda rule: Watch(rows, self.model, rule),
                first_row=[row.task.numbers[row.place] for row in rows],
                **first.options,
            )
        except Gone:
            return
        except Exception as error:  # nothing that one asks ends the server for others
            if len(rows) > 1 and not isinstance(error, Refused):
                for row in rows:
                    self._make([row])
                return
            with self._news:
                for row in rows:
                    row.end(refusal(error))
            return
        finally:
            for model in models:
                model.before = None
        with self._news:
            self.made += 1
            for row, answer in zip(rows, found, strict=True):
                row.finish(answer)


def refusal(error: Exception) -> Refused:
    """What is told of an error."""
    if isinstance(error, Refused):
        return error
    known = isinstance(error, UnmaskError)
    return Refused(
        str(error) if known else f"this is a defect of unmask: {type(error).__name__}: {error}", 400 if known else 500
    )
