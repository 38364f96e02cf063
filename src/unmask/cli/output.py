"""What commands print: a table for people, or one JSON object on the last line of stdout for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def show(result: Mapping[str, Any], as_json: bool, title: str = "") -> None:
    """The result as JSON, or as a table of its entries; nested ones are indented by their name."""
    if as_json:
        print(json.dumps(_finite(result), allow_nan=False))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title or None, show_header=False, box=None, title_justify="left", pad_edge=False)
    for name, value in _flat(result):
        table.add_row(name.replace("_", " "), _text(value))
    Console(highlight=False).print(table)


def _flat(result: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for name, value in result.items():
        if isinstance(value, Mapping) and not {"value", "low", "high"} <= value.keys():
            rows += _flat(value, f"{prefix}{name}: ")
        else:
            rows.append((prefix + name, value))
    return rows


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        from unmask.estimates import Estimate

        return str(Estimate(**value))
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _finite(value: Any) -> Any:
    """JSON has no infinity: the open end of an interval is null."""
    if isinstance(value, Mapping):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
