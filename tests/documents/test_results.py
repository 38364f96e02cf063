"""results/ says of each of its files which code made it, and that it is old where that is not this one."""

from __future__ import annotations

import json
import re
from pathlib import Path

from unmask.core.files import age, code, origin

RESULTS = Path(__file__).parents[2] / "results"


def test_every_file_says_its_age():
    said = {name: (made, mark) for name, made, mark in re.findall(r"\| (\S+\.json) \| (\S+) \| (\S*) ?\|", _table())}
    files = {path.name: json.loads(path.read_text())["origin"] for path in RESULTS.glob("*.json")}
    assert said == {name: (made.get("code", "unknown"), "old" if age(made) else "") for name, made in files.items()}


def test_age():
    assert age(origin()) is None
    assert age({"code": "0123"}) == f"it is old: made by the code 0123, and this is {code()}"
    assert age({}) == f"it is old: made by the code of nobody knows when, and this is {code()}"


def _table() -> str:
    return (RESULTS / "README.md").read_text()
