"""unmask audit --endpoint and unmask eval --endpoint, against the fake server."""

from __future__ import annotations

import json
from pathlib import Path

from unmask.testing import FakeServer


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
    ran = run("audit", "--endpoint", server.url)
    assert (ran.code, "no connection to 127.0.0.1" in ran.err) == (2, True)
