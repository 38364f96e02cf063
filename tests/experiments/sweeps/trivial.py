"""Metrics of no interest, for the tests of what surrounds them; each call leaves a line in the file $TRIVIAL_LOG."""

from __future__ import annotations

import math
import os
import signal
import time
from collections import deque
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from unmask.core.run import Measuring
from unmask.experiments.cell import Place, job
from unmask.experiments.pool import Answer, Block, attempt


def record(measure: str, value: float) -> dict[str, Any]:
    return {
        "measure": measure,
        "value": value,
        "low": value - 1,
        "high": value + 1,
        "n": 9,
        "level": 0.95,
        "method": "",
        "model_calls": 1.0,
    }


def square(x: int, seconds: float = 0.0, seed: int = 0) -> list[dict[str, Any]]:
    """x^2, to be looked up in the log how often."""
    note(f"{x} {seed}")
    time.sleep(seconds)
    while x >= held():
        time.sleep(0.01)
    return [record("square", float(x * x + seed)), record("root", x**0.5 / 3)]


def spoiled(x: int, bad: int = 3, how: str = "raise", seed: int = 0) -> list[dict[str, Any]]:
    """As square, but that one x ends badly."""
    note(f"{x} {seed}")
    if x == bad:
        match how:
            case "raise":
                raise ValueError("three is not a number")
            case "say":
                print("three", flush=True)
            case "memory":
                raise MemoryError
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "parent":
                os.kill(os.getppid(), signal.SIGKILL)
                time.sleep(60)
            case "hang":
                time.sleep(60)
            case "exit":
                os._exit(7)
            case "nan":
                return [record("square", float("nan"))]
    return [record("square", float(x * x))]


def placed(x: int) -> list[dict[str, Any]]:
    """x^2, with the node and the process in the log."""
    note(f"begins {x} on {os.environ['NODE']} in {os.getpid()}")
    while x >= held():
        time.sleep(0.01)
    note(f"ends {x}")
    return [record("square", float(x * x))]


def wide(x: int, size: int = 0) -> list[dict[str, Any]]:
    """Numbers that take much space."""
    return [record("wide", float(x)) | {"more": "x" * size}]


def of_total(tally: dict[str, int], **cell: Any) -> list[dict[str, Any]]:
    return [record("total", float(tally["sum"])), record("rows", float(tally["rows"]))]


@job(records=of_total)
def total(rows: int, first_row: int = 0, length: int = 2**16, seconds: float = 0.0) -> dict[str, int]:
    """The sum of the numbers of the rows, four of them a block."""
    note(f"{first_row} {rows}")
    time.sleep(seconds)
    return {"sum": sum(range(first_row, first_row + rows)), "rows": rows}


@job(lasts=True)
def sown(x: int, place: Place, bad: int = 0) -> list[dict[str, Any]]:
    """What others need: a file in the cell's own directory, which grows with each attempt."""
    note(f"sown {x}")
    place.own.mkdir(parents=True, exist_ok=True)
    kept = place.own / "kept.txt"
    kept.write_text((kept.read_text() if kept.exists() else "") + f"{x}\n")
    if x == bad:
        raise ValueError("nothing grows")
    return [record("sown", float(x))]


def what_it_needs(x: int, bad: int) -> list[dict[str, Any]]:
    return [{"job": "tests.experiments.sweeps.trivial:sown", "x": x, "bad": bad}]


@job(needs=what_it_needs)
def harvest(x: int, place: Place, factor: int = 1, bad: int = 0) -> list[dict[str, Any]]:
    """Of what has been sown, and of nothing else."""
    note(f"harvest {x} {factor}")
    (ground,) = place.needed
    return [record("harvest", float((ground / "kept.txt").read_text().split()[-1]) * factor)]


def on_device(device: str = "cpu") -> list[dict[str, Any]]:
    return [record("devices", 1.0)]


def backwards(
    ready: deque[Block], files: Path, how: Measuring, interrupts: Sequence[int], note: Any, bonus: int = 0
) -> Generator[tuple[Block, Answer], None, None]:
    """An engine: the last block first, with a bonus for each number."""
    while ready:
        block = ready.pop()
        answer = attempt(block, files, False)
        yield block, answer._replace(records=[one | {"value": one["value"] + bonus} for one in answer.records or ()])


def held() -> float:
    """The first x that waits, which the test writes beside the log: no sweep is over before the test lets it."""
    try:
        return float(Path(os.environ["TRIVIAL_LOG"] + ".held").read_text())
    except (KeyError, OSError):
        return math.inf


def note(line: str) -> None:
    """Whole, whoever writes at the same time, and there after any kill."""
    if log := os.environ.get("TRIVIAL_LOG"):
        handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, f"{line}\n".encode())
        os.close(handle)
