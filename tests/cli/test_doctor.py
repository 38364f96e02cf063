"""`unmask doctor`: versions, devices and extras, also where something is missing or broken."""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import torch

DECLARED = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def test_what_is_here(run):
    ran = run("doctor", "--json")
    assert (ran.code, ran.err) == (0, "")
    found = ran.result
    assert list(found) == ["versions", "devices", "extras"]
    assert found["versions"]["torch"].partition("+")[0] == torch.__version__.partition("+")[0]  # 2.13.0+cu130 is 2.13.0
    assert found["devices"].startswith("cpu")
    assert max(map(len, run("doctor").out.splitlines())) <= 80


def requirements(*extras):
    """As in the metadata of a package."""
    every = DECLARED["optional-dependencies"]
    return [f'{one}; extra == "{name}"' for name in extras for one in every[name]]


def test_extras_are_those_of_the_package(run, monkeypatch):
    left_out = ("all", "test", "extras", "bench", "docs")
    names = [name for name in DECLARED["optional-dependencies"] if name not in left_out]
    declared = ["torch>=2.6", *requirements(*DECLARED["optional-dependencies"])]
    monkeypatch.setattr("importlib.metadata.requires", lambda package: declared)
    assert list(run("doctor", "--json").result["extras"]) == names


def test_what_is_broken_stops_nothing(run, monkeypatch):
    """A torch that cannot be imported, and packages that are missing."""
    missing = ("torch", "tokenizers")
    monkeypatch.setattr("importlib.metadata.requires", lambda package: requirements("text", "open"))
    monkeypatch.setattr("unmask.core.files.version", lambda name: None if name in missing else version("numpy"))
    monkeypatch.setitem(sys.modules, "torch", None)
    ran = run("doctor", "--json")
    assert ran.code == 0
    assert ran.result["versions"]["torch"] is None
    assert ran.result["devices"].startswith("unknown: ModuleNotFoundError")
    assert ran.result["extras"] == {"text": False, "open": True}
    assert "text: pip install 'unmask[NAME]'" in run("doctor").out
