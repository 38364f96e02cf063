"""A board as files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import vl_convert

from unmask.core.files import origin
from unmask.experiments.board import Board
from unmask.experiments.board.standings import Record
from unmask.report import standing
from unmask.report.frame import SCALE, check_directory, svg, write


def check(out: Path) -> None:
    """Fail before the work is done."""
    check_directory(out, "board.json")


def publish(out: Path, board: Board) -> list[Path]:
    """board.json, board.csv, board.svg and board.png in a directory, each whole or not at all."""
    return write(out, contents(board))


def contents(board: Board) -> dict[str, bytes]:
    settings = asdict(board.settings)
    data = {
        "origin": origin(**settings) | {"languages": board.languages},
        "seconds": board.seconds,
        "settings": settings,
        "failures": [asdict(failure) for failure in board.failures],
    }
    drawn = svg(standing.titled(board.records))
    return {
        "board.json": _json(data, board.records).encode(),
        "board.csv": pd.DataFrame(list(board.records)).to_csv(index=False).encode(),
        "board.svg": drawn.encode(),
        "board.png": vl_convert.svg_to_png(drawn, scale=SCALE),
    }


def _json(data: Mapping[str, Any], records: Sequence[Record]) -> str:
    """One record a line, for people and for diffs."""
    lines = ",\n  ".join(json.dumps(record, allow_nan=False) for record in records)
    head = json.dumps(data, indent=1, allow_nan=False).removesuffix("\n}")
    return f'{head},\n "records": [\n  {lines}\n ]\n}}\n'
