"""`make` says in a sentence what is missing before it makes anything."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.needs import ROOT, needs, program

pytestmark = needs("make")


def made(tmp_path, target: str, python: str) -> subprocess.CompletedProcess[str]:
    """`make TARGET` in a directory with a space, where the interpreter is a shell script."""
    place = tmp_path / "a clone"
    place.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, place)
    (tmp_path / "python").write_text(f"#!/bin/sh\n{python}\n")
    (tmp_path / "python").chmod(0o755)
    command = [program("make"), target, f"PYTHON={tmp_path / 'python'}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("python", "expected"),
    [
        ('case "$2" in *version_info*) exit 1;; esac', "unmask needs Python 3.11 or newer"),
        ('case "$2" in *ensurepip*) exit 1;; esac', "has no venv; install the package that has it"),
    ],
)
@pytest.mark.parametrize("target", ["test", "demo", "test-extras"])
def test_what_is_missing(tmp_path, target, python, expected):
    ran = made(tmp_path, target, python)
    assert ran.returncode != 0
    assert expected in ran.stderr
    assert not (tmp_path / "a clone" / ".venv").exists()
