"""One exchange by HTTP: connections, time limits, size limits, server-sent events. No server is trusted.

A redirect is not followed, so a key never reaches another host. Proxies are those of the environment, and SSL_CERT_FILE
names a private certificate file.
"""

from __future__ import annotations

import io
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from unmask.core import arguments
from unmask.core.errors import UnmaskError, cut, shown

KEY = "UNMASK_API_KEY"
KEYS = {"inceptionlabs.ai": "INCEPTION_API_KEY", "openai.com": "OPENAI_API_KEY"}  # by the end of the host
PIECE = 2**16  # bytes that are read at once
MOST_EVENTS = 10**5  # of a stream


@dataclass(frozen=True)
class Limits:
    """Seconds to connect, to the first byte, between chunks and in total; bytes of an answer."""

    connect: float = 5.0
    first: float = 120.0
    between: float = 60.0
    total: float = 600.0
    most: int = 2**23

    def __post_init__(self) -> None:
        for name in ("connect", "first", "between", "total"):
            arguments.number(f"timeout {name}", getattr(self, name), above=True)


class Failed(Exception):
    """An exchange without an answer. early: no byte of the answer has come, so it can be repeated."""

    def __init__(self, outcome: str, message: str, early: bool = False) -> None:
        super().__init__(message)
        self.outcome, self.early = outcome, early


class Head(NamedTuple):
    status: int
    headers: Mapping[str, str]  # names in lower case
    read: Callable[[], bytes]  # the next bytes of the body; empty at its end


Exchange = Callable[[str, str, bytes | None, Mapping[str, str]], AbstractContextManager[Head]]


class Event(NamedTuple):
    at: float  # seconds by the monotonic clock
    name: str
    data: str


class _Clock:
    """The time left in the phase of an exchange: until the headers are complete, or between two pieces."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.sent, self.headed = limits, time.monotonic(), False

    def left(self) -> float:
        passed = time.monotonic() - self.sent
        most = self.limits.total if self.headed else min(self.limits.first, self.limits.total)
        if passed >= most:
            raise TimeoutError(f"{'the whole answer' if self.headed else 'the first byte'} took over {most:g} s")
        return min(most - passed, self.limits.between) if self.headed else most - passed


class _Timed(io.RawIOBase):
    """The bytes of a socket; each read ends with the time of the exchange, also for a server that drips its bytes."""

    def __init__(self, of: socket.socket, clock: _Clock) -> None:
        self.socket, self.raw, self.clock = of, of.makefile("rb", 0), clock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.socket.settimeout(self.clock.left())
        return self.raw.readinto(buffer) or 0

    def close(self) -> None:
        self.raw.close()
        super().close()


class Link:
    """The connections to one server, one for each thread, which stay open between requests."""

    def __init__(self, url: str, limits: Limits = Limits()) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port, parts = None, None, urlsplit("")
        if parts.scheme not in ("http", "https") or not host or parts.username is not None or parts.query:
            expected = "expected http://HOST:PORT or https://HOST, without a user, a password or a query"
            raise UnmaskError(f"--endpoint is {shown(url.partition('?')[0].rpartition('@')[2])}; {expected}")
        self.scheme, self.host, self.port, self.limits = parts.scheme, host, port, limits
        self.base = parts.path.rstrip("/").removesuffix("/v1")
        proxies = {} if proxy_bypass(host) else getproxies()
        self.proxy = urlsplit(proxies[self.scheme]) if self.scheme in proxies else None
        self.key = key_of(host)
        self._own = threading.local()

    def _connect(self) -> HTTPConnection:
        secure = self.scheme == "https"
        at, port = (self.host, self.port) if self.proxy is None else (self.proxy.hostname or "", self.proxy.port)
        connection = HTTPSConnection(at, port) if secure else HTTPConnection(at, port)
        connection.timeout = self.limits.connect
        if self.proxy is not None and secure:
            connection.set_tunnel(self.host, self.port)
        connection.connect()
        return connection

    def _opened(self) -> tuple[HTTPConnection, socket.socket, bool]:
        """(connection, socket, whether it is new) of this thread."""
        pair = getattr(self._own, "pair", None)
        if pair is not None and pair[0].sock is not None:
            return (*pair, False)
        try:
            connection = self._connect()
        except ssl.SSLError as error:
            raise Failed("transport", f"no secure connection to {self.host}: {error.reason or error}") from error
        except TimeoutError as error:
            raise Failed("timeout", f"no connection to {self.host} in {self.limits.connect:g} s", True) from error
        except (OSError, HTTPException) as error:
            raise Failed("transport", f"no connection to {self.host}: {_reason(error)}", True) from error
        self._own.pair = (connection, connection.sock)
        return connection, connection.sock, True

    def close(self) -> None:
        """Close the connection of this thread."""
        pair, self._own.pair = getattr(self._own, "pair", None), None
        if pair is not None:
            pair[0].close()

    @contextmanager
    def __call__(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Iterator[Head]:
        """Send a request, and yield the head of its answer; an answer that is not read to its end closes the link."""
        connection, plain, new = self._opened()
        clock, whole = _Clock(self.limits), False
        connection.response_class = lambda sock, *given, **named: _response(sock, clock, *given, **named)  # type: ignore[assignment]
        target = self.base + path
        if self.proxy is not None and self.scheme == "http":
            target = f"http://{self.host}{f':{self.port}' if self.port else ''}{target}"
        named = dict(headers) | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        response = None
        try:
            response = _answered(connection, plain, clock, (method, target, body, named), new)
            clock.headed = True
            left = response.length

            def read() -> bytes:
                nonlocal left, whole
                if left == 0:
                    whole = True
                    return b""
                piece = _piece(response)
                if left is not None:
                    left -= len(piece)
                    if not piece:
                        raise Failed("transport", f"the answer ended {left} bytes before its Content-Length")
                whole = whole or not piece
                return piece

            yield Head(response.status, {name.lower(): value for name, value in response.getheaders()}, read)
        finally:
            if response is not None:
                response.close()
            if not whole:
                self.close()


def _response(sock: socket.socket, clock: _Clock, *given: Any, **named: Any) -> HTTPResponse:
    response = HTTPResponse(sock, *given, **named)
    response.fp.close()
    response.fp = io.BufferedReader(_Timed(sock, clock))
    return response


def _answered(
    connection: HTTPConnection, plain: socket.socket, clock: _Clock, request: tuple[Any, ...], new: bool
) -> HTTPResponse:
    method, target, body, headers = request
    try:
        plain.settimeout(clock.left())
        connection.request(method, target, body, headers)
        return connection.getresponse()
    except TimeoutError as error:
        raise Failed("timeout", f"no answer in {clock.limits.first:g} s") from error
    except OSError as error:  # also RemoteDisconnected
        raise Failed("transport", f"the server closed the connection: {_reason(error)}", True) from error
    except (HTTPException, ValueError) as error:
        raise Failed("malformed", f"the answer is not HTTP: {type(error).__name__}", not new) from error


def _piece(response: HTTPResponse) -> bytes:
    try:
        return response.read1(PIECE)
    except TimeoutError as error:
        raise Failed("timeout", str(error) if "took" in str(error) else "the server stopped in its answer") from error
    except IncompleteRead as error:
        raise Failed("transport", "the server died in the middle of its answer") from error
    except OSError as error:
        raise Failed("transport", f"the server died in the middle of its answer: {_reason(error)}") from error
    except (HTTPException, ValueError) as error:
        raise Failed("malformed", f"the answer is not HTTP: {type(error).__name__}") from error


def _reason(error: Exception) -> str:
    return cut(getattr(error, "strerror", None) or str(error) or type(error).__name__)


def key_of(host: str) -> str | None:
    """The key for a host, from the environment alone."""
    own = next((name for end, name in KEYS.items() if host == end or host.endswith(f".{end}")), None)
    key = os.environ.get(KEY) or (os.environ.get(own) if own else None)
    if key and not (key.isascii() and key.isprintable()):
        raise UnmaskError(f"{KEY} holds no key; expected one line of ASCII characters. Set it again")
    return key or None


def whole(head: Head, most: int) -> bytes:
    """The body of an answer."""
    pieces, size = [], 0
    while piece := head.read():
        pieces.append(piece)
        size += len(piece)
        if size > most:
            raise Failed("malformed", f"the answer has over {most:,} bytes")
    return b"".join(pieces)


def events(head: Head, most: int) -> Iterator[Event]:
    """The server-sent events of a body. A line is decoded when it is complete, so no character is cut in two."""
    rest, name, data, size, count = b"", "", [], 0, 0
    while piece := head.read():
        at = time.monotonic()
        size += len(piece)
        if size > most:
            raise Failed("malformed", f"the stream has over {most:,} bytes, without an end")
        *lines, rest = (rest + piece).split(b"\n") if b"\n" in piece else (rest + piece,)
        for line in lines:
            try:
                text = line.decode().rstrip("\r")
            except UnicodeDecodeError as error:
                raise Failed("malformed", "the stream is not UTF-8") from error
            if text.startswith("data:"):
                data.append(text[5:].removeprefix(" "))
            elif text.startswith("event:"):
                name = text[6:].strip()
            elif not text and data:
                yield Event(at, name, "\n".join(data))
                name, data, count = "", [], count + 1
                if count > MOST_EVENTS:
                    raise Failed("malformed", f"the stream has over {MOST_EVENTS:,} events, without an end")
