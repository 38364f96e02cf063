"""Kernels are kept by the state of all sources that they were made of, and nothing is ever taken away."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from unmask.core import compiled

CALLEE = "from unmask.core.compiled import kernel\n\n\n@kernel\ndef number():\n    return {}\n"
CALLER = (
    "from callee import number\nfrom unmask.core.compiled import kernel\n\n\n@kernel\ndef ask():\n    return number()\n"
)


@pytest.fixture
def sources(tmp_path):
    (tmp_path / "callee.py").write_text(CALLEE.format(1))
    (tmp_path / "caller.py").write_text(CALLER)
    return tmp_path


@pytest.fixture
def asked(sources, monkeypatch):
    """`answer` of who begins again in this process: with no module, and nothing known of any file."""
    monkeypatch.syspath_prepend(sources)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(compiled, "PACKAGE", sources)
    monkeypatch.setattr(compiled.config, "CACHE_DIR", str(sources / "kept"))

    def ask(called=("callee.py",)):
        monkeypatch.setattr(compiled, "CALLED", called)
        forget()
        made = importlib.import_module("caller").ask
        return made(), sum(made.stats.cache_hits.values())

    def forget():
        compiled.directory.cache_clear()
        compiled.digest.cache_clear()
        for name in ("callee", "caller"):
            sys.modules.pop(name, None)

    yield ask
    forget()


def test_a_kernel_changes_with_what_it_calls_and_nothing_is_deleted(sources, asked):
    assert asked() == (1, 0)
    assert asked() == (1, 1)
    kept = set((sources / "kept").rglob("*.nb?"))
    (sources / "callee.py").write_text(CALLEE.format(2))
    assert asked() == (2, 0)
    assert kept < set((sources / "kept").rglob("*.nb?"))
    (sources / "callee.py").write_text(CALLEE.format(1))
    assert asked() == (1, 1)


def test_mutant_that_asks_for_its_own_file_only_is_stale(sources, asked):
    assert asked(()) == (1, 0)
    (sources / "callee.py").write_text(CALLEE.format(2))
    assert asked(()) == (1, 1)


def test_all_sources_that_may_be_called_are_there():
    for pattern in compiled.CALLED:
        assert list(compiled.PACKAGE.glob(pattern))


UNWRITABLE = """
import importlib, pkgutil, sys
from numba.core import caching
caching.CacheImpl._locator_classes = []  # numba's own cache refuses to compile where no directory can be written
import unmask
for module in pkgutil.walk_packages(unmask.__path__, "unmask."):
    if module.name.split(".")[1] in ("languages", "samplers", "theory", "denoisers", "metrics"):
        importlib.import_module(module.name)
"""
COMMAND = "import sys; from unmask.cli.main import main; sys.exit(main(['show', 'language', 'interval-5']))"


@pytest.mark.long
@pytest.mark.parametrize(
    ("before", "environment", "code", "words"),
    [
        (UNWRITABLE, {"NUMBA_CACHE_DIR": "/proc/nowhere"}, 0, "no cache directory is writable"),
        ("", {"NUMBA_DISABLE_JIT": "1"}, 2, "NUMBA_DISABLE_JIT is set"),
        ("", {"NUMBA_NUM_THREADS": "0"}, 2, "Correct the variable NUMBA_NUM_THREADS, or unset it."),
    ],
    ids=["no place", "no compiler", "no thread"],
)
def test_without_a_place_to_keep_kernels_and_without_a_compiler(tmp_path, before, environment, code, words):
    """It works with every kernel and says so once, or says what it needs, in one line."""
    said = subprocess.run(
        [sys.executable, "-c", before + COMMAND],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(compiled.PACKAGE.parent)} | environment,
        capture_output=True,
        text=True,
    )
    told = [line for line in said.stderr.splitlines() if words in line]
    assert (said.returncode, len(told)) == (code, 1), said.stderr
    assert "Traceback" not in said.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_user_without_a_home_has_the_place_beside_the_source(monkeypatch):
    monkeypatch.setattr(compiled.config, "CACHE_DIR", "")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert compiled._parents(Path("/there/file.py")) == [Path("/there/__pycache__")]


TOGETHER = """
import sys, time
from pathlib import Path
from numba.core.event import Listener, register

class Count(Listener):
    def on_start(self, event):
        print("compiled", event.data["dispatcher"].py_func.__name__)
    def on_end(self, event):
        pass

register("numba:compile", Count())
import together
Path(sys.argv[1]).touch()
while len(list(Path(sys.argv[1]).parent.glob("ready-*"))) < 3:
    time.sleep(0.001)
print(together.outer(2), together.outer(2.0))
"""
KERNELS = """
from unmask.core.compiled import kernel

@kernel
def inner(x):
    return x * x

@kernel
def outer(x):
    for _ in range(3):
        x = inner(x) + 1
    return x
"""


@pytest.mark.long
def test_processes_that_start_together_compile_each_kernel_once(tmp_path):
    """Each of two signatures of two kernels, one of which calls the other."""
    (tmp_path / "together.py").write_text(KERNELS)
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    made = [
        subprocess.Popen(
            [sys.executable, "-c", TOGETHER, str(tmp_path / f"ready-{i}")],
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kept"), "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(3)
    ]
    said = [process.communicate(timeout=300)[0].splitlines() for process in made]
    assert {lines[-1] for lines in said} == {"677 677.0"}
    compiled = [line for lines in said for line in lines if line.startswith("compiled")]
    assert sorted(compiled) == ["compiled inner", "compiled inner", "compiled outer", "compiled outer"]
