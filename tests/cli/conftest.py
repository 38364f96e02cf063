from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from tests.sparing import held_out_in_part
from unmask.cli.main import main
from unmask.core import progress


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """The JSON object on the last line of stdout; the JSON of a program that knows no NaN."""
        return json.loads(self.out.splitlines()[-1], parse_constant=pytest.fail)


@pytest.fixture(scope="module", autouse=True)
def sparing():
    with held_out_in_part():
        yield


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """`unmask` in process, in an empty directory: run("generate", "--rows", 3)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(progress, "START", 1e6)
    monkeypatch.setattr(progress, "FIRST", 1e6)  # seconds: a busy machine must not make commands talk

    def call(*arguments: object) -> Ran:
        capsys.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code
        return Ran(code, *capsys.readouterr())

    return call
