"""What takes seconds where it is not the point of a test: processes of a sweep, pictures and long validations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from unmask.experiments import pool
from unmask.models.trained import loop
from unmask.report import charts, page


@contextmanager
def in_this_process() -> Iterator[list[object]]:
    """Cells for which processes are asked are measured here; a list of what was asked for."""
    asked: list[object] = []

    def local(ready: Any, files: Path, how: pool.Measuring, *more: Any) -> Iterator[Any]:
        asked.append(how)
        yield from pool.here(ready, files, how, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(pool.ENGINES._makers, "local", local)
        yield asked


@contextmanager
def undrawn() -> Iterator[None]:
    """Charts are defined, and no picture is made of them."""
    without = SimpleNamespace(svg_to_png=lambda *_, **options: b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(charts, "svg", json.dumps)
        patch.setattr(page, "svg", json.dumps)
        patch.setattr(charts, "vl_convert", without)
        yield


@contextmanager
def held_out_in_part() -> Iterator[None]:
    """Each validation reads 64 sequences, not 2048, where no test asks for the learning error of a network."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "HELD_OUT", 64)
        yield
