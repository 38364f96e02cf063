from __future__ import annotations

import io
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, suppress

import pytest

from unmask.core import progress

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@contextmanager
def watched() -> Iterator[Terminal]:
    """stderr as a terminal; not a fixture, because pytest puts its own stderr between a fixture and its test."""
    with redirect_stderr(Terminal()) as terminal:
        yield terminal


@pytest.fixture(autouse=True)
def capable_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0.0)


def drawn() -> None:
    """Wait until the thread has drawn the bar."""
    while progress._outermost.drawing is None:
        time.sleep(0.001)


def test_quick_work_is_silent():
    with watched() as terminal, progress.track("rows", 10) as advance:
        advance(10)
    assert terminal.getvalue() == ""


@pytest.mark.usefixtures("at_once")
def test_nobody_watches(capsys):
    with progress.track("rows", 10) as advance:
        advance(10)
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("at_once")
def test_long_work_draws_a_bar():
    with watched() as terminal, progress.track("[rows]", 10) as advance:
        advance(3)
        drawn()
        advance(1)
    assert "[rows]" in terminal.getvalue()
    assert "40%" in terminal.getvalue()


@pytest.mark.usefixtures("at_once")
def test_elapsed_time_counts_the_silence(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    with watched() as terminal, progress.track("rows", 10) as advance:
        clock[0] += 3725
        drawn()
        advance(1)
    assert "1:02:05" in terminal.getvalue()


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_restores_the_cursor_and_passes(error):
    def work():
        with progress.track("rows", 10):
            drawn()
            raise error

    with watched() as terminal, pytest.raises(error):
        work()
    written = terminal.getvalue()
    assert written.count(HIDE_CURSOR) == written.count(SHOW_CURSOR) == 1
    assert written.rindex(HIDE_CURSOR) < written.rindex(SHOW_CURSOR)
    with watched() as terminal, progress.track("again", 10):
        drawn()
    assert "again" in terminal.getvalue()


@pytest.mark.usefixtures("at_once")
def test_an_inner_track_adds_no_bar():
    with watched() as terminal, progress.track("outer", 2) as advance:
        with progress.track("inner", 5) as advance_inner:
            progress.rename("part of it")
            advance_inner(5)
        assert progress._outermost.label == "outer"
        while "0%" not in terminal.getvalue():  # the outer bar need not wait for its own first step
            time.sleep(0.01)
        advance(1)
        assert progress._outermost.done == 1
    assert "outer" in terminal.getvalue()
    assert "inner" not in terminal.getvalue()


@pytest.mark.usefixtures("at_once")
def test_a_note_stands_beside_the_bar(capsys):
    with watched() as terminal, progress.track("rows", 10):
        drawn()
        progress.note("[b]row 7[/b] is impossible")
        print("data")
    assert "[b]row 7[/b] is impossible\n" in terminal.getvalue()
    assert capsys.readouterr().out == "data\n"


def test_a_note_without_a_bar(capsys):
    progress.note("row 7 is impossible")
    assert capsys.readouterr() == ("", "row 7 is impossible\n")


def test_silence_does_not_import_rich():
    program = """
import sys
from unmask.core import progress
with progress.track("rows", 10) as advance:
    advance(10)
progress.note("done")
assert not any(name.startswith("rich") for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(progress, "FIRST", 0.01)
    monkeypatch.setattr(progress, "START", 0.01)
    monkeypatch.setattr(progress, "LATER", 0.01)


def wait_for(words: str, where: Callable[[], str]) -> str:
    """What is there once these words are: a pattern, since nobody knows after how many seconds that is."""
    end = time.monotonic() + 120
    while not re.search(words, where()):
        assert time.monotonic() < end, f"{words!r} never came, but {where()!r}"
        time.sleep(0.01)
    return where()


@pytest.mark.usefixtures("soon")
def test_a_command_says_in_lines_how_far_it_is():
    with redirect_stderr(io.StringIO()) as said, progress.command("unmask do"):
        wait_for(r"unmask do: at work for \d+ s\n", said.getvalue)
        with progress.track("rows", 100) as advance:
            advance(4)  # of which nobody knows yet how long the rest takes
            wait_for(r"rows: 4% after \d+ s\n", said.getvalue)
            advance(36)
            wait_for(r"rows: 40% after \d+ s, about \d+ s left\n", said.getvalue)
    before = said.getvalue()
    with redirect_stderr(said), progress.track("others", 10):
        time.sleep(0.05)
    assert said.getvalue() == before  # a library writes no lines


@pytest.mark.usefixtures("at_once")
def test_a_bar_needs_no_step_to_appear():
    with watched() as terminal, progress.track("one long step", 1):
        wait_for("one long step", terminal.getvalue)


def test_a_note_is_plain_and_never_in_the_way(capsys):
    progress.note("a\x1b[31m")
    assert capsys.readouterr().err == "a\\x1b[31m\n"
    with suppress(OSError), open("/dev/full", "w") as full, redirect_stderr(full):
        progress.note("lost")
        capsys.readouterr()
