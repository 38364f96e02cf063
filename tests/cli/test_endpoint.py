"""unmask audit --endpoint, against the fake server; the page of it has what the command prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.needs import ROOT, required

with required("endpoint"):
    from tests.diagnosis.endpoint.server import FakeServer


@pytest.mark.long
def test_audit_of_a_server(run):
    with FakeServer(faults=["chunks"]) as server:
        ran = run("audit", "--endpoint", server.url, "--draws", 20, "--out", "audit.json", "--json")
        assert (ran.code, ran.result["red"]) == (0, ["chunks"]), ran.err
        assert json.loads(Path("audit.json").read_text()) == ran.result
        ran = run("audit", "--endpoint", server.url, "--draws", 20, "--model", "fake")
        assert "chunks        red: each chunk repeats the text before it" in ran.out
        assert "1 red, 11 green, 0 unknown, in" in ran.out
    assert "unmask audit needs SAMPLES, or --endpoint URL" in run("audit").err
    assert "exclude each other" in run("audit", "x.npy", "--endpoint", server.url).err
    assert "timeout is 0.0; expected a positive number" in run("audit", "--endpoint", "x", "--timeout", 0).err
    ran = run("audit", "--endpoint", server.url)
    assert (ran.code, "no connection to 127.0.0.1" in ran.err, ran.err.count("\n")) == (2, True, 1)


@pytest.mark.long
def test_the_page_shows_the_output_of_this_server(run):
    with FakeServer(faults=["temperature", "chunks"]) as server:
        shown = run("audit", "--endpoint", server.url).out
    assert f"```text\n{shown}```\n" in (ROOT / "docs" / "endpoints.md").read_text()
