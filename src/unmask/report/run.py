"""demo(): measure, draw, write."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path

from unmask.core.files import origin
from unmask.experiments.jobs.run import EngineName, sweep
from unmask.experiments.measures.catalogue import Record
from unmask.report import frame, measured, page, plan
from unmask.report.frame import STORE
from unmask.report.plan import Settings
from unmask.report.story import Story


@dataclass(frozen=True)
class Demo:
    """What was measured, and where it lies."""

    records: list[Record]
    story: Story
    page: Path
    files: list[Path]
    seconds: float


def demo(
    out: str | Path, settings: Settings | None = None, *, engine: EngineName = "here", workers: int | None = None
) -> Demo:
    """The paper's central result as a page in a directory; what was measured before it was stopped is kept there."""
    out, settings = Path(out), settings or Settings()
    frame.check_directory(out)
    began = time.perf_counter()
    found = sweep(plan.recipe(settings), store=out / STORE, engine=engine, workers=workers, fresh=True).whole()
    records = measured.records(found)
    made_by = origin(**asdict(settings)) | {"languages": found.languages}
    contents = page.render(records, settings, made_by, found.work)
    written = frame.write(out, contents)
    seconds = time.perf_counter() - began
    return Demo(records, Story(records, settings), (out / frame.PAGE).resolve(), written, seconds)
