"""Limit open connections and slow requests, so that no client blocks others.

If there are too many connections, the oldest one without a complete request is closed. So clients that send their
request at once are served, even if many others send theirs slowly.
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

QUEUE = 4096  # connections that the kernel holds until they are accepted
RESERVED = 32  # file descriptors for files and imports
MOST = 1024
LEAST = 16
MINUTE = 60.0  # seconds between two lines of the log


class Guard:
    """At most `most` open connections, each with a complete request within `seconds`; it logs closed ones."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.most, self.accepted = capacity()
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
        self.note(
            f"{self.closed} connections closed: no complete request within {self.seconds:g} s, or {self.most} open"
        )

    def note(self, line: str) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + MINUTE
            print(f"unmask serve: {line}", file=sys.stderr, flush=True)

    def failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an error of the event loop in one line, without a traceback."""
        error = context.get("exception")
        self.note(f"{context['message']}{'' if error is None else f': {type(error).__name__}: {error}'}")


def capacity() -> tuple[int, int]:
    """(open connections, connections to accept per iteration of the event loop) that the file descriptors allow.

    Half of the descriptors are for open connections. The other half is for connections of the last three iterations,
    which are about to be opened or closed.
    """
    allowed, used = resource.getrlimit(resource.RLIMIT_NOFILE)[0], len(os.listdir("/dev/fd")) + RESERVED
    most = MOST if allowed == resource.RLIM_INFINITY else min((allowed - used) // 2, MOST)
    if most < LEAST:
        problem = f"{allowed} open files are allowed; expected at least {used + 2 * LEAST} for a server"
        raise UnmaskError(f"{problem}. Raise the limit with ulimit -n")
    return most, most // 3


class Connection(H11Protocol):  # type: ignore[misc]
    """A connection that is closed if the client sends its request or reads its answer too slowly."""

    def __init__(self, guard: Guard, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._guard = guard
        self._timer: asyncio.TimerHandle | None = None

    @property
    def slow(self) -> bool:
        """Whether the server waits for the client."""
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
