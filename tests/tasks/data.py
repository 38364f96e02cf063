"""Where published data lie, where they do: beside the checkout, or where UNMASK_DATA says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = (os.environ.get("UNMASK_DATA"), ROOT.parent / "shared" / "data")
DATA = next((Path(place) for place in PLACES if place and (Path(place) / "gsm8k_test.jsonl").is_file()), None)
needs_data = pytest.mark.skipif(DATA is None, reason="no data of GSM8K, HumanEval and MBPP; UNMASK_DATA says where")


@pytest.fixture
def data(monkeypatch):
    monkeypatch.setenv("UNMASK_DATA", str(DATA))
    return DATA
