"""Metrics that answer with what is none, or do to their process what nobody should; one x of each behaves."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from tests.experiments.sweeps.trivial import note, record
from unmask.experiments.cell import job


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def cyclic() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


def deep() -> list[Any]:
    made: list[Any] = []
    for _ in range(10**4):
        made = [made]
    return made


ANSWERS: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "text": lambda: "square",
    "number": lambda: 3.0,
    "texts": lambda: ["square"],
    "empty": lambda: [{}],
    "nameless": lambda: [{"value": 1.0}],
    "infinite": lambda: [record("square", math.inf)],
    "nan": lambda: [record("square", 1.0) | {"more": math.nan}],
    "word": lambda: [record("square", 1.0) | {"value": "one"}],
    "nested": lambda: [record("square", 1.0) | {"more": {"a": [1]}}],
    "object": lambda: [object()],
    "surrogate": lambda: [record("\udcff", 1.0)],
    "large": lambda: [record("square", 1.0) | {"more": "x" * 2**25}],
    "cyclic": cyclic,
    "deep": deep,
}


def fork_and_wait() -> None:
    """Leaves a child, which is to end with its parent, and another that comes back from here."""
    if not os.fork():
        note(f"child {os.getpid()}")
        time.sleep(60)
    subprocess.Popen(["sleep", "61"])


def write_everywhere() -> None:
    for handle in range(3, 400):
        try:
            os.write(handle, b"nonsense\n")
        except OSError:
            continue


def close_everything() -> None:
    os.closerange(0, 400)


def leave() -> None:
    os.chdir("/")


DEEDS: dict[str, Callable[[], Any]] = {
    "surrogate": lambda: exec('raise ValueError("half \\udcff of\\n\\x1b[31m two")'),
    "long": lambda: exec("raise ValueError('x' * 10**7)"),
    "unspeakable": lambda: exec("raise error", {"error": Unspeakable()}),
    "exit": lambda: sys.exit("\udcff"),
    "exit 0": lambda: sys.exit(0),
    "interrupt": lambda: exec("raise KeyboardInterrupt"),
    "_exit": lambda: os._exit(0),
    "input": lambda: input(),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "close": close_everything,
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "write": write_everywhere,
}
QUIET: dict[str, Callable[[], Any]] = {
    "print": lambda: print("chatter" * 10**5) or sys.stderr.write('{"done": 0}\n'),
    "fork": fork_and_wait,
    "return of a child": lambda: os.fork(),
    "leave": leave,
    "stdout": lambda: os.write(1, b'{"done": 0}\n'),
}


def answers(x: int, how: str) -> list[dict[str, Any]]:
    return ANSWERS[how]() if x == 3 else [record("square", float(x * x))]


def does(x: int, how: str, here: str = "") -> list[dict[str, Any]]:
    note(f"{x} 0")
    if here:
        assert os.path.samefile(os.getcwd(), here), os.getcwd()
    if x == 3:
        (DEEDS | QUIET)[how]()
    return [record("square", float(x * x))]


def of_counts(tally: Mapping[str, int], how: str) -> Any:
    match how:
        case "raise":
            raise ValueError("no sum")
        case "exit":
            os._exit(3)
        case "none":
            return None
    return [record("sum", float(tally["sum"]))]


@job(records=of_counts)
def counts(rows: int, first_row: int = 0, how: str = "") -> dict[str, int]:
    """A job that merges, or says that it does."""
    match how:
        case "tally":
            return {"sum": 1.5}  # type: ignore[dict-item]
        case "list":
            return [1]  # type: ignore[return-value]
    return {"sum": rows}


def unplanned(how: str) -> Any:
    if how == "exit":
        sys.exit(4)
    raise ValueError("no idea")


@job(needs=unplanned)
def planned(x: int = 0, how: str = "") -> list[dict[str, Any]]:
    return [record("planned", 1.0)]
