"""Clients that are slow, many, silent or gone: others are answered, and the log is short."""

from __future__ import annotations

import contextlib
import http.client
import json
import resource
import socket
import threading

import pytest

from tests.serve.test_running import serving, until
from unmask.core.errors import UnmaskError
from unmask.serve import connections
from unmask.serve.requests import Limits

HEAD = b"POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 100\r\n"


@contextlib.contextmanager
def slow(port, number, sent=b"GET /v1"):
    """Connections that have sent the beginning of a request."""
    made = []
    try:
        for _ in range(number):
            made.append(socket.create_connection(("127.0.0.1", port), timeout=60))
            with contextlib.suppress(OSError):  # closed already
                made[-1].sendall(sent)
        yield made
    finally:
        for one in made:
            one.close()


def listed(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/v1/models")
    answer = connection.getresponse()
    connection.close()
    return answer.status


@pytest.fixture
def few(monkeypatch):
    """Twenty connections, instead of as many as there are descriptors."""
    monkeypatch.setattr(connections, "capacity", lambda: (20, 6))


@pytest.mark.parametrize("sent", [b"", b"GET /v1", HEAD + b"\r\n{", b"no HTTP\r\n\r\n"])
def test_slow_connections_keep_nobody_out(models, few, sent, capfd):
    with serving(models["masked"]) as server, slow(server.port, 60, sent):
        for _ in range(5):
            assert listed(server.port) == 200
        assert len(server.server.guard.open) <= 20
    assert len(capfd.readouterr().err.splitlines()) <= 1


def test_an_answer_under_way_is_not_closed_for_slow_ones(models, few, monkeypatch):
    """Nor is a new client answered at its cost: the oldest that waits for nothing goes."""
    from unmask.serve.batches import Watch

    begun, go = threading.Event(), threading.Event()
    usual = Watch.ended

    def ended(watch, progress):
        begun.set()
        assert go.wait(120)
        return usual(watch, progress)

    monkeypatch.setattr(Watch, "ended", ended)
    with serving(models["masked"]) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        body = json.dumps({"model": "small", "prompt": "a", "max_tokens": 4})
        connection.request("POST", "/v1/completions", body, {"content-type": "application/json"})
        assert begun.wait(120)
        with slow(server.port, 60):
            assert listed(server.port) == 200
            go.set()
            assert connection.getresponse().status == 200
        connection.close()


@pytest.mark.parametrize(
    "sent", [b"", b"GET /v1", HEAD + b"\r\n{", b"GET /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"]
)
def test_a_connection_without_a_whole_request_is_closed(models, sent):
    with serving(models["masked"], limits=Limits(patience=0.2)) as server, slow(server.port, 1, sent) as (one,):
        while one.recv(1 << 16):  # an answer if there is one, and then the end, or a reset
            pass
        until(lambda: not server.server.guard.open)


def test_a_client_that_does_not_read_is_closed(models, monkeypatch):
    """Its answers wait in the server until they are too many; then it is slow."""
    usual = socket.socket.listen

    def listen(one, *backlog):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # of accepted connections too
        usual(one, *backlog)

    monkeypatch.setattr(socket.socket, "listen", listen)
    asked = b"GET /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    with serving(models["masked"], limits=Limits(patience=0.5)) as server, slow(server.port, 1, b"") as (one,):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(0.2)
        with contextlib.suppress(OSError):
            while True:
                one.sendall(asked)
        until(lambda: not server.server.guard.open)


def test_too_few_descriptors_are_an_error_of_one_line(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (20, 20))
    with pytest.raises(
        UnmaskError, match=r"20 open files are allowed; expected at least \d+ for a server. Raise the limit"
    ):
        connections.capacity()
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert connections.capacity()[0] == connections.MOST


SLOW = {"model": "small", "prompt": "a", "max_tokens": 8, "sampler": "gibbs(sweeps=1000000)"}
SLOW |= {"steps": 4, "seed": 1, "top_k": 5}


def asking(port, fields):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", "/v1/completions", json.dumps(fields), {"content-type": "application/json"})
    return connection


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_a_sampler_of_many_sweeps_frees_its_place(models, stream):
    with serving(models["masked"]) as server:
        first = asking(server.port, SLOW | {"stream": stream})
        until(lambda: server.endpoint.batches._running)
        (row,) = server.endpoint.batches._running
        first.close()
        until(lambda: row.cancelled)
        second = asking(server.port, {"model": "small", "prompt": "a", "max_tokens": 4})
        assert second.getresponse().status == 200
        second.close()


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (Limits(tokens=8), "an answer needs more than 128 model calls, the limit. Request fewer tokens"),
        (Limits(seconds=0.5), "an answer takes longer than 0.5 s, the limit. Request fewer tokens"),
    ],
)
def test_an_answer_that_needs_too_much_is_refused(models, limits, says):
    with serving(models["masked"], limits=limits) as server:
        for fields in ({}, {"n": 2}):
            asked = asking(server.port, SLOW | fields)
            answer = asked.getresponse()
            assert (answer.status, json.loads(answer.read())["error"]["message"]) == (413, says)
            asked.close()
        assert models["masked"].before is None


def test_the_scheme_of_a_token_has_any_case(models):
    with serving(models["masked"], token="secret") as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        for scheme, token, status in (
            ("bearer", "secret", 200),
            ("BEARER", " secret", 200),
            ("Bearer", "Secret", 401),
            ("Basic", "secret", 401),
            ("Bearer", "", 401),
        ):
            connection.request("GET", "/v1/models", headers={"authorization": f"{scheme} {token}"})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == status
        connection.close()
