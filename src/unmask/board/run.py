"""board(): measure, and say what came out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from unmask.board.grid import Failure, Settings, grid, measure_all
from unmask.board.standings import Record, records


@dataclass(frozen=True)
class Board:
    """What was measured, and what could not be."""

    settings: Settings
    records: Sequence[Record]
    failures: Sequence[Failure]
    seconds: float

    def of(self, measure: str) -> list[Record]:
        return [record for record in self.records if record["measure"] == measure]


def board(settings: Settings | None = None) -> Board:
    """Samplers on the exact denoisers of languages: every number with its interval."""
    settings = settings or Settings()
    plan = grid(settings)
    began = time.perf_counter()
    found, failures = measure_all(plan)
    made = records(found, settings)
    return Board(settings, made, failures, time.perf_counter() - began)
