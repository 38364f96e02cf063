"""The queue of rows, and the thread that generates them: rows with the same settings form a batch.

A row depends on its query and number, not on the other rows of its batch. If a batch fails, its rows are retried one by
one. A cancelled row ends after the current step. A batch of cancelled rows ends before its next model call, since steps
of samplers with their own flow can be long.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import torch
from torch import Tensor

from unmask.core import progress
from unmask.core.errors import UnmaskError
from unmask.core.registry import imports
from unmask.denoisers import Cost
from unmask.generation import Generation
from unmask.hub.answering import Answer, answers, before_any
from unmask.hub.prompted import Query, speaker
from unmask.samplers.stopping import Progress, StopRule
from unmask.serve.forwards import Forwards
from unmask.serve.requests import MODES, STEPS_PER_TOKEN, Limits, Refused, Task

if TYPE_CHECKING:
    from unmask.hub import OpenModel

Decode = Callable[[list[int]], str]
IN_REQUEST = "is in a request. If you trust all clients, start the server with"
LONGEST_TRACE = 2**20  # bytes in an answer
HIDDEN = "\u25a2"  # a hidden token in the text of a canvas


class Reply(NamedTuple):
    """A complete answer with its cost, and its trace if it was requested and is short enough."""

    answer: Answer
    forwards: Forwards
    trace: Any = None


Event = str | dict[str, Any] | Reply | Refused  # more text, a change of the canvas, all, or the reason for its absence


@dataclass(eq=False)
class Row:
    """One requested answer. `send` is called in the generating thread."""

    task: Task
    index: int  # within the task
    send: Callable[[Row, Event], None]
    sent: str = ""
    cancelled: bool = False  # no client waits, and no event is sent
    cut: bool = False  # ended by a limit of model calls
    forwards: Forwards = field(default_factory=Forwards)
    _canvas: list[int] = field(default_factory=list)  # tokens that were sent, by `change`

    @property
    def query(self) -> Query:
        return self.task.queries[self.index]

    def show(self, text: str) -> None:
        """Send the new part of a text, up to the first position at which an end string may begin."""
        safe = settled(text, self.task.strings)
        if len(safe) > len(self.sent) and safe.startswith(self.sent):
            self.send(self, safe[len(self.sent) :])
            self.sent = safe

    def change(self, tokens: list[int], probability: list[float], vocabulary: int, decode: Decode) -> None:
        """Send the tokens of the answer, V where hidden, or those that have changed."""
        before = self._canvas + [vocabulary] * (len(tokens) - len(self._canvas))
        changed = [place for place, token in enumerate(tokens) if token != before[place]]
        self._canvas = tokens
        if not changed:
            return
        if self.task.mode == "edits":
            none = (None, None)
            edits = [(at, *(none if tokens[at] == vocabulary else (tokens[at], probability[at]))) for at in changed]
            self.send(self, {"edits": edits})
            return
        parts = groupby(tokens, lambda token: token == vocabulary)
        text = "".join(HIDDEN * len(list(part)) if hidden else decode(list(part)) for hidden, part in parts)
        state = {"offset": 0, "text": text, "forward": self.forwards.total, "masked": tokens.count(vocabulary)}
        self.send(self, {"canvas": state | {"final_prefix": len(self.sent)}})

    def end(self, event: Reply | Refused) -> None:
        """Send the last event."""
        if not self.cancelled:
            self.send(self, event)
        self.cancelled = True

    def finish(self, reply: Reply) -> None:
        if self.cancelled:
            return
        answer = reply.answer
        if self.task.streams and answer.text.startswith(self.sent) and answer.text != self.sent:
            self.send(self, answer.text[len(self.sent) :])
        if self.task.streams and not answer.text.startswith(self.sent):
            problem = f"sampler {self.task.options['sampler']!r} changed tokens that were sent, but has revises = False"
            self.end(Refused(f"{problem}. Set stream to false", 500))
        self.end(reply)


def settled(text: str, strings: Sequence[str]) -> str:
    """The part of a text before an end string, or before a possible beginning of one."""
    ended = before_any(text, strings)
    if ended != text:
        return ended
    for begin in range(max(len(text) - max(map(len, strings), default=1) + 1, 0), len(text)):
        if any(string.startswith(text[begin:]) for string in strings):
            return text[:begin]
    return text


@dataclass
class Watch:
    """A stop rule that also ends rows that are cancelled or at their limit, counts their forwards, and sends their text
    before the first hidden position."""

    rows: Sequence[Row]
    model: OpenModel
    meter: Meter
    rule: StopRule | None = None

    @property
    def fill(self) -> int:
        return 0 if self.rule is None else self.rule.fill

    def ended(self, progress: Progress) -> Tensor:
        many = len(progress.tokens)
        lengths = torch.full((many,), -1) if self.rule is None else self.rule.ended(progress)
        if many != len(self.rows):  # a retry of some of them
            return lengths
        for number, row in enumerate(self.rows):
            row.forwards.see(progress, number, self.meter.calls)
            begin = int(progress.generated[number].int().argmax())
            known = int((progress.hidden[number].int().cumsum(0) == 0).sum())
            limit = begin + row.task.length
            if row.cancelled:
                lengths[number] = 0
            elif lengths[number] < 0 and known < limit and row.forwards.total >= (row.task.most or math.inf):
                lengths[number], row.cut = known, True
            if row.cancelled or not row.task.streams:
                continue
            ended = int(lengths[number]) if lengths[number] >= 0 else limit
            if not row.task.revises:
                row.show(speaker(self.model).begun(progress.tokens[number, begin : min(known, ended)].tolist()))
            if row.task.mode != MODES[0]:
                place = number, slice(begin, ended)
                tokens, probability = progress.tokens[place].tolist(), progress.probability[place].tolist()
                row.change(tokens, probability, self.model.vocabulary, speaker(self.model).written)
        return lengths


class Cancelled(Exception):
    """All rows of a batch are cancelled."""


@dataclass
class Meter:
    """Check the limits of a batch before each model call."""

    rows: Sequence[Row]
    limits: Limits
    calls: int = 0
    began: float = field(default_factory=time.monotonic)

    def __call__(self) -> None:
        self.calls += 1
        if all(row.cancelled for row in self.rows):
            raise Cancelled
        most, seconds = STEPS_PER_TOKEN * self.limits.tokens, self.limits.seconds
        if self.calls > most * len(self.rows):
            raise Refused(f"an answer needs more than {most} model calls, the limit. Request fewer tokens", 413)
        if time.monotonic() - self.began > seconds:
            raise Refused(f"an answer takes longer than {seconds:g} s, the limit. Request fewer tokens", 413)


@dataclass
class Batches:
    """The queue and its thread."""

    model: OpenModel
    limits: Limits
    allowed: Sequence[str] = ()  # modules from which samplers may be imported
    batches: int = 0  # that were generated
    answered: int = 0  # rows
    written: int = 0  # tokens of these rows
    spent: Cost = field(default_factory=Cost)
    _rows: deque[Row] = field(default_factory=deque)
    _news: threading.Condition = field(default_factory=threading.Condition)
    _thread: threading.Thread | None = None
    _closed: bool = False
    _running: Sequence[Row] = ()

    def start(self) -> None:
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="unmask serve", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End all rows; the batch in progress ends after its step."""
        with self._news:
            self._closed = True
            left, self._rows = [*self._rows, *self._running], deque()
            for row in left:
                row.end(Refused("the server is being stopped. Try again later", 503))
            self._news.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=10)

    def put(self, rows: Sequence[Row]) -> None:
        """Queue all rows, or raise Refused."""
        with self._news:
            if self._closed:
                raise Refused("the server is being stopped. Try again later", 503)
            if len(self._rows) + len(rows) > self.limits.waiting:
                problem = f"the queue has {len(self._rows)} of at most {self.limits.waiting} answers"
                raise Refused(f"{problem}. Try again later", 429, "queue_full")
            self._rows.extend(rows)
            self._news.notify_all()

    def __len__(self) -> int:
        """Number of queued rows."""
        return len(self._rows)

    def drop(self, rows: Sequence[Row]) -> None:
        """Cancel rows."""
        with self._news:
            for row in rows:
                row.cancelled = True
            self._rows = deque(row for row in self._rows if not row.cancelled)

    def _next(self) -> list[Row]:
        """Wait for a row, and return it with queued rows of the same settings; an empty list after `close`."""
        with self._news:
            self._news.wait_for(lambda: self._rows or self._closed)
            if self._closed:
                return []
            key = self._rows[0].task.key
            batch = [row for row in self._rows if row.task.key == key][: self.limits.batch]
            self._rows = deque(row for row in self._rows if row not in batch)
            self._running = batch
            return batch

    def _work(self) -> None:
        with progress.silent(), imports(tuple(self.allowed), IN_REQUEST):
            while rows := self._next():
                self._generate(rows)
                self._running = ()

    def _generate(self, rows: Sequence[Row]) -> None:
        first = rows[0].task
        meter = Meter(rows, self.limits)
        for row in rows:
            row.forwards = Forwards()
        models = [model for model in (self.model, self.model.reader) if model is not None]
        for model in models:
            model.before = meter
        try:
            replies, result = answers(
                self.model,
                [row.query for row in rows],
                first.length,
                until=first.until,
                watch=lambda rule: Watch(rows, self.model, meter, rule),
                trace=any(row.task.trace for row in rows),
                first_row=[row.task.numbers[row.index] for row in rows],
                **first.options,
            )
        except Cancelled:
            return
        except Exception as error:  # an error in one request must not stop the server
            if len(rows) > 1 and not isinstance(error, Refused):
                for row in rows:
                    self._generate([row])
                return
            with self._news:
                for row in rows:
                    row.end(refusal(error))
            return
        finally:
            for model in models:
                model.before = None
        with self._news:
            self.batches += 1
            self.answered += len(rows)
            self.written += sum(len(answer.tokens) for answer in replies)
            self.spent = self.spent + result.spent
            for number, (row, answer) in enumerate(zip(rows, replies, strict=True)):
                row.forwards.idle = meter.calls - row.forwards.passes
                answer = answer._replace(reason="length") if row.cut else answer
                row.finish(Reply(answer, row.forwards, traced(result, number, row.task.trace, self.model)))


def traced(result: Generation, row: int, kind: str | None, model: OpenModel) -> Any:
    """The trace of a row: the numbers of its order, its steps, or all of it; None if it is too long."""
    if kind is None:
        return None
    decode = speaker(model).written
    trace = result.trace([row], lambda token: decode([token]))
    content: Any
    if kind == "summary":
        content = trace.order_profile().to_dict()
    elif kind == "steps":
        begin = int((result.order[row] > 0).int().argmax())
        content = [(step, position - begin, token) for step, position, token, _ in trace.rows[0].events]
    else:
        content = msgspec.to_builtins(trace)
    return content if len(json.dumps(content)) <= LONGEST_TRACE else None


def refusal(error: Exception) -> Refused:
    """The response to an error."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, UnmaskError):
        return Refused(str(error))
    return Refused(f"this is a defect of unmask: {type(error).__name__}: {error}", 500)
