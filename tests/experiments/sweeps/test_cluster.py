"""The Ray engine: the same cells, store and numbers, also after deaths; by a double of Ray, and by Ray if installed."""

from __future__ import annotations

import pickle
import secrets
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.experiments.sweeps.conftest import SQUARE, Bench
from tests.needs import require
from unmask.core.errors import UnmaskError
from unmask.experiments import read_recipe, sweep
from unmask.experiments.tables import compare

HARVEST = "tests.experiments.sweeps.trivial:harvest"
SPOILED = "tests.experiments.sweeps.trivial:spoiled"
LIMIT = 5.0  # seconds, which the other cells must keep on a busy machine too
FIGURE = Path(__file__).parents[3] / "recipes" / "figure-1-exact.yaml"


def test_it_has_no_limit_of_time(tmp_path):
    with pytest.raises(UnmaskError, match="engine `ray` has no limit of time"):
        sweep({"jobs": [SQUARE], "grid": {"x": [1]}}, store=tmp_path / "s", engine="ray", limit=1.0)


def test_without_ray_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UnmaskError, match="needs the extra cluster: the package ray is not installed; pip install"):
        sweep({"jobs": [SQUARE], "grid": {"x": [1]}}, store=tmp_path / "s", engine="ray")


class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


class Ray(ModuleType):
    """What of Ray's interface is used, in this thread: a task is measured when it is waited for."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, gpus: int = 0) -> None:
        super().__init__("ray")
        self.gpus, self.options, self.ended = gpus, [], False

    def is_initialized(self) -> bool:
        return False

    def init(self, **how: Any) -> None:
        if how["address"] == "nowhere":
            raise ConnectionError("no answer")

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0} | ({"GPU": self.gpus} if self.gpus else {})

    def remote(self, **options: Any) -> Any:
        def task(function: Any) -> Any:
            def with_options(**more: Any) -> Any:
                self.options.append(options | more)
                return SimpleNamespace(remote=lambda *given: (function, pickle.dumps(given), len(self.options)))

            return SimpleNamespace(options=with_options)

        return task

    def wait(self, tasks: list[Any], timeout: float | None) -> Any:
        return tasks[:1], tasks[1:]

    def get(self, task: Any) -> Any:
        function, given, _ = task
        block, *rest = pickle.loads(given)
        if (block.values.get("how"), block.values.get("x")) == ("kill", 3):
            raise RayError("The worker died.\nA long story.")
        return function(block, *rest)

    def cancel(self, task: Any, force: bool) -> None:
        raise AssertionError("nothing runs at the end")

    def shutdown(self) -> None:
        self.ended = True


@pytest.fixture(scope="session")  # Ray reads the token once in a process, so a process has one cluster
def cluster(tmp_path_factory):
    """A cluster that runs already, as `ray start --head` makes one: of this machine alone, with a token of its own.

    It is ended by the process that holds it, since `ray stop` would end the clusters of everybody else, too.
    """
    require("cluster")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = tmp_path_factory.mktemp("ray")
    how = ["--num-cpus=2", f"--port={port}", "--node-ip-address=127.0.0.1", "--include-dashboard=false"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        with (where / "log").open("wb") as log:
            command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", *how]
            held = subprocess.Popen([*command, f"--temp-dir={where}"], stdout=log, stderr=log, start_new_session=True)
        try:
            listening(port)
            yield f"127.0.0.1:{port}"
        finally:
            held.terminate()
            held.wait(120)


def listening(port: int, patience: float = 120.0) -> None:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        with socket.socket() as asked:
            if asked.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    pytest.fail("the cluster did not start in time")


@pytest.fixture(params=["double", "ray"])
def engine(request, monkeypatch):
    """The double, or a cluster of Ray where that is installed."""
    if request.param == "ray":
        return {"engine": "ray", "address": request.getfixturevalue("cluster")}
    monkeypatch.setitem(sys.modules, "ray", Ray())
    return {"engine": "ray"}


@pytest.mark.filterwarnings("ignore")  # those of Ray itself
def test_tasks_and_this_machine_agree_to_the_bit(engine, tmp_path):
    changes = {"steps": [8, 64], "rows": 150, "length": 2050, "language": ["paper-2gram", "interval-5"]}
    recipe = read_recipe(FIGURE, changes | {"jobs": ["samples", "ter_upper(rows=3)"]})
    sweep(recipe, store=tmp_path / "there", **engine)
    sweep(recipe, store=tmp_path / "here", workers=1)
    found = compare(tmp_path / "here", tmp_path / "there")
    assert (found.equal, found.both) == (True, 8)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("how", "said", "attempts"),
    [("raise", "three is not a number", 1), ("kill", "its process was killed", 2)],
)
def test_a_bad_cell_stops_no_other(engine, bench: Bench, how, said, attempts):
    recipe = {"jobs": [SPOILED], "grid": {"x": list(range(6))}, "fixed": {"how": how}}
    state = bench.sweep(recipe, attempts=2, **engine).status()
    assert (state["done"], state["failed"]) == (5, 1)
    assert said in state["failures"][0]["error"]
    assert state["failures"][0]["attempts"] == attempts


@pytest.mark.filterwarnings("ignore")
def test_a_gpu_that_nobody_has_is_not_waited_for(engine, bench: Bench):
    recipe = {"jobs": ["tests.experiments.sweeps.trivial:on_device"], "fixed": {"device": "cuda"}}
    with pytest.raises(UnmaskError, match="the cluster has no GPU"):
        bench.sweep(recipe, **engine)
    assert bench.sweep(recipe | {"fixed": {"device": "cpu"}}, **engine).rows()[0]["value"] == 1
