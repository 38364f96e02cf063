from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.needs import needs
from unmask.cli import main as cli
from unmask.cli.options import Answer
from unmask.core.errors import UnmaskError


class Calls(list):
    """What the fake command was called with; `error` is what it raises."""

    error: BaseException | None = None


@pytest.fixture
def calls(monkeypatch):
    """A command `fake`, known to the command line for the length of a test."""
    made = Calls()

    def command(path: Path, /, *, language: str, batch_size: int = 8, json: bool = False) -> None:
        """Count what is in a file.

        Args:
            path: The file.
            language: Its language.
            batch_size: Rows at once.
            json: Print one JSON object.
        """
        if made.error is not None:
            raise made.error
        made.append((path, language, batch_size, json))

    module = ModuleType("unmask.cli.fake")
    module.command = command
    monkeypatch.setitem(sys.modules, "unmask.cli.fake", module)
    monkeypatch.setitem(cli.GROUPS["Try"], "fake", "does nothing")
    return made


def run(*arguments: str) -> int:
    """The exit code, whether it is returned or raised."""
    try:
        return cli.main(list(arguments))
    except SystemExit as stop:
        return stop.code


def test_an_answer_is_printed_as_text_or_as_json_before_its_failure(calls, capsys, monkeypatch):
    def command(rows: int = 1, /) -> Answer:
        """Count."""
        return Answer({"rows": rows}, [("sequences", f"{rows} of 8")], "" if rows else "there are none")

    monkeypatch.setattr(sys.modules["unmask.cli.fake"], "command", command)
    assert (run("fake", "3"), capsys.readouterr()) == (0, ("sequences  3 of 8\n", ""))
    assert (run("fake", "3", "--json"), capsys.readouterr()) == (0, ('{"rows": 3}\n', ""))
    assert (run("fake", "0", "--json"), capsys.readouterr()) == (
        2,
        ('{"rows": 0}\n', "unmask: error: there are none\n"),
    )
    assert run("fake", "--help") == 0
    assert "--json      Print one JSON object" in capsys.readouterr().out


def test_a_command_gets_its_arguments(calls):
    assert run("fake", "x.npy", "--language", "interval-5") == 0
    assert run("fake", "x.npy", "--language", "interval-5", "--batch-size", "3", "--json") == 0
    assert calls == [(Path("x.npy"), "interval-5", 8, False), (Path("x.npy"), "interval-5", 3, True)]


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_lists_the_commands(calls, capsys, option):
    assert run(option) == 0
    out, err = capsys.readouterr()
    assert all(f"\n  {name} " in out for name in cli.COMMANDS)
    assert all(option in out for option in cli.OPTIONS)
    assert err == ""


def test_no_command_is_a_mistake(capsys):
    assert run() == 2
    assert capsys.readouterr().err.startswith("usage: unmask")


def test_version(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out.startswith("unmask 0.")


def test_help_of_a_command(calls, capsys):
    assert run("fake", "--help") == 0
    out, err = capsys.readouterr()
    assert out.startswith("usage: unmask fake")
    assert "--batch-size" in out
    assert "--no-json" not in out
    assert err == ""


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["fakee"], "unmask: error: unknown command 'fakee'; did you mean fake?"),
        (["zzz"], "unknown command 'zzz'; `unmask --help` lists all commands"),
        (["--hepl"], "unknown option '--hepl'; did you mean --help?"),
    ],
)
def test_an_unknown_name_brings_the_nearest(calls, capsys, arguments, hint):
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert hint in err
    assert (out, err.count("\n")) == ("", 1)


MISTAKES = [
    (UnmaskError("the seed is -1"), 2, "unmask: error: the seed is -1\n"),
    (FileNotFoundError(errno.ENOENT, "No such file or directory", "x"), 2, "unmask: error: x: No such file or"),
    (OSError("the disk sleeps"), 2, "unmask: error: the disk sleeps\n"),
    (MemoryError("Unable to allocate 3 TiB"), 2, "unmask: error: out of memory"),
    (RuntimeError("DefaultCPUAllocator: can't allocate memory"), 2, "unmask: error: out of memory"),
    (KeyboardInterrupt(), 130, "unmask: interrupted; nothing was left half-written\n"),
    (KeyboardInterrupt("half is kept"), 130, "unmask: interrupted; half is kept\n"),
]


@pytest.mark.parametrize(("error", "code", "message"), MISTAKES)
def test_a_mistake_is_one_line(calls, capsys, error, code, message):
    calls.error = error
    assert run("fake", "x", "--language", "interval-5") == code
    out, err = capsys.readouterr()
    assert err.startswith(message)
    assert (out, err.count("\n")) == ("", 1)


@pytest.mark.parametrize(("error", "code", "message"), MISTAKES)
@pytest.mark.parametrize("place", [0, 1, 4])
def test_debug_adds_the_traceback(calls, capsys, error, code, message, place):
    calls.error = error
    arguments = ["fake", "x", "--language", "interval-5"]
    arguments.insert(place, "--debug")
    assert run(*arguments) == code
    err = capsys.readouterr().err
    assert err.startswith("Traceback")
    assert message in err.splitlines(keepends=True)[-1] + "\n"


@pytest.mark.parametrize("error", [ZeroDivisionError("division by zero"), RuntimeError("size mismatch")])
def test_a_defect_shows_its_traceback_and_asks_for_a_report(calls, capsys, monkeypatch, error):
    calls.error = error
    monkeypatch.setattr(cli, "__file__", __file__)  # as if this file were ours
    assert run("fake", "x", "--language", "interval-5") == 1
    err = capsys.readouterr().err
    assert err.startswith("Traceback")
    assert str(error) in err
    assert "report" in err.splitlines()[-1]


def test_what_others_raise_is_no_defect_of_ours(calls, capsys):
    calls.error = ZeroDivisionError("division by zero")
    assert run("fake", "x", "--language", "interval-5") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"unmask: error: ZeroDivisionError: division by zero in {__file__}, line ")


PROGRAM = """
import sys
from types import ModuleType
from unmask.cli.main import GROUPS, main

def command() -> None:
    print("what was asked for")

sys.modules["unmask.cli.fake"] = ModuleType("unmask.cli.fake")
sys.modules["unmask.cli.fake"].command = command
GROUPS["Try"]["fake"] = "prints"
sys.exit(main())
"""


def start(*arguments: str, stdout: int) -> tuple[int, str]:
    """The exit code and stderr of a fresh process, where closing stdout is part of the story."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False
    )
    return done.returncode, done.stderr


WRITERS = [["--help"], ["fake", "--help"], ["fake"]]


@pytest.mark.parametrize("arguments", WRITERS)
def test_a_closed_pipe_ends_quietly(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert start(*arguments, stdout=writer) == (141, "")
    finally:
        os.close(writer)


@needs("linux")  # /dev/full
@pytest.mark.parametrize("arguments", WRITERS)
def test_a_full_disk_is_one_line(arguments):
    with open("/dev/full", "w") as full:
        assert start(*arguments, stdout=full.fileno()) == (2, "unmask: error: [Errno 28] No space left on device\n")
