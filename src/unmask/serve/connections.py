"""Connections that may be open, and how long one may be without a whole request: no client keeps others out.

Where one more would be too many, the oldest without a whole request is closed. A client that sends its request at once
is therefore answered, however many others send theirs slowly.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time
from typing import Any, cast

from unmask.core.errors import UnmaskError
from unmask.core.extras import needed

with needed("serve", "a server"):
    from uvicorn.protocols.http.h11_impl import H11Protocol

QUEUE = 4096  # connections that the kernel keeps until they are accepted
KEPT = 32  # descriptors for other things: files, a request's imports
MOST = 1024
LEAST = 16
MINUTE = 60.0  # seconds between two lines of the log


class Guard:
    """`most` connections, each with a whole request within `seconds`; at most a line a minute says what was closed."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.most, self.accepted = room()
        self.open: dict[Connection, None] = {}  # the oldest first
        self.closed = 0
        self._next = 0.0

    def enter(self, connection: Connection) -> None:
        self.open[connection] = None
        if len(self.open) > self.most:
            self.close(next((one for one in self.open if one.slow), connection))

    def close(self, connection: Connection) -> None:
        self.open.pop(connection, None)
        connection.transport.abort()
        self.closed += 1
        self.note(f"{self.closed} connections closed: no whole request within {self.seconds:g} s, or {self.most} open")

    def note(self, line: str) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + MINUTE
            print(f"unmask serve: {line}", file=sys.stderr, flush=True)

    def failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What the loop says instead of a traceback for each connection."""
        error = context.get("exception")
        self.note(f"{context['message']}{'' if error is None else f': {type(error).__name__}: {error}'}")


def room() -> tuple[int, int]:
    """Connections for which there are descriptors, and how many of them a turn of the loop may accept.

    Half of the descriptors are for open connections; as many are for those of the turn and of the two turns before it,
    which are on their way to be opened or closed.
    """
    allowed, taken = resource.getrlimit(resource.RLIMIT_NOFILE)[0], len(os.listdir("/dev/fd")) + KEPT
    most = MOST if allowed == resource.RLIM_INFINITY else min((allowed - taken) // 2, MOST)
    if most < LEAST:
        what = f"{allowed} open files are allowed, and a server needs {taken + 2 * LEAST}"
        raise UnmaskError(f"{what}; raise the limit, ulimit -n")
    return most, most // 3


class Connection(H11Protocol):  # type: ignore[misc]
    """One that is closed where it is slow for too long: to send its request, or to read its answer."""

    def __init__(self, guard: Guard, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._guard = guard
        self._timer: asyncio.TimerHandle | None = None

    @property
    def slow(self) -> bool:
        """Whether it waits for the client, and not the client for it."""
        answering = self.cycle is not None and not self.cycle.response_complete
        return not answering or self.cycle.more_body or self.flow.write_paused

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        self._guard.enter(self)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._guard.open.pop(self, None)
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._stop()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._watch()

    def _watch(self) -> None:
        if not self.slow or self.transport.is_closing():
            self._stop()
        elif self._timer is None:
            self._timer = self.loop.call_later(self._guard.seconds, self._guard.close, self)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
