"""`unmask doctor`: what is here is said, and what is broken stops none of it."""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import torch

from unmask.cost import surroundings

DECLARED = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def name_of(requirement):
    return requirement.partition(">")[0].replace("-", "_")


def test_what_is_here(run):
    ran = run("doctor", "--json")
    assert (ran.code, ran.err) == (0, "")
    found = ran.result
    assert list(found) == ["versions", "machine", "threads", "caches", "extras"]
    assert found["versions"]["torch"] == torch.__version__
    assert found["machine"]["devices"].startswith("cpu")
    assert found["threads"]["of torch"] == torch.get_num_threads()
    assert "unknown" not in str(found)
    assert found["caches"]["kernels"].endswith("B")


def test_what_is_broken_stops_nothing(run, monkeypatch):
    """A torch that cannot be imported, a package that is missing, no place for kernels."""

    def missing(package):
        raise PackageNotFoundError(package)

    monkeypatch.setattr(surroundings, "version", missing)
    monkeypatch.setattr("unmask.core.compiled.directory", lambda source: None)
    monkeypatch.setitem(sys.modules, "torch", None)
    ran = run("doctor", "--json")
    assert ran.code == 0
    assert ran.result["versions"]["torch"] is None
    assert ran.result["machine"]["devices"].startswith("unknown: ModuleNotFoundError")
    assert ran.result["caches"]["kernels"].startswith("nowhere")
    assert ran.result["extras"]["parquet"].startswith("not installed: pip install 'unmask[parquet]'")


def test_the_table(run):
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
