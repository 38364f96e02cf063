from __future__ import annotations

import pytest

from tests.hub.speaking import spoken
from tests.needs import require
from unmask.hub import load_model
from unmask.serve.requests import Limits

KINDS = {"masked": ("llada", {}), "ar": ("qwen2", {"block": 1})}
LIMITS = Limits(tokens=32, answers=4, waiting=6, batch=4, body=4000)


def pytest_pycollect_makemodule() -> None:
    """Before a module of this folder is imported."""
    require("serve")


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Small ones that speak, by kind."""
    made = {}
    for kind, (family, fields) in KINDS.items():
        place = tmp_path_factory.mktemp(kind)
        spoken(place, family, **fields)
        made[kind] = load_model(place, card=str(place / "card.json"), device="cpu", dtype="float64")
    return made


@pytest.fixture(params=KINDS)
def model(request, models):
    return models[request.param]


@pytest.fixture
def endpoint(model):
    from unmask.serve.app import Endpoint

    return Endpoint(model, limits=LIMITS)


def asking(endpoint):
    """Asks it within this process."""
    from starlette.testclient import TestClient

    return TestClient(endpoint.app(), base_url="http://127.0.0.1:8000", raise_server_exceptions=False)


@pytest.fixture
def client(endpoint):
    with asking(endpoint) as made:
        yield made
