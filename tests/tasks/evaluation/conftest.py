from __future__ import annotations

import os

import pytest

from tests.tasks.evaluation import models


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory):
    """m, a masked model, and a, an AR one, with their cards; nobody writes there."""
    place = tmp_path_factory.mktemp("models")
    models.masked(place / "m")
    models.causal(place / "a")
    return place


@pytest.fixture
def here(checkpoints, tmp_path, monkeypatch):
    """An empty directory, in which the models are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNMASK_THREADS", "1")  # models are so small that threads would only wait for each other
    for name in ("m", "a", "m.json", "a.json"):
        os.symlink(checkpoints / name, tmp_path / name)
    return tmp_path
