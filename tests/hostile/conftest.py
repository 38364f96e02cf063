from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.hostile.oracle import Case, Ran, Server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all processes of a run, with its valid files."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    made = Server(tmp_path_factory.mktemp("hostile"), shared / "server")
    yield made
    made.close()


@pytest.fixture(scope="session")
def keeps(server: Server):
    """Runs a case, which must keep the promise."""

    def run(case: Case) -> Ran:
        ran = server.run(case)
        assert not ran.wrong, f"{'; '.join(ran.wrong)}\n{case!r}\nexit {ran.code}\n{ran.err[-2000:]}"
        return ran

    return run
