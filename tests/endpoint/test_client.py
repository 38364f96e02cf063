"""The client against the fake server: outcomes, retries, keys, limits, and a journal that survives a crash."""

from __future__ import annotations

import json
import os
import random
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from itertools import pairwise

import pytest

from tests.needs import needs
from unmask import UnmaskError
from unmask.endpoint import DIALECTS, Client, Limits, Query
from unmask.endpoint.client import OUTCOMES, Failed, Journal
from unmask.endpoint.wire import KEY, Head, Link, events
from unmask.testing import WIRE, FakeServer

SHORT = Limits(connect=2, first=0.4, between=0.4, total=0.8)
CHAT = DIALECTS["openai-chat"]
ASKED = Query("item", "hello there", fields={"max_tokens": 10})


def client(server, limits=Limits(), **options):
    waits: list[float] = []
    made = Client(Link(server.url, limits), server.dialect, "fake", limits, random.Random(0), waits.append, **options)
    made.waits = waits
    return made


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_dialect_reads_the_same_text_from_an_answer_a_stream_and_drafts(dialect):
    with FakeServer(dialect) as server:
        asked = client(server)
        fields = {"max_tokens": 70, "seed": 3}
        alone, stream, drafts = (
            asked.ask(Query("1", "hello there", fields=fields | more))
            for more in ({}, {"stream": True}, {"stream": True} | dict(server.dialect.drafts))
        )
    assert len(alone.text.split()) == alone.tokens == 70
    assert {one.text for one in (alone, stream, drafts)} == {alone.text}
    assert {one.outcome for one in (alone, stream, drafts)} == {"truncated"}
    assert len(stream.chunks) >= 3
    assert all(earlier.at <= later.at for earlier, later in pairwise(stream.chunks))
    assert 0 < stream.first_byte <= stream.first_text <= stream.seconds
    assert bool(drafts.drafts) == (dialect in ("diffulex", "mercury"))
    assert sorted(at for edits in drafts.edits for at in edits) == list(range(70)) * dialect.startswith("openai")
    if drafts.drafts:
        assert drafts.drafts[-1] == alone.text
    blocks = [8 + 1, 8 + 1, 2 + 1]
    assert alone.forwards == (None if dialect == "mercury" else sum(blocks) + 1)


ENDS = {
    "not-json": "malformed",
    "endless": "timeout",
    "empty-stream": "malformed",
    "truncated-stream": "malformed",
    "wrong-length": "transport",
    "split-utf8": "truncated",
    "huge": "malformed",
    "slow": "timeout",
    "redirect": "refused",
    "die": "transport",
    "status-400": "refused",
    "status-429": "server_error",
    "status-500": "server_error",
}


@pytest.mark.rotates(4)
@pytest.mark.parametrize("fault", WIRE)
def test_each_hostile_answer_has_one_outcome_and_one_line(fault):
    with FakeServer(faults=[fault]) as server:
        asked = client(server, SHORT)
        answer = asked.ask(ASKED._replace(fields={"max_tokens": 10, "stream": True}))
    assert answer.outcome == ENDS[fault]
    assert "\n" not in answer.error
    assert len(answer.error) < 300
    assert bool(answer.error) == (fault != "split-utf8")
    assert answer.attempts == (5 if fault in ("status-429", "status-500") else 1)
    if fault == "split-utf8":
        assert answer.text.endswith("\u00e9")
    if fault == "status-429":
        assert asked.waits == [0.0] * 4
    if fault == "status-500":
        assert all(0 <= wait <= 0.5 * 2**n for n, wait in enumerate(asked.waits, 1))
        assert len(set(asked.waits)) == 4


def test_every_item_is_accounted_for_with_a_server_that_fails_in_five_ways():
    faults = {"not-json": 0.01, "die": 0.01, "wrong-length": 0.01, "status-400": 0.01, "empty-stream": 0.01}
    with FakeServer(faults=faults) as server:
        answers = client(server).ask_all([ASKED._replace(item=str(n)) for n in range(1000)], 8)
    assert [answer.item for answer in answers] == [str(n) for n in range(1000)]
    counted = Counter(answer.outcome for answer in answers)
    assert set(counted) <= set(OUTCOMES)
    # each of 1000 requests fails in each way with 1%: outside of these limits with probability below 1e-9
    assert 0 < counted["refused"] < 40
    assert 0 < counted["malformed"] < 70
    assert 0 < counted["transport"] < 70
    assert counted["truncated"] > 850
    assert {answer.attempts for answer in answers} == {1}  # a malformed answer does not break the connection after it


def test_nothing_is_sent_that_was_not_asked_for():
    with FakeServer() as server:
        server.requests = []
        client(server).ask(Query("1", "hi"))
        client(server).ask(Query("1", "hi", fields={"top_p": 0.5}))
    assert server.requests[0]["body"] == {"messages": [{"role": "user", "content": "hi"}], "model": "fake"}
    assert server.requests[1]["body"] == server.requests[0]["body"] | {"top_p": 0.5}
    assert "Authorization" not in server.requests[0]["headers"]


def test_a_repeated_request_has_the_same_name():
    with FakeServer(faults={"status-500": 0.5}, seed=1) as server:
        kept = server.requests = []
        answers = [client(server).ask(ASKED._replace(number=n)) for n in range(20)]
        names = Counter(one["headers"]["X-Request-Id"] for one in kept)
    assert len({answer.key for answer in answers}) == 20
    assert max(answer.attempts for answer in answers) > 1
    assert set(names) <= {answer.key for answer in answers}


def test_a_key_comes_from_the_environment_and_leaves_no_trace(monkeypatch, tmp_path):
    monkeypatch.setenv(KEY, "sk-secret")
    with FakeServer(text=lambda prompt, rng: "your key is sk-secret") as server:
        server.requests = []
        journal = Journal(tmp_path / "answers.jsonl")
        client(server).ask_all([ASKED._replace(fields={"max_tokens": 20})], record=journal)
        journal.close()
        assert server.requests[0]["headers"]["Authorization"] == "Bearer sk-secret"
    written = (tmp_path / "answers.jsonl").read_text()
    assert "your key is ***" in written
    assert "sk-secret" not in written
    monkeypatch.delenv(KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    assert Link("http://127.0.0.1:1").key is None
    assert Link("https://api.openai.com/v1").key == "sk-openai"
    assert Link("https://openai.com.evil.example/v1").key is None


@pytest.mark.parametrize("url", ["ftp://a", "a.b", "http://", "http://user:pw@a", "http://a:x", "http://a/?key=sk-1"])
def test_an_address_that_is_none_is_refused_without_its_secrets(url):
    with pytest.raises(UnmaskError, match="--endpoint is") as caught:
        Link(url)
    assert "pw" not in str(caught.value)
    assert "sk-1" not in str(caught.value)


def test_no_server_and_no_certificate():
    with FakeServer() as server:
        pass
    answer = client(server).ask(ASKED)
    assert (answer.outcome, answer.attempts) == ("transport", 5)
    assert "no connection to 127.0.0.1: Connection refused" in answer.error
    with FakeServer() as server:
        link = Link(server.url.replace("http:", "https:"), SHORT)
        answer = Client(link, CHAT, sleep=lambda wait: None).ask(ASKED)
    assert (answer.outcome, answer.attempts) == ("transport", 1)
    assert "no secure connection to 127.0.0.1" in answer.error


@needs("openssl")
def test_a_certificate_of_a_stranger(tmp_path, monkeypatch):
    """It is refused, unless SSL_CERT_FILE names it."""
    files = [str(tmp_path / name) for name in ("key.pem", "own.pem")]
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*words, "-keyout", files[0], "-out", files[1], *names], check=True, capture_output=True)
    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secure.load_cert_chain(files[1], files[0])
    with FakeServer() as server:
        server._http.socket = secure.wrap_socket(server._http.socket, server_side=True)
        url = server.url.replace("http:", "https:")
        answer = Client(Link(url, SHORT), CHAT, sleep=lambda wait: None).ask(ASKED)
        assert (answer.outcome, answer.attempts) == ("transport", 1)
        assert "no secure connection to 127.0.0.1: CERTIFICATE_VERIFY_FAILED" in answer.error
        monkeypatch.setenv("SSL_CERT_FILE", files[1])
        assert Client(Link(url), CHAT).ask(ASKED).outcome == "truncated"


def read(*pieces):
    left = iter(pieces)
    return [event.data for event in events(Head(200, {}, lambda: next(left, b"")), 1000)]


def test_events_are_joined_from_any_pieces():
    whole = 'data: {"a":\ndata: 1}\n\n: comment\n\nevent: x\r\ndata: \u00e9\u4e2d\r\n\r\ndata: [DONE]\n\n'.encode()
    expected = ['{"a":\n1}', "\u00e9\u4e2d", "[DONE]"]
    assert read(whole) == expected
    assert read(*(bytes([byte]) for byte in whole)) == expected
    for at in range(1, len(whole)):
        assert read(whole[:at], whole[at:]) == expected
    with pytest.raises(Failed, match="not UTF-8"):
        read(b"data: \xff\n\n")
    with pytest.raises(Failed, match="over 1,000 bytes"):
        read(*[b"data: 1\n\n"] * 200)


@pytest.mark.parametrize(
    "content",
    [
        *([], 7, {"choices": 3}, {"choices": []}, {"choices": [{"message": {"content": 7}}]}),
        *({"choices": [{"message": {"content": ["a"]}}]}, {"choices": [{"text": "another dialect"}]}),
    ],
)
def test_json_that_is_no_answer(content):
    from contextlib import contextmanager

    @contextmanager
    def link(*_):
        left = iter([json.dumps(content).encode()])
        yield Head(200, {}, lambda: next(left, b""))

    assert Client(link, CHAT).ask(ASKED).outcome == "malformed"


def test_deep_json_and_lone_surrogates():
    from contextlib import contextmanager

    for body in (b"[" * 10**6, b'{"a":' * 10**5, b'{"choices": [{"message": {"content": "\\ud800"}}]}'):

        @contextmanager
        def link(*_, body=body):
            left = iter([body])
            yield Head(200, {}, lambda: next(left, b""))

        assert Client(link, CHAT).ask(ASKED).outcome == "malformed"


KILLED = """
import os, sys, threading
from unmask.endpoint import Client, Query
from unmask.endpoint.client import Journal
from unmask.endpoint.wire import Link
from unmask.endpoint import DIALECTS
journal, client = Journal(sys.argv[1]), Client(Link(sys.argv[2]), DIALECTS["openai-chat"])
queries = (Query(str(n), "hello", fields={"max_tokens": 3}) for n in range(60))
queries = [query for query in queries if client.request(query)[0] not in journal.answers]
def record(answer):
    journal(answer)
    if len(journal.answers) == int(sys.argv[3]):
        journal.file.write(b'{"key": "torn')
        journal.file.flush()
        os.kill(os.getpid(), 9)
client.ask_all(queries, 4, record)
print(len(queries))
"""


def test_a_killed_run_resumes_and_loses_nothing(tmp_path):
    path = tmp_path / "answers.jsonl"
    with FakeServer() as server:

        def run(stop):
            words = [sys.executable, "-c", KILLED, str(path), server.url, str(stop)]
            return subprocess.run(words, capture_output=True, text=True, check=False)

        assert run(25).returncode == -signal.SIGKILL
        assert path.read_bytes().endswith(b"torn")
        last = run(0)
        assert (last.returncode, last.stdout) == (0, "35\n")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(int(line["item"]) for line in lines) == list(range(60))
    assert server.count < 25 + 35 + 4  # at most the requests under way are sent twice


def test_an_interruption_waits_for_the_answers_under_way():
    with FakeServer() as server:
        answers, stop = [], threading.Event()

        def record(answer):
            answers.append(answer)
            if len(answers) == 10:
                stop.set()

        client(server).ask_all((ASKED._replace(number=n) for n in range(500)), 4, record, stop)
        assert 10 <= len(answers) <= 14
        assert server.count == len(answers)


def test_ctrl_c_waits_for_the_answers_under_way():
    """Those that the server has answered are recorded."""
    with FakeServer() as server:
        answers = []

        def record(answer):
            answers.append(answer)
            if len(answers) == 10:
                os.kill(os.getpid(), signal.SIGINT)

        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        try:
            with pytest.raises(KeyboardInterrupt):
                client(server).ask_all((ASKED._replace(number=n) for n in range(2000)), 4, record)
        finally:
            signal.signal(signal.SIGINT, before)
        assert 10 <= server.count == len(answers) < 2000


def test_ctrl_c_while_threads_start_waits_too(monkeypatch):
    start, started, answers = threading.Thread.start, [], []

    def interrupted(thread):
        if thread.name == "endpoint" and len(started) == 2:
            while not answers:
                time.sleep(0.001)
            raise KeyboardInterrupt
        if thread.name == "endpoint":
            started.append(thread)
        start(thread)

    with FakeServer() as server:
        monkeypatch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            client(server).ask_all((ASKED._replace(number=n) for n in range(2000)), 4, answers.append)
        assert not any(map(threading.Thread.is_alive, started))
        assert 1 <= server.count == len(answers) < 2000
