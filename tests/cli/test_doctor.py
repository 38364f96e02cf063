"""`unmask doctor`: what is here is said, and what is broken stops none of it."""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import torch

from unmask.core.errors import UnmaskError
from unmask.cost import surroundings
from unmask.sandbox import Sandbox

DECLARED = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def name_of(requirement):
    return requirement.partition(">")[0].replace("-", "_")


def test_what_is_here(run):
    ran = run("doctor", "--json")
    assert (ran.code, ran.err) == (0, "")
    found = ran.result
    assert list(found) == ["versions", "machine", "threads", "caches", "sandbox", "extras"]
    assert found["versions"]["torch"] == torch.__version__
    assert found["machine"]["devices"].startswith("cpu")
    assert found["threads"]["of torch"] == torch.get_num_threads()
    assert "unknown" not in str({name: part for name, part in found.items() if name != "sandbox"})
    assert found["caches"]["kernels"].endswith("B")
    sandbox = found["sandbox"]
    assert sandbox["level"] in (2, 3) if isinstance(sandbox, dict) else "no sandbox works here" in sandbox


def refuse(*_):
    raise UnmaskError("no sandbox works here: none")


def test_what_is_broken_stops_nothing(run, monkeypatch):
    """A torch that cannot be imported, a package that is missing, a jail that does not hold, no place for kernels."""

    def missing(package):
        raise PackageNotFoundError(package)

    monkeypatch.setattr(Sandbox, "strongest", refuse)
    monkeypatch.setattr(surroundings, "version", missing)
    monkeypatch.setattr("unmask.core.compiled.directory", lambda source: None)
    monkeypatch.setitem(sys.modules, "torch", None)
    ran = run("doctor", "--json")
    assert ran.code == 0
    assert ran.result["versions"]["torch"] is None
    assert ran.result["machine"]["devices"].startswith("unknown: ModuleNotFoundError")
    assert ran.result["caches"]["kernels"].startswith("nowhere")
    assert ran.result["sandbox"] == "unknown: UnmaskError: no sandbox works here: none"
    assert ran.result["extras"]["cluster"].startswith("not installed: pip install 'unmask[cluster]'")


def test_the_table(run, monkeypatch):
    monkeypatch.setattr(Sandbox, "strongest", refuse)
    ran = run("doctor")
    assert ran.code == 0
    assert ran.out.startswith("versions  unmask ")
    assert "versions: torch " in run("doctor", "--verbose").out
    assert max(map(len, ran.out.splitlines())) <= 80


def test_extras_are_those_of_the_package():
    """What the command says is what pyproject.toml declares, but for what only this project's own work needs."""
    declared = {
        name: tuple(name_of(one) for one in needed if not one.startswith("unmask["))
        for name, needed in DECLARED["optional-dependencies"].items()
        if name not in ("test", "extras", "bench", "docs")
    }
    assert {name: extra.packages for name, extra in surroundings.EXTRAS.items()} == declared


@pytest.mark.parametrize("package", surroundings.PACKAGES)
def test_packages_are_dependencies(package):
    assert package in map(name_of, DECLARED["dependencies"])
