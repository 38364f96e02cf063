"""What is refused, and how it is said: an error as OpenAI's clients know it, and the server goes on."""

from __future__ import annotations

from unittest.mock import ANY

import pytest
from starlette.testclient import TestClient

from tests.serve.conftest import LIMITS
from tests.serve.test_answers import SAID, chat, completion
from unmask import UnmaskError
from unmask.serve import batches
from unmask.serve.app import Endpoint
from unmask.serve.batches import Row
from unmask.serve.requests import Refused
from unmask.serve.running import bound, url

LONG = "the cat sat on the mat. " * 30
UNSUPPORTED = "unsupported_for_diffusion"
WRONG = [  # fields of a completion, status, code, and words of the message
    ({"model": "other"}, 404, "model_not_found", "there is no model 'other'; expected small"),
    ({"sampler": "lada"}, 400, "invalid_value", "unknown sampler 'lada'; did you mean llada"),
    ({"sampler": "os:system"}, 400, "invalid_value", "--allow-imports os"),
    ({"sampler": "blocks(inner='os:system')"}, 400, "invalid_value", "--allow-imports os"),
    ({"schedule": "lineer", "sampler": "autoregressive"}, 400, "invalid_value", "unknown schedule 'lineer'"),
    ({"n": 5}, 413, "too_many_answers", "the request is for 5 answers; expected at most 4"),
    ({"n": 0}, 400, "invalid_value", "n is 0; expected at least 1"),
    ({"max_tokens": 33}, 413, "too_many_tokens", "max_tokens is 33; expected at most 32"),
    ({"max_tokens": 0}, 400, "invalid_value", "max_tokens is 0"),
    ({"steps": 10**6}, 413, None, "steps is too large"),
    ({"prompt": LONG}, 400, "context_length_exceeded", "expected at most 64"),
    ({"prompt": LONG[:150], "max_tokens": 32}, 400, "context_length_exceeded", "expected at most 64 together"),
    ({"prompt": [1, 2]}, 400, "invalid_value", "prompt"),
    ({"prompt": []}, 400, "invalid_value", "prompt"),
    ({"temperature": "hot"}, 400, "invalid_value", "temperature is 'hot'; expected a number"),
    ({"temperature": -1.0}, 400, "invalid_value", "temperature is -1"),
    ({"top_p": 2.0}, 400, "invalid_value", "top_p is 2"),
    ({"seed": -1}, 400, "invalid_value", "the seed"),
    ({"logprobs": 5}, 400, UNSUPPORTED, "logprobs is 5; this field is not supported"),
    ({"suffix": "x"}, 400, UNSUPPORTED, "suffix is 'x'"),
    ({"temprature": 1}, 400, "unknown_parameter", "temprature"),
    ({"guidance": -1.0}, 400, "invalid_value", "guidance is -1"),
    ({"diffusion": {"stepz": 1}}, 400, "unknown_parameter", "stepz"),
    ({"diffusion": {"steps": "x"}}, 400, "invalid_value", "diffusion.steps is 'x'"),
    ({"diffusion": {"steps": 2}, "steps": 3}, 400, "invalid_value", "steps is given twice"),
    ({"diffusion": {"threshold": 2.0}}, 400, "invalid_value", "threshold is 2"),
    ({"diffusion": {"threshold": 0.5, "entropy_bound": 0.1}}, 400, UNSUPPORTED, "no such option"),
    ({"diffusion": {"threshold": 0.5, "algorithm": "ancestral"}}, 400, UNSUPPORTED, "'ancestral' has no such option"),
    ({"diffusion": {"block_length": 4, "canvas_length": 8}}, 400, UNSUPPORTED, "expected equal lengths"),
    ({"diffusion": {"max_forwards": 0}}, 400, "invalid_value", "diffusion.max_forwards is 0"),
    ({"diffusion": {"revise": True}}, 400, UNSUPPORTED, "diffusion.revise is True, but False"),
    ({"trace": "all"}, 400, "invalid_value", "unknown trace 'all'"),
    ({"stream_mode": "drafts"}, 400, "invalid_value", "unknown stream_mode 'drafts'"),
]


def refused(answer, status, code=ANY):
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert set(error) == {"message", "type", "param", "code"}
    assert "\n" not in error["message"]
    return error["message"]


def test_fields_that_are_wrong(client, model):
    for fields, status, code, words in WRONG:
        if fields.get("sampler") == "autoregressive" and not model.card.causal:
            fields = {"schedule": fields["schedule"]}
        answer = completion(client, **fields)
        message = refused(answer, status, code)
        if status == 400 and "prompt" not in fields:  # it names the field
            inner = next(iter(fields.values()))
            names = {f"diffusion.{name}" for name in inner} if isinstance(inner, dict) else {*fields}
            param = answer.json()["error"]["param"]
            assert param in names or f"diffusion.{param}" in names, (fields, message)
        if words != "the seed":
            assert words in message
    assert completion(client).status_code == 200


def test_what_a_model_cannot_do(client, model):
    if model.card.causal:
        assert "is an AR model" in refused(completion(client, sampler="ancestral"), 400)
    else:
        assert "needs an AR model" in refused(completion(client, sampler="speculative"), 400)
    assert "block_length" in refused(completion(client, sampler="autoregressive", block_length=2), 400)
    said = [{"role": "user", "content": "x"}, {"role": "system", "content": "y"}, {"role": "user", "content": "x"}]
    assert "expected it first" in refused(chat(client, messages=said), 400)
    refused(chat(client, messages=[]), 400)
    refused(chat(client, messages=[{"role": "tool", "content": "x"}]), 400)


def test_what_says_nothing_may_be_said(client):
    silent = {"user": "me", "presence_penalty": 0, "response_format": {"type": "text"}, "tools": [], "logprobs": False}
    assert chat(client, **silent, n=None, stop=None, seed=None).status_code == 200


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b'{"model": NaN}', b"\xff\xfe", b'{"model": "small"}', b"[" * 3000]
)
def test_broken_json(client, body):
    answer = client.post("/v1/chat/completions", content=body, headers={"content-type": "application/json"})
    refused(answer, 400)


def test_too_large(client):
    assert "4000 bytes" in refused(completion(client, "x" * 5000), 413, "request_too_large")

    def pieces():  # of which no header says how many there are
        for _ in range(100):
            yield b" " * 100

    answer = client.post("/v1/completions", content=pieces(), headers={"content-type": "application/json"})
    refused(answer, 413, "request_too_large")


def test_another_type_of_another_site(client):
    """A page of another site can send text without asking, and a name of its own that leads here."""
    answer = client.post("/v1/completions", content=b"{}", headers={"content-type": "text/plain"})
    assert "expected application/json" in refused(answer, 415)
    assert "not local" in refused(client.get("/v1/models", headers={"host": "evil.example:8000"}), 403, "wrong_host")
    for name in ("localhost:8000", "[::1]:8000", "127.0.0.1"):
        assert client.get("/v1/models", headers={"host": name}).status_code == 200


def test_no_such_place(client):
    assert "expected /v1/models" in refused(client.get("/v2/models"), 404)
    assert "method not allowed" in refused(client.get("/v1/completions"), 405)
    refused(client.get("/v1/models/other"), 404, "model_not_found")


def test_a_token_is_asked_for(models):
    endpoint = Endpoint(models["ar"], limits=LIMITS, token="secret")
    with TestClient(endpoint.app()) as client:
        for said in ({}, {"authorization": "Bearer other"}, {"authorization": "secret"}):
            answer = client.post("/v1/chat/completions", json={"messages": SAID}, headers=said)
            refused(answer, 401, "invalid_api_key")
            refused(client.get("/v1/models", headers=said), 401, "invalid_api_key")
        assert client.get("/v1/models", headers={"authorization": "Bearer secret"}).status_code == 200


def test_a_queue_that_is_full(endpoint, client):
    """Six rows may wait; nobody loses a position by it."""
    endpoint.batches.close()
    endpoint.batches._closed = False  # nobody works
    task_rows = []

    class Task:
        key = "x"

    for _ in range(5):
        task_rows.append(Row(Task(), 0, lambda row, event: None))
    endpoint.batches.put(task_rows)
    answer = completion(client, n=2)
    assert "the queue has 5 of at most 6" in refused(answer, 429, "queue_full")
    assert answer.headers["retry-after"] == "1"
    endpoint.batches.drop(task_rows)
    assert len(endpoint.batches) == 0
    endpoint.batches.start()
    assert completion(client, n=2).status_code == 200


def test_a_batch_that_fails_is_tried_row_by_row(endpoint, client, monkeypatch):
    """Who is wrong is told, and nobody else."""
    usual = batches.answers

    def answers(model, asked, length, **options):
        if any(one.prompt == "bad" for one in asked):
            raise UnmaskError("this one is bad")
        return usual(model, asked, length, **options)

    monkeypatch.setattr(batches, "answers", answers)
    assert refused(completion(client, ["a", "bad"]), 400) == "this one is bad"
    assert completion(client).status_code == 200
    streamed = completion(client, "bad", stream=True)
    assert "this one is bad" in streamed.text
    assert "[DONE]" not in streamed.text
    monkeypatch.setattr(batches, "answers", lambda *_, **__: 1 / 0)
    assert "this is a defect of unmask: ZeroDivisionError" in refused(completion(client), 500)
    monkeypatch.setattr(batches, "answers", usual)
    assert completion(client).status_code == 200


def test_where_it_listens():
    with pytest.raises(UnmaskError, match=r"a token is required. Write one to a file, and pass --token-file"):
        bound("0.0.0.0", 0, None)
    with pytest.raises(UnmaskError, match="expected an address of this machine"):
        bound("no.such.host.invalid", 0, None)
    bound("0.0.0.0", 0, "secret").close()
    with bound("127.0.0.1", 0, None) as listening:
        port = listening.getsockname()[1]
        assert url(listening) == f"http://127.0.0.1:{port}/v1"
        with pytest.raises(
            UnmaskError, match=rf"cannot listen at 127.0.0.1, port {port}: .* Pass another port: --port N"
        ):
            bound("localhost", port, None)


def test_what_is_refused_has_a_type():
    assert Refused("x", 429).to_dict()["error"]["type"] == "rate_limit_error"
    assert Refused("x").to_dict()["error"] == {
        "message": "x",
        "type": "invalid_request_error",
        "param": None,
        "code": None,
    }
