"""What some tests need beyond `.[test]`, and whether it is here. One mechanism skips all of them:

    @needs("open")          marks a test, a parameter, or by `pytestmark` a module
    require("lm-eval")     in a fixture; `with required("lm-eval"):` around the imports of a module

A need is an extra of pyproject.toml, a program, a part of this machine, or the distribution of a package. `make test`
records what it skips so, and `make test-extras` runs exactly that (tests/conftest.py).
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DECLARED = {"": PROJECT["project"]["dependencies"]} | PROJECT["project"]["optional-dependencies"]
PROGRAMS = {"chromium": ("chromium", "chromium-browser", "google-chrome"), "make": ("make",)}
PROGRAMS |= {"openssl": ("openssl",), "cc": ("cc",)}


def plain(requirement: str) -> str:
    """The name of a distribution, normalised."""
    return re.split(r"[<>=!~\[; ]", requirement)[0].lower().replace("-", "_").replace(".", "_")


def distributions(extra: str) -> set[str]:
    """Distributions that an extra declares, and those of the extras that it includes."""
    found = set()
    for line in DECLARED[extra]:
        if line.startswith("unmask["):
            found |= set().union(*map(distributions, line[len("unmask[") : -1].split(",")))
        else:
            found.add(plain(line))
    return found


def program(name: str) -> str | None:
    """The path of a program."""
    return next(filter(None, map(shutil.which, PROGRAMS[name])), None)


def _cuda() -> bool:
    import torch

    return torch.cuda.is_available()


MACHINE: dict[str, tuple[Callable[[], object], str]] = {
    "cuda": (_cuda, "torch finds no CUDA device"),
    "linux": (lambda: sys.platform == "linux" and os.path.isdir("/proc/self"), "it is not Linux with /proc"),
    "root": (lambda: os.geteuid() == 0, "only root becomes another user"),
    "git": (lambda: shutil.which("git") and (ROOT / ".git").exists(), "it is not a clone, or git is not installed"),
}


def missing(need: str) -> str | None:
    """Why a need is not met, and what to install; None where it is met."""
    if need in MACHINE:
        there, reason = MACHINE[need]
        return None if there() else reason
    if need in PROGRAMS:
        return None if program(need) else f"no program {' or '.join(PROGRAMS[need])} on PATH"
    absent = sorted(name for name in (distributions(need) if need in DECLARED else {plain(need)}) if not _here(name))
    install = f"-e '.[{need}]'" if need in DECLARED else need
    return f"{', '.join(absent)} not installed; pip install {install}" if absent else None


def _here(distribution: str) -> bool:
    try:
        return bool(version(distribution))
    except PackageNotFoundError:
        return False


def require(*names: str) -> None:
    """Skips the test, or the module that is imported, where a need is not met."""
    for need in names:
        if reason := missing(need):
            unmet(need, reason)


@contextmanager
def required(*names: str) -> Iterator[None]:
    """The same, around imports that come after the others."""
    require(*names)
    yield


def unmet(need: str, reason: object) -> None:
    """Skips, for a reason that the caller has found."""
    pytest.skip(f"needs {need}: {reason}", allow_module_level=True)


def needs(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.needs(*names)
