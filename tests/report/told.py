"""What every page is told of a store that a test has made."""

from __future__ import annotations

from pathlib import Path

from unmask.report.explorer.fragment import Explorer
from unmask.report.publishing import Made
from unmask.report.results import read


def about(directory: Path) -> Made:
    return Made({"command": ["unmask", "page"]}, 1.0, Explorer(read([directory])))
