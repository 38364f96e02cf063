"""unmask audit --endpoint and unmask eval --endpoint, against the fake server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.experiments.evaluation.test_remote import sums
from unmask.testing import FakeServer


@pytest.mark.rotates(3)
def test_audit_of_a_server(run):
    with FakeServer(faults=["order"]) as server:
        ran = run("audit", "--endpoint", server.url, "--draws", 20, "--out", "audit.json", "--json")
        assert (ran.code, ran.result["red"]) == (0, ["order"]), ran.err
        assert json.loads(Path("audit.json").read_text()) == ran.result
        ran = run("audit", "--endpoint", server.url, "--draws", 20, "--dialect", "openai-chat", "--model", "fake")
        assert "order         red: 100% of the steps between neighbors go to the right" in ran.out
        assert "1 red, 13 green, 0 unknown, in" in ran.out
    assert "unmask audit needs SAMPLES, or --endpoint URL" in run("audit").err
    assert "exclude each other" in run("audit", "x.npy", "--endpoint", server.url).err
    assert "timeout total is 0.0; expected a positive number" in run("audit", "--endpoint", "x", "--timeout", 0).err
    ran = run("audit", "--endpoint", server.url)
    assert (ran.code, "no connection to 127.0.0.1" in ran.err) == (2, True)


def test_evaluation_of_a_server(run):
    with FakeServer(text=sums) as server:
        words = ("eval", "--endpoint", server.url, "--task", "sums", "--limit", 20, "--send", "stream=true")
        ran = run(*words, "--concurrency", 1, 4, "--json")
        assert ran.code == 0, ran.err
        one, many = ran.result["settings"]
        assert (one["samples"], one["settings"]["concurrency"], many["settings"]["concurrency"]) == (20, 1, 4)
        assert one["settings"]["stream"] is True
        assert one["seconds_to_first_text"]["n"] == 20
        assert [made["requests"] for made in ran.result["runs"]] == [20, 20]
        shown = run("eval", "show", "eval").out
        assert "fake, openai-chat, concurrency=4" in " ".join(shown.split())
        ran = run(*words, "min_p=0.1", "--store", "refused")
        assert ran.code == 3
        assert "It names the field min_p: add --drop min_p" in ran.err
        ran = run(*words, "min_p=0.1", "--drop", "min_p", "stream", "--store", "dropped", "--json")
        assert (ran.code, ran.result["settings"][0]["samples"]) == (0, 20)
        assert "the options of a model on disk do not apply to --endpoint" in run(*words, "--steps", 4).err
        assert "--send is 'x'; expected NAME=JSON" in run(*words[:-2], "--send", "x").err
        assert "needs --task" in run(*words[:3]).err
