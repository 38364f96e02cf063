"""demo(): measure, draw, write."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path

from unmask.files import origin
from unmask.report import frame, page
from unmask.report.cells import Record
from unmask.report.plan import Settings, cells, measure
from unmask.report.story import Story


@dataclass(frozen=True)
class Demo:
    """What was measured, and where it lies."""

    records: list[Record]
    story: Story
    page: Path
    files: list[Path]
    seconds: float


def demo(out: str | Path, settings: Settings | None = None) -> Demo:
    """The paper's central result as a page in a directory; nothing is written before everything is there."""
    out, settings = Path(out), settings or Settings()
    frame.check_directory(out)
    plan = cells(settings)
    began = time.perf_counter()
    records = measure(plan)
    contents = page.render(records, settings, origin(**asdict(settings)), time.perf_counter() - began)
    written = frame.write(out, contents)
    seconds = time.perf_counter() - began
    return Demo(records, Story(records, settings), (out / frame.PAGE).resolve(), written, seconds)
