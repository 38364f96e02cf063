"""The client against the fake server: outcomes, retries, limits, and a key that no server can make visible."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
from base64 import b64encode, urlsafe_b64encode

import pytest

from tests.needs import required
from unmask import UnmaskError

with required("endpoint"):
    import httpx

    from tests.diagnosis.endpoint.server import WIRE, FakeServer
    from unmask.diagnosis.client import KEY, MASK, Client, Failed, _events

SECRET = "sk-Proj_0123456789abcdefXYZ"


def client(server, timeout=600.0, **options):
    made = Client(server.url, "fake", timeout, **options)
    made.rng, made.waits = random.Random(0), []

    async def sleep(wait):
        made.waits.append(wait)

    made.sleep = sleep
    return made


def answering(*pieces, status=200, headers=None):
    """A client of a server that always answers so."""

    async def content():
        for piece in pieces:
            yield piece

    def answer(request):
        return httpx.Response(status, headers=headers or {"content-type": "application/json"}, content=content())

    return Client("http://fake", "m", transport=httpx.MockTransport(answer))


def test_an_answer_and_a_stream_have_the_same_text():
    with FakeServer() as server:
        asked = client(server)
        alone, stream = (asked.ask("hello there", max_tokens=70, seed=3, **more) for more in ({}, {"stream": True}))
    assert len(alone.text.split()) == alone.tokens == 70
    assert stream.text == alone.text
    assert {alone.outcome, stream.outcome} == {"truncated"}
    assert len(stream.chunks) >= 3


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


@pytest.mark.sampled(6)
@pytest.mark.parametrize("fault", WIRE)
def test_each_hostile_answer_has_one_outcome_and_one_line(fault):
    with FakeServer(faults=[fault]) as server:
        asked = client(server, 0.8)
        answer = asked.ask("hello there", max_tokens=10, stream=True)
    assert answer.outcome == ENDS[fault]
    assert "\n" not in answer.error
    assert len(answer.error) < 300
    assert bool(answer.error) == (fault != "split-utf8")
    assert asked.sent == (5 if fault in ("status-429", "status-500") else 1)
    if fault == "split-utf8":
        assert answer.text.endswith("\u00e9")
    if fault == "status-500":
        assert all(0 <= wait <= 0.5 * 2**n for n, wait in enumerate(asked.waits, 1))
        assert len(set(asked.waits)) == 4


def chunk(text):
    return f"data: {json.dumps({'choices': [{'delta': {'content': text}}]})}\n\n".encode()


STREAM = {"content-type": "text/event-stream"}
PADDED = "x" * 190 + SECRET  # within a message, a cut at 200 characters would leave a part of it
ECHOES = {
    "text": ([json.dumps({"choices": [{"message": {"content": f"it is {SECRET}!"}}]}).encode()], 200, None),
    "error, cut": ([json.dumps({"error": {"message": PADDED, "param": SECRET}}).encode()], 400, None),
    "parts": ([json.dumps({"error": {"message": f"a {SECRET[:8]}, {SECRET[-9:]} x"}}).encode()], 401, None),
    "no JSON, cut": ([b"<" * 45 + SECRET.encode() + b">"], 200, None),
    "signs": ([chunk(sign) for sign in SECRET] + [b"data: [DONE]\n\n"], 200, STREAM),
    "redirect, encoded": ([], 307, {"location": f"http://a/{'x' * 150}{SECRET.replace('_', '%5F')}"}),
}


FORMS = {
    "upper case": str.upper,
    "swapped case": str.swapcase,
    "hexadecimal": lambda text: text.encode().hex(),
    "hexadecimal in capitals": lambda text: text.encode().hex().upper(),
    "percent form": lambda text: "".join(f"%{ord(sign):02X}" for sign in text),
    "percent form in part": lambda text: text.replace("_", "%5f").replace("X", "%58"),
    "base64": lambda text: b64encode(text.encode()).decode(),
    "base64 from the second byte": lambda text: b64encode(f":{text}".encode()).decode(),
    "base64 of a header": lambda text: urlsafe_b64encode(f"Bearer {text}\n".encode()).decode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_key_is_masked_in_every_form(form, monkeypatch):
    """But for the characters of base64 that its neighbours determine, too."""
    monkeypatch.setenv(KEY, SECRET)
    answer = json.dumps({"choices": [{"message": {"content": f"it is <{FORMS[form](SECRET)}>!"}}]})
    text = answering(answer.encode()).ask("hi").text
    assert re.fullmatch(rf"it is <[A-Za-z0-9+/=]{{0,14}}{re.escape(MASK)}[A-Za-z0-9+/=]{{0,6}}>!", text)
    if "base64" not in form:
        assert text == f"it is <{MASK}>!"


def test_what_is_no_key_is_left(monkeypatch):
    monkeypatch.setenv(KEY, SECRET)
    said = "100% of sk-Proj, 0123456, %41%zz and " + b64encode(b"no key at all, but long enough").decode()
    answer = json.dumps({"choices": [{"message": {"content": said}}]})
    assert answering(answer.encode()).ask("hi").text == said


@pytest.mark.parametrize("case", ECHOES)
def test_a_key_that_a_server_repeats_is_nowhere(case, monkeypatch):
    pieces, status, headers = ECHOES[case]
    monkeypatch.setenv(KEY, SECRET)
    answer = answering(*pieces, status=status, headers=headers).ask("hi")
    assert not any(SECRET[at : at + 8] in str(answer) for at in range(len(SECRET) - 7))
    assert MASK in str(answer)


def test_a_key_is_sent_and_a_model_of_its_name_is_masked(monkeypatch):
    monkeypatch.setenv(KEY, SECRET)
    with FakeServer(text=lambda prompt, rng: f"one {SECRET}") as server:
        server.requests = []
        assert client(server).ask("hi", max_tokens=50).text == f"one {MASK}"
        assert {name.lower(): value for name, value in server.requests[0]["headers"].items()}["authorization"] == (
            f"Bearer {SECRET}"
        )
    listing = json.dumps({"data": [{"id": f"model-{SECRET}"}]}).encode()
    assert answering(listing).models() == f"model-{MASK}"
    assert Client(f"http://fake/{SECRET}").url == f"http://fake/{MASK}"


def test_a_key_of_two_lines_is_refused_unshown(monkeypatch):
    monkeypatch.setenv(KEY, f"{SECRET}\n")
    with pytest.raises(UnmaskError, match=f"{KEY} holds no key") as refused:
        answering()
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("url", ["ftp://a", "a.b", "http://", "http://user:pw@a", "http://a:x", "http://a/?key=sk-1"])
def test_an_address_that_is_none_is_refused_without_its_secrets(url):
    with pytest.raises(UnmaskError, match="--endpoint is") as caught:
        Client(url)
    assert "pw" not in str(caught.value)
    assert "sk-1" not in str(caught.value)


def test_no_server_no_certificate_and_no_proxy(monkeypatch):
    with FakeServer() as server:
        pass
    answer = client(server).ask("hi")
    assert answer.outcome == "transport"
    assert "no connection to 127.0.0.1" in answer.error
    with FakeServer() as server:
        answer = Client(server.url.replace("http:", "https:")).ask("hi")
    assert answer.outcome == "transport"
    assert "no secure connection to 127.0.0.1" in answer.error
    monkeypatch.setenv("HTTP_PROXY", "nonsense://x")
    with pytest.raises(UnmaskError, match="Check HTTP_PROXY"):
        Client(server.url).ask("hi")


def read(*pieces):
    async def content():
        for piece in pieces:
            yield piece

    async def work():
        return [data async for _, data in _events(httpx.Response(200, content=content()), 1000)]

    return asyncio.run(work())


def test_events_are_joined_from_any_pieces():
    whole = 'data: {"a":\ndata: 1}\n\n: comment\n\nevent: x\r\ndata: \u00e9\u2028\u4e2d\r\n\r\n'.encode()
    whole += b"data: [DONE]\n\n"
    expected = ['{"a":\n1}', "\u00e9\u2028\u4e2d", "[DONE]"]
    assert read(whole) == expected
    assert read(*(bytes([byte]) for byte in whole)) == expected
    for at in range(1, len(whole)):
        assert read(whole[:at], whole[at:]) == expected
    with pytest.raises(Failed, match="not UTF-8"):
        read(b"data: \xff\n\n")
    with pytest.raises(Failed, match="over 1,000 bytes"):
        read(*[b"data: 1\n\n"] * 200)


def test_numbers_of_a_server_are_checked():
    usage = {"completion_tokens": -3}
    top = [{"token": "1", "logprob": -0.5}, {"token": "2", "logprob": 3.0}, {"token": "3", "logprob": "no"}]
    choice = {"message": {"content": "1"}, "logprobs": {"content": [{"top_logprobs": top}]}}
    answer = answering(json.dumps({"choices": [choice], "usage": usage}).encode()).ask("hi")
    assert (answer.outcome, answer.tokens) == ("ok", None)
    assert list(answer.probabilities) == ["1"]


def test_ctrl_c_ends_the_requests():
    def text(prompt, rng):
        if server.count == 20:
            os.kill(os.getpid(), signal.SIGINT)
        return "1"

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        with FakeServer(text=text) as server, pytest.raises(KeyboardInterrupt):
            client(server).ask_all(["hi"] * 2000, 4)
    finally:
        signal.signal(signal.SIGINT, before)
    assert 20 <= server.count < 2000
