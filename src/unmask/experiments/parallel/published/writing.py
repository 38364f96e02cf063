"""Outcomes as a result tree of ParallelBench: its directories, files and names of fields.

runs.py reads the same outcomes from it. Additional fields of a line are `source`, `canvas` and `positions`. A line has
no text: outcomes are scores and costs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from unmask.core.files import atomic, make_directory, write_json
from unmask.experiments.parallel.points import Outcome, Setting, tokens_per_step
from unmask.experiments.parallel.published.runs import PREFIX, RESULTS

SAFE = " ()=,'"  # characters of options in names of directories; a slash is not among them
FRACTIONS = ("score", "score_strict")  # as percentages in results
NUMBERS = (*FRACTIONS, "nfe", "tokens_per_step", "output_length")


def write(settings: Iterable[Setting], directory: str | Path) -> list[Path]:
    """Write a run of each setting; returns the directories."""
    now = time.strftime("%Y%m%d_%H%M%S_all")
    runs = []
    for setting in settings:
        names = setting.model.replace("/", "__"), setting.sampler, setting.setting
        run = make_directory(Path(directory).joinpath(*map(_file_name, names), now))
        results = {}
        for task, outcomes in setting.tasks.items():
            lines = [_line(number, one) for number, one in enumerate(outcomes)]
            results[PREFIX + task] = {"alias": PREFIX + task} | _means(lines)
            with atomic(run / f"samples_{PREFIX}{_file_name(task)}.jsonl") as file:
                file.writelines(json.dumps(line).encode() + b"\n" for line in lines)
        write_json(run / RESULTS, {"results": results, "model_name": setting.model})
        runs.append(run)
    return runs


def _file_name(name: str) -> str:
    """A name that stays in its directory."""
    return quote(name, safe=SAFE) if name.strip(".") else name.replace(".", "%2E")


def _line(number: int, one: Outcome) -> dict[str, Any]:
    named = {"doc_id": number, "doc_hash": one.item, "filter": "none", "source": one.source}
    values = {
        "score": one.score,
        "score_strict": one.strict,
        "nfe": one.forwards,
        "tokens_per_step": tokens_per_step(one),
        "output_length": one.written,
        "canvas": one.canvas,
        "positions": one.positions,
    }
    known = {name: value for name, value in values.items() if value is not None}
    return named | known | {"metrics": [name for name in NUMBERS if name in known]}


def _means(lines: list[dict[str, Any]]) -> dict[str, Any]:
    means: dict[str, Any] = {}
    for name in NUMBERS:
        if all(name in line for line in lines):
            mean = sum(line[name] for line in lines) / len(lines)
            means |= {f"{name},none": 100 * mean if name in FRACTIONS else mean, f"{name}_stderr,none": "N/A"}
    return means
