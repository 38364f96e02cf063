"""A real server, on a port of this machine: the client of OpenAI, clients that go away, and how it ends."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from tests.needs import needs
from tests.serve.conftest import LIMITS
from tests.serve.test_answers import SAID
from unmask.serve.app import Endpoint
from unmask.serve.batches import Watch
from unmask.serve.running import Server, bound, url


@contextlib.contextmanager
def serving(model, limits=LIMITS, **options):
    endpoint = Endpoint(model, limits=limits, **options)
    listening = bound("127.0.0.1", 0, None)
    server = Server(endpoint)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield SimpleNamespace(endpoint=endpoint, server=server, url=url(listening), port=listening.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(60)
        listening.close()
    assert not thread.is_alive()


@needs("openai")
def test_the_client_of_openai(models):
    import openai

    with (
        serving(models["masked"], token="secret") as server,
        openai.OpenAI(base_url=server.url, api_key="secret", max_retries=0) as client,
    ):
        assert [one.id for one in client.models.list()] == ["small"]
        ask = {"model": "small", "messages": SAID, "max_tokens": 8, "seed": 3}
        said = client.chat.completions.create(**ask, n=2, extra_body={"sampler": "ancestral", "steps": 4})
        assert [choice.index for choice in said.choices] == [0, 1]
        assert said.usage.forwards <= 8
        assert said.usage.completion_tokens <= 16
        ours = {"sampler": "ancestral", "steps": 4}
        whole = client.chat.completions.create(**ask, extra_body=ours).choices[0].message.content
        assert whole == said.choices[0].message.content
        chunks = client.chat.completions.create(
            **ask, extra_body=ours, stream=True, stream_options={"include_usage": True}
        )
        chunks = list(chunks)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == whole
        assert chunks[-1].usage.forwards > 0
        plain = client.completions.create(model="small", prompt=["a", "the"], max_tokens=4)
        assert [choice.finish_reason for choice in plain.choices] == ["length"] * 2
        with pytest.raises(openai.NotFoundError, match="there is no model 'other'"):
            client.chat.completions.create(**ask | {"model": "other"})
        with pytest.raises(openai.BadRequestError, match="unknown sampler 'lada'"):
            client.chat.completions.create(**ask, extra_body={"sampler": "lada"})
        with pytest.raises(openai.AuthenticationError, match="the token is missing"):
            client.with_options(api_key="other").models.list()


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_frees_its_place(models, monkeypatch, stream):
    """Its row ends with the step under way, and one that waited is not begun: steps pass only when this test lets
    them."""
    turns, looked, steps = threading.Semaphore(0), threading.Semaphore(0), []
    usual = Watch.ended

    def ended(watch, progress):
        looked.release()
        assert turns.acquire(timeout=120)
        steps.append([row.task.seed for row in watch.rows])
        return usual(watch, progress)

    monkeypatch.setattr(Watch, "ended", ended)
    with serving(models["masked"]) as server:

        def ask(seed):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
            body = {"model": "small", "prompt": "a", "max_tokens": 30, "seed": seed, "stream": stream}
            connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
            return connection

        first = ask(1)
        assert looked.acquire(timeout=120)  # it is being answered
        (row,) = server.endpoint.batches._running
        second = ask(2)
        until(lambda: len(server.endpoint.batches) == 1)
        second.close()
        until(lambda: len(server.endpoint.batches) == 0)
        first.close()
        until(lambda: row.cancelled)
        turns.release(100)
        until(lambda: not server.endpoint.batches._running)
        assert len(steps) <= 4
        third = ask(3)
        assert third.getresponse().status == 200
        third.close()
    assert not any(2 in seeds for seeds in steps)


def until(there):
    """Soon."""
    waiting = threading.Event()
    for _ in range(12000):
        if there():
            return
        waiting.wait(0.01)
    pytest.fail("nothing has come of it")


def test_who_waits_is_told_when_it_ends(models, monkeypatch):
    """And the server ends, though an answer was under way."""
    begun, go = threading.Event(), threading.Event()
    usual = Watch.ended

    def ended(watch, progress):
        begun.set()
        assert go.wait(120)
        return usual(watch, progress)

    monkeypatch.setattr(Watch, "ended", ended)
    endpoint = Endpoint(models["masked"], limits=LIMITS)
    listening = bound("127.0.0.1", 0, None)
    server = Server(endpoint)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    connection = http.client.HTTPConnection("127.0.0.1", listening.getsockname()[1], timeout=120)
    body = json.dumps({"model": "small", "prompt": "a", "max_tokens": 30})
    connection.request("POST", "/v1/completions", body, {"content-type": "application/json"})
    assert begun.wait(120)
    server.handle_exit(signal.SIGTERM, None)
    answer = connection.getresponse()
    assert answer.status == 503
    assert "being stopped" in json.loads(answer.read())["error"]["message"]
    go.set()
    thread.join(60)
    assert not thread.is_alive()
    connection.close()
    listening.close()


def test_the_command_says_where_and_ends_by_ctrl_c(tmp_path):
    """In a process of its own, as somebody starts it."""
    from tests.hub.speaking import spoken

    spoken(tmp_path)
    words = ["serve", "--model", str(tmp_path), "--card", str(tmp_path / "card.json"), "--port", "0", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "unmask", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"UNMASK_TOKEN": "secret"},
    )
    with process:
        address = json.loads(process.stdout.readline())
        assert address["model"] == "small"
        connection = http.client.HTTPConnection(address["url"].split("/")[2], timeout=60)
        connection.request("GET", "/v1/models", headers={"authorization": "Bearer secret"})
        answer = connection.getresponse()
        assert (answer.status, json.load(answer)["data"][0]["id"]) == (200, "small")
        connection.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
        assert process.stderr.read().splitlines()[-1] == "unmask: interrupted; the server was stopped"


def test_a_port_in_use_is_said_before_a_model_is_loaded(monkeypatch, tmp_path, capsys):
    from unmask.cli.main import main

    monkeypatch.delenv("UNMASK_TOKEN", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["serve", "--model", "nothing-of-this-name", "--port", str(port)]) == 2
    assert f"port {port}: address already in use" in (said := capsys.readouterr().err)
    assert said.count("\n") == 1
    assert main(["serve", "--model", "nothing-of-this-name", "--host", "0.0.0.0", "--port", "0"]) == 2
    assert "pass --token-file FILE" in capsys.readouterr().err
    (tmp_path / "token").write_text("  \n")
    assert main(["serve", "--model", "x", "--token-file", str(tmp_path / "token")]) == 2
    assert "holds no token" in capsys.readouterr().err
