"""Starting is quick because nothing slow is imported: counted in modules, since a wall clock lies on a busy machine."""

from __future__ import annotations

import subprocess
import sys

import pytest

from unmask.cli.main import COMMANDS

SLOW = {"torch", "numba", "llvmlite", "transformers", "scipy", "pandas", "altair", "vl_convert"}


def modules_of(program: str) -> set[str]:
    """The modules that a fresh interpreter holds after a program, which must end well."""
    report = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
    done = subprocess.run([sys.executable, "-c", report + program], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def imported_by(program: str) -> set[str]:
    """Its top-level modules."""
    return {name.partition(".")[0] for name in modules_of(program)}


def test_the_count_sees_an_import():
    assert "fractions" in imported_by("import fractions")


def test_importing_unmask_is_light():
    modules = imported_by("import unmask")
    assert "unmask" in modules
    assert not modules & (SLOW | {"rich"})


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_top_level_options_are_light(option):
    modules = imported_by(f"from unmask.cli.main import main; raise SystemExit(main(['{option}']))")
    assert not modules & (SLOW | {"numpy", "rich"})


@pytest.mark.sampled(4)
@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_is_light(command):
    modules = imported_by(f"from unmask.cli.main import main; raise SystemExit(main(['{command}', '--help']))")
    assert "unmask" in modules
    assert not modules & (SLOW | {"numpy", "rich"})


def test_generating_from_a_language_imports_no_networks(tmp_path):
    words = ["generate", "--language", "interval-5", "--length", "10", "--rows", "2", "--out", str(tmp_path / "a.npy")]
    modules = modules_of(f"from unmask.cli.main import main; raise SystemExit(main({words}))")
    assert {"unmask.samplers.generation", "unmask.languages.interval"} <= modules
    assert not modules & {"unmask.models.trained", "unmask.models.open", "unmask.models.text"}


def test_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "unmask", "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: unmask")


@pytest.mark.parametrize("words", [[], ["generate", "--language", "interval-5", "--out", "x.npy"], ["doctor"]])
def test_a_working_directory_that_has_been_removed_is_an_error_of_one_line(words, tmp_path):
    program = "import os, sys; os.rmdir(os.getcwd()); from unmask.cli.main import main; sys.exit(main(sys.argv[1:]))"
    (tmp_path / "gone").mkdir()
    command = [sys.executable, "-P", "-c", program, *words]
    ran = subprocess.run(command, cwd=tmp_path / "gone", capture_output=True, text=True)
    message = "unmask: error: the working directory was removed. Change to a directory that exists\n"
    said = [line for line in ran.stderr.splitlines(True) if ": at work for " not in line]  # of a busy machine
    assert (ran.returncode, said) == (2, [message])
