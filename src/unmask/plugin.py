"""The plugin of pytest: the fixture `decoder_law`, a marker of that name, and one line in the summary.

    @pytest.mark.decoder_law(sampler="low-confidence", steps=8)
    def test_my_decoder(decoder_law):
        decoder_law(my_generate)

pytest imports this module in every run where unmask is installed, so it imports nothing else before a test uses it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

from unmask.core.errors import needed

with needed("test", "the fixture decoder_law"):
    import pytest

NAME = "decoder_law"
HELP = "JSON file of all calls of decoder_law: tests, verdicts and the text of a badge"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("unmask").addoption("--decoder-report", metavar="FILE", help=HELP)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{NAME}(**options): options of assert_law, for the fixture {NAME}")


@pytest.fixture
def decoder_law(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`unmask.testing.assert_law` with the options of the marker, recorded for the summary and the report."""
    marker = request.node.get_closest_marker(NAME)
    given = {} if marker is None else dict(marker.kwargs)

    def tested(loop: Callable[..., Any], **options: Any) -> Any:
        from unmask.testing import assert_law

        used, began = given | options, time.monotonic()
        record = {"test": request.node.nodeid, "options": {name: str(value) for name, value in used.items()}}
        try:
            verdict = assert_law(loop, **used)
        except AssertionError as error:
            record |= {"holds": False, "verdict": str(error)}
            raise
        else:
            record |= {"holds": True, "verdict": verdict.sentence, "rows": verdict.rows, "length": verdict.length}
        finally:
            record["seconds"] = round(time.monotonic() - began, 2)
            request.node.user_properties.append((NAME, record))  # which xdist carries to the first process
        return verdict

    return tested


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    reports = chain.from_iterable(terminalreporter.stats.values())
    called = [report.user_properties for report in reports if getattr(report, "when", "") == "call"]
    records = [record for name, record in chain(*called) if name == NAME]
    if not records:
        return
    hold = sum(record["holds"] for record in records)
    text = f"{hold} of {len(records)}"
    terminalreporter.write_line(f"unmask: {text} tests of decoders hold")
    path = config.getoption("--decoder-report")
    if path is not None:
        badge = {"label": "decoder", "message": text, "color": "green" if hold == len(records) else "red"}
        report = {"unmask": version("unmask"), "badge": {"schemaVersion": 1} | badge, "tests": records}
        Path(path).write_text(json.dumps(report, indent=1) + "\n")
