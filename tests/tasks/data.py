"""Where published data lie, where they do: beside the checkout, or where UNMASK_DATA says."""

from __future__ import annotations

import pytest

from tests.needs import data as directory
from tests.needs import needs

DATA = directory()
needs_data = needs("data")


@pytest.fixture
def data(monkeypatch):
    monkeypatch.setenv("UNMASK_DATA", str(DATA))
    return DATA
