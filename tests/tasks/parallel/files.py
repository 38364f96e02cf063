"""Files of items, with the settings of two samplers as published."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

TASKS = ("puzzles_grid", "text_writing_title", *(f"waiting_line_{number}" for number in range(15)))
# R and S of the settings of two samplers, from few to many tokens per step: numbers of the published curves
WINO = ((1.0, 1465), (5.009689979587228, 1438), (5.916280963167223, 1360), (6.590793525867057, 1241))
WINO += ((7.296331147299824, 1135), (8.15661987564845, 1059))  # S in items of 1700


def line(task: str, number: int, right: float, calls: float, canvas: int = 32, written: int = 12) -> dict[str, Any]:
    cost = {"calls": calls, "canvas": canvas, "written": written}
    return {"task": task, "item": f"{task} {number}", "right": right} | cost


def write(file: Path, rows: Iterable[Mapping[str, Any]], **names: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(json.dumps(dict(row) | names) + "\n" for row in rows))


def full(speed: float, right: int, items: int = 100) -> list[dict[str, Any]]:
    """All tasks, so many right items in all, and every item at the same speed."""
    rows: list[dict[str, Any]] = []
    for index, task in enumerate(TASKS):
        own = right // len(TASKS) + (index < right % len(TASKS))
        rows += [line(task, number, float(number < own), 32 / speed) for number in range(items)]
    return rows
