"""Words to arguments; and what is wrong with them, in a line."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest

from unmask.cli.options import call, parser_of
from unmask.core.errors import UnmaskError
from unmask.experiments import sweep


@dataclass(frozen=True)
class Place:
    """Where.

    Args:
        host: The machine.
        ports: Its doors.
    """

    host: str = "here"
    ports: tuple[int, ...] = ()


def command(
    source: Annotated[Path, "SOURCE"],
    more: Annotated[tuple[str, ...], "NAME"] = (),
    /,
    *,
    rows: int,
    rate: float | None = None,
    kind: Literal["red", "blue"] = "red",
    pruned: bool = True,
    json: bool = False,
    at: Place = Place(),
) -> tuple[object, ...]:
    """Do something.

    Example:
        unmask do x --rows 3

    Args:
        source: What to read.
        rows: How many
            there are.
        kind: Its colour.
        json: Say it in JSON.
    """
    return source, more, rows, rate, kind, pruned, json, at


def ask(*words: str) -> tuple[object, ...]:
    return call("unmask do", command, words)


USUAL = (Path("x"), (), 3, None, "red", True, False, Place())


@pytest.mark.parametrize(
    ("words", "place", "value"),
    [
        ("x --rows 3", 0, Path("x")),
        ("--rows 3 x", 0, Path("x")),
        ("x -n 3", 2, 3),
        ("--rows=3 x", 2, 3),
        ("x --rows 5 --rows 3", 2, 3),
        ("x a b --rows 3", 1, ("a", "b")),
        ("x --rows -3", 2, -3),
        ("x --rows 3 --rate -1e-3", 3, -1e-3),
        ("x --rows 3 --rate -inf", 3, float("-inf")),
        ("x --rows 3 --rate .5", 3, 0.5),
        ("x --rows 3 --kind blue", 4, "blue"),
        ("x --rows 3 --no-pruned", 5, False),
        ("x --rows 3 --json", 6, True),
        ("x --rows 3 --host there", 7, Place("there")),
        ("x --ports 1 -2 --rows 3", 7, Place(ports=(1, -2))),
    ],
)
def test_words_become_arguments(words, place, value):
    assert ask(*words.split())[place] == value
    assert [found for i, found in enumerate(ask(*words.split())) if i not in (place, 2)] == [
        usual for i, usual in enumerate(USUAL) if i not in (place, 2)
    ]


def test_an_underscore_is_a_hyphen():
    def other(*, two_words: int = 1) -> int:
        return two_words

    assert call("unmask other", other, ["--two_words", "3"]) == call("unmask other", other, ["--two-words", "3"]) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("x --rwos 3", "unknown option of unmask do '--rwos'; did you mean --rows"),
        ("x --zzz 3", "unknown option of unmask do '--zzz'; known: --help, "),
        ("x -r 3", "unmask do: unexpected argument '-r'"),
        ("x --rows", "--rows needs a value. See `unmask do --help`"),
        ("x --rows --json", "--rows needs a value"),
        ("x --rows many", "--rows is 'many'; expected a whole number"),
        ("x --rows 1.5", "--rows is '1.5'; expected a whole number"),
        ("x --rows 3 --rate fast", "--rate is 'fast'; expected a number"),
        ("x --rows 3 --kind green", "--kind is 'green'; expected red or blue"),
        ("x --rows 3 --json=yes", "--json: ignored explicit argument 'yes'"),
        ("x", "unmask do needs --rows N. For example: unmask do x --rows 3"),
        ("", "unmask do needs SOURCE and --rows N"),
        ("x --rows " + "9" * 5000, "--rows is '999"),
        ("a\0b --rows 3", "SOURCE is 'a\\x00b'; expected a path"),
        ("x --\x1b[31m 3", "unknown option of unmask do '--\\x1b[31m'"),
        ("x --rows \udc80", "--rows is '\\udc80'"),
    ],
)
def test_a_mistake_is_a_short_line(words, said):
    with pytest.raises(UnmaskError) as caught:
        ask(*words.split(" ") if words else ())
    assert said in str(caught.value)
    assert len(str(caught.value)) < 400
    assert str(caught.value).isprintable()


def test_a_word_too_many():
    def other(source: Path, /) -> None: ...

    with pytest.raises(UnmaskError, match=r"unmask other: unexpected argument 'y'\. Options begin with --"):
        call("unmask other", other, ["x", "y"])


def test_help_says_all_of_it(monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    text = parser_of("unmask do", command).format_help()
    assert text.startswith("usage: unmask do SOURCE NAME ... [OPTIONS]\n\nDo something.\n")
    assert text.endswith("\nExample:\n    unmask do x --rows 3\n")
    words = " ".join(text.split())
    for said in (
        "SOURCE What to read.",
        "--rows N How many there are. (required)",
        "--kind {red,blue} Its colour. (default: red)",
        "--no-pruned",
        "--json Say it in JSON.",
        "--host NAME The machine. (default: here)",
        "--ports N [N ...] Its doors.",
        "-h, --help",
    ):
        assert said in words
    assert max(map(len, text.splitlines())) <= 70


def process(arguments: str, **streams: object) -> subprocess.CompletedProcess[str]:
    line = f"{shlex.quote(sys.executable)} -m unmask {arguments}"
    return subprocess.run(line, shell=True, capture_output=True, text=True, check=False, **streams)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Of a sweep that is done: what it holds is told by a process that does not wait for torch."""
    recipe = {"name": "t", "jobs": ["tests.experiments.sweeps.trivial:square"], "grid": {"x": [1]}}
    return sweep(recipe, store=tmp_path_factory.mktemp("swept") / "store", engine="here").directory


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "streams", "code", "said"),
    [
        ("store", ">&-", 0, ""),
        ("store", ">&- 2>&-", 0, ""),
        ("nowhere", "2>&-", 2, ""),
        ("nowhere", "2>/dev/full", 2, ""),
        ("store", ">/dev/full", 2, "unmask: error: [Errno 28] No space left on device\n"),
        ("store", ">/dev/full 2>/dev/full", 2, ""),
        ("store", "<&-", 0, ""),
    ],
)
def test_closed_and_full_streams_end_quietly(store, name, streams, code, said):
    done = process(f"sweep status {store.with_name(name)} {streams}")
    assert (done.returncode, done.stderr.removeprefix("unmask sweep status: at work for 10 s\n")) == (code, said)


def test_what_stdout_cannot_encode_is_escaped():
    program = "from unmask.cli import main, options; main.main(['--version']); options.show({}, text=['\\u00e9'])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, env=os.environ | {"PYTHONIOENCODING": "ascii"}
    )
    assert done.stdout.splitlines()[-1] == b"\\xe9"
