"""The client: sends requests with retries, and ends each with exactly one outcome.

    ok             a text that the server ended itself
    truncated      a text that ended with its budget of tokens
    empty          an answer without text
    refused        the server refuses the request (4xx), or redirects it
    timeout        a limit of time was reached
    transport      the connection failed, or broke in the answer
    server_error   the server failed (5xx, 408, 409, 425, 429), also within a stream
    malformed      the answer is not in the dialect: no JSON, no end, too large

A request is repeated only if that is safe: before the first byte of its answer, or after a status that asks for it. The
waiting time is uniform in [0, min(60, 0.5 * 2^n)] s (full jitter), or the server's Retry-After.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from unmask.core.errors import UnmaskError, cut, plain
from unmask.endpoint import wire
from unmask.endpoint.dialects import APPEND, CANVAS, Dialect, dig
from unmask.endpoint.wire import Event, Exchange, Failed, Head, Limits, Link

OUTCOMES = ("ok", "truncated", "empty", "refused", "timeout", "transport", "server_error", "malformed")
AGAIN = (408, 409, 425, 429, 500, 502, 503, 504)
ATTEMPTS, SLOWEST, FIRST = 5, 60.0, 0.5  # and seconds of the longest and of the first waiting time
MOST_TOKENS = 2**31


class Query(NamedTuple):
    """One request: a prompt or a conversation, and the fields to send, no others."""

    item: str
    prompt: str = ""
    messages: Sequence[Mapping[str, str]] = ()
    fields: Mapping[str, Any] = {}
    number: int = 0  # among equal requests


class Chunk(NamedTuple):
    at: float  # seconds since the request was sent
    bytes: int
    characters: int
    kind: str


class Answer(msgspec.Struct, kw_only=True, omit_defaults=True):
    key: str  # a digest of the request, without the key of its user
    item: str
    number: int = 0
    outcome: str
    text: str = ""
    reasoning: str = ""
    finish: str = ""
    status: int | None = None
    error: str = ""  # one line
    param: str = ""  # the field that the server names in its refusal
    prompt_tokens: int | None = None
    tokens: int | None = None
    reasoning_tokens: int | None = None
    forwards: int | None = None
    details: dict[str, Any] = {}  # of the forward passes, as the server reports them
    probabilities: dict[str, float] = {}  # of the first token, as the server reports them
    attempts: int = 1
    seconds: float = 0.0  # from the last sending to the end
    first_byte: float | None = None
    first_text: float | None = None  # the first text that does not change later
    chunks: list[Chunk] = []
    drafts: list[str] = []
    edits: list[list[int]] = []  # positions that each chunk of edits changes

    @property
    def answered(self) -> bool:
        return self.outcome in ("ok", "truncated")


class Client:
    """Asks one server in one dialect."""

    def __init__(
        self,
        link: Exchange,
        dialect: Dialect,
        model: str | None = None,
        limits: Limits = Limits(),
        rng: random.Random | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.link, self.dialect, self.model, self.limits = link, dialect, model, limits
        self.rng, self.sleep = rng or random.Random(), sleep
        self.key = link.key if isinstance(link, Link) else None
        self.sent = 0
        self._counting = threading.Lock()

    def request(self, query: Query) -> tuple[str, dict[str, Any]]:
        """(digest, JSON) of a request."""
        body = self.dialect.body(query.prompt, query.messages, self.model, query.fields)
        named = msgspec.json.encode([self.dialect.path, query.item, query.number, body], order="deterministic")
        return hashlib.sha256(named).hexdigest()[:32], body

    def ask(self, query: Query) -> Answer:
        """Send one request and return its answer; no connection stays open."""
        try:
            return self._ask(query)
        finally:
            self._close()

    def _close(self) -> None:
        if isinstance(self.link, Link):
            self.link.close()

    def _ask(self, query: Query) -> Answer:
        """Send one request, again if that is safe, and return its answer."""
        key, body = self.request(query)
        content = msgspec.json.encode(body)
        base = {"key": key, "item": query.item, "number": query.number}
        for attempt in range(1, ATTEMPTS + 1):
            answer, again, after = self._attempt(content, body, base)
            answer.attempts = attempt
            if not again or attempt == ATTEMPTS:
                break
            wait = self.rng.uniform(0, min(SLOWEST, FIRST * 2**attempt)) if after is None else min(after, SLOWEST)
            self.sleep(wait)
        return answer

    def ask_all(
        self,
        queries: Iterable[Query],
        concurrency: int = 1,
        record: Callable[[Answer], object] | None = None,
        stop: threading.Event | None = None,
    ) -> list[Answer]:
        """Send requests by a fixed number of threads. record: receives each answer; without it, they are returned.

        An interruption, or `stop`, sends no further request; the answers under way still arrive.
        """
        answers: dict[int, Answer] = {}
        waiting, lock, stop = enumerate(queries), threading.Lock(), stop or threading.Event()
        errors: list[BaseException] = []

        def work(ended: threading.Event) -> None:
            try:
                while not stop.is_set():
                    with lock:
                        number, query = next(waiting, (0, None))
                    if query is None:
                        return
                    answer = self._ask(query)
                    with lock:
                        if record is None:
                            answers[number] = answer
                        else:
                            record(answer)
            except BaseException as error:  # raised again below
                errors.append(error)
                stop.set()
            finally:
                self._close()
                ended.set()

        ends = [threading.Event() for _ in range(concurrency)]  # an interrupted join forgets that its thread runs
        threads = [threading.Thread(target=work, args=(ended,), name="endpoint", daemon=True) for ended in ends]
        try:
            for thread in threads:
                thread.start()
            for ended in ends:
                ended.wait()
        except KeyboardInterrupt:
            stop.set()  # which a thread without an identifier sees before it sends anything
            for thread, ended in zip(threads, ends, strict=True):
                if thread.ident is not None:
                    ended.wait()
            raise
        if errors:
            raise errors[0]
        return [answers[number] for number in sorted(answers)]

    def _attempt(
        self, content: bytes, body: Mapping[str, Any], base: Mapping[str, Any]
    ) -> tuple[Answer, bool, float | None]:
        """(answer, whether it may be repeated, seconds that the server asks to wait)"""
        headers = {"Content-Type": "application/json", "X-Request-Id": str(base["key"])}
        with self._counting:
            self.sent += 1
        reading = _Reading(self.dialect, body, base)
        answer, again, after = reading.answer, False, None
        try:
            with self.link("POST", self.dialect.path, content, headers) as head:
                answer.status, answer.first_byte = head.status, reading.passed()
                if head.status == 200:
                    reading.read(head, self.limits.most)
                    answer.outcome = reading.outcome()
                else:
                    answer.outcome, answer.error, answer.param = refusal(head)
                    again, after = head.status in AGAIN, _after(head.headers.get("retry-after"))
        except Failed as failed:
            answer.outcome, answer.error, answer.param, again = failed.outcome, str(failed), "", failed.early
        answer.seconds, answer.param = reading.passed(), cut(answer.param)
        answer.error = self._hidden(cut(answer.error))
        answer.text, answer.reasoning = self._hidden(answer.text), self._hidden(answer.reasoning)
        answer.drafts = list(map(self._hidden, answer.drafts))
        return answer, again, after

    def _hidden(self, text: str) -> str:
        """The text without the key, which some servers repeat."""
        return text.replace(self.key, "***") if self.key else text


class _Reading:
    """Reads an answer or a stream in a dialect into `answer`."""

    def __init__(self, dialect: Dialect, body: Mapping[str, Any], base: Mapping[str, Any]) -> None:
        self.dialect, self.body, self.sent, self.ended = dialect, body, time.monotonic(), False
        self.answer = Answer(**base, outcome="malformed")

    def passed(self) -> float:
        return time.monotonic() - self.sent

    def read(self, head: Head, most: int) -> None:
        if "event-stream" in head.headers.get("content-type", ""):
            pieces: list[str] = []
            for event in wire.events(head, most):
                if self._ends(event, pieces):
                    break
            while head.read():  # the end of the body, so that the connection can be used again
                pass
            self.answer.text = "".join(pieces)
            if not self.ended:
                raise Failed("malformed", "the stream stopped without its end: neither a finish reason nor [DONE]")
            if self.answer.first_text is None and self.answer.text:
                self.answer.first_text = self.passed()
            return
        content = read_json(wire.whole(head, most), "the answer")
        if (error := dig(content, ("error",))) is not None:
            raise Failed("server_error", f"status 200 with an error: {_message(error)}")
        text = dig(content, self.dialect.text)
        reasoning = dig(content, self.dialect.reasoning)
        if text is None and reasoning is None and dig(content, self.dialect.finish) is None:
            raise Failed("malformed", f"the answer has no {self.dialect.text[0]}; is it in another dialect?")
        self.answer.text, self.answer.reasoning = _text(text), _text(reasoning)
        self.answer.first_text = self.passed() if self.answer.text else None
        self._account(content)

    def outcome(self) -> str:
        if not self.answer.text.strip():
            return "empty"
        return "truncated" if self.answer.finish in ("length", "max_tokens") else "ok"

    def _ends(self, event: Event, pieces: list[str]) -> bool:
        """Read one event; True after the last one."""
        if event.data == "[DONE]":
            self.ended = True
            return True
        content = read_json(event.data.encode(), "an event")
        kind = self.dialect.kind(event.name, content, self.body)
        if event.name == "error" or content.get("error") is not None or content.get("type") == "error":
            message = _message(content.get("error") or content)
            raise Failed("server_error", f"an error within a stream of status 200: {message}")
        text = _text(dig(content, self.dialect.chunk))
        if text and kind == CANVAS:  # with kinds of events, it is the draft of the text after the finished one
            self.answer.drafts.append("".join([*pieces, text]) if self.dialect.kinds else text)
        if isinstance(edits := dig(content, ("choices.0.edits", "edits")), list):
            self.answer.edits.append([at for at in (dig(edit, ("0",)) for edit in edits) if type(at) is int])
        if kind == APPEND:
            pieces.append(text)
        elif text and (kind != CANVAS or not self.dialect.kinds):
            pieces[:] = [text]
        if text and kind != CANVAS and self.answer.first_text is None:
            self.answer.first_text = event.at - self.sent
        self.answer.chunks.append(Chunk(event.at - self.sent, len(event.data), len(text), kind))
        self.answer.reasoning += _text(dig(content, self.dialect.reasoning))
        self._account(content)
        return False

    def _account(self, content: Mapping[str, Any]) -> None:
        """Tokens, forward passes and the finish reason, as far as they are reported."""
        if finish := dig(content, self.dialect.finish):
            self.answer.finish, self.ended = cut(str(finish)), True
        for name in ("prompt_tokens", "tokens", "reasoning_tokens", "forwards"):
            value = dig(content, getattr(self.dialect, name))
            if isinstance(value, list):
                value = sum(one for one in value if type(one) is int) if name == "forwards" else len(value)
            if type(value) is int and 0 <= value < MOST_TOKENS:
                setattr(self.answer, name, value)
        details = dig(content, ("usage.forwards_details",))
        self.answer.details = details if isinstance(details, dict) else self.answer.details
        top = dig(content, ("choices.0.logprobs.content.0.top_logprobs", "choices.0.logprobs.top_logprobs.0"))
        if isinstance(top, list):
            top = {_text(dig(one, ("token",))): dig(one, ("logprob",)) for one in top}
        if isinstance(top, dict):
            self.answer.probabilities = {
                str(token): min(2.718281828459045**value, 1.0)
                for token, value in top.items()
                if isinstance(value, int | float) and -745 < value <= 1e-6
            }


def refusal(head: Head) -> tuple[str, str, str]:
    """(outcome, message in one line, field that it names) of a status other than 200."""
    if 300 <= head.status < 400:
        target = urlsplit(head.headers.get("location", ""))
        where = f"{target.scheme}://{target.netloc.rpartition('@')[2]}{target.path}"
        return "refused", f"status {head.status} redirects to {cut(where)}; redirects are not followed", ""
    try:
        content: Any = read_json(wire.whole(head, wire.PIECE), "the error")
    except Failed:
        content = None
    error = dig(content, ("error", "detail")) or content
    message = f"status {head.status}" + (f": {_message(error)}" if error else "")
    outcome = "refused" if 400 <= head.status < 500 and head.status not in AGAIN else "server_error"
    param = dig(error, ("param",)) or dig(error, ("0.loc.1", "0.loc.0"))
    return outcome, message, str(param or "")


def read_json(content: bytes, what: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Failed("malformed", f"{what} is not JSON: {cut(content[:60].decode(errors='replace'))!r}") from error
    if not isinstance(value, dict):
        raise Failed("malformed", f"{what} is a {type(value).__name__}; expected a JSON object")
    return value


def _text(value: Any) -> str:
    if value is not None and not isinstance(value, str):
        raise Failed("malformed", f"a text of the answer is a {type(value).__name__}; expected a string")
    return value or ""


def _message(error: Any) -> str:
    return cut(plain(str(dig(error, ("message", "msg", "0.msg", "error")) or error)))


def _after(value: str | None) -> float | None:
    """Seconds of a Retry-After: a number, or a date."""
    if value is None:
        return None
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    try:
        return max((parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None


class Journal:
    """Answers as JSON Lines, one fsync per line; a line that a crash has torn is cut off when the file is opened."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.file = open(path, "a+b")  # noqa: SIM115 - closed by close()
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.file.close()
            raise UnmaskError(
                f"another process writes {cut(str(path))}. Wait for it, or take another --store"
            ) from error
        self.file.seek(0)
        self.answers: dict[str, str] = {}  # outcomes by key, the last of each
        good = 0
        for line in self.file:
            if not line.endswith(b"\n"):
                break
            try:
                answer = msgspec.json.decode(line, type=Answer)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                self.file.close()
                raise UnmaskError(
                    f"{cut(str(path))}, byte {good} is not an answer: {error}. Delete the line"
                ) from error
            self.answers[answer.key] = answer.outcome
            good += len(line)
        self.file.truncate(good)

    def __call__(self, answer: Answer) -> None:
        self.file.write(msgspec.json.encode(answer) + b"\n")
        self.file.flush()
        os.fsync(self.file.fileno())
        self.answers[answer.key] = answer.outcome

    def close(self) -> None:
        self.file.close()
