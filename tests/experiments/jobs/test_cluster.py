"""The Ray engine, where Ray is: the same cells, the same store, the same numbers to the bit, also after deaths."""

from __future__ import annotations

import secrets
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.experiments.jobs.conftest import SQUARE, Bench
from tests.needs import require
from unmask.core.errors import UnmaskError
from unmask.experiments.jobs import read_recipe, sweep
from unmask.experiments.jobs.tables import compare

SPOILED = "tests.experiments.jobs.trivial:spoiled"
FIGURE = Path(__file__).parents[3] / "recipes" / "figure-1-exact.yaml"


def test_without_ray_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UnmaskError, match="needs the extra cluster: pip install"):
        sweep({"metrics": [SQUARE], "grid": {"x": [1]}}, store=tmp_path / "s", engine="ray")


@pytest.fixture(scope="module")
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
        patch.setenv("RAY_AUTH_MODE", "token")  # read when Ray is imported: nothing here may do that earlier
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        with (where / "log").open("wb") as log:
            command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", *how]
            held = subprocess.Popen([*command, f"--temp-dir={where}"], stdout=log, stderr=log, start_new_session=True)
        try:
            listening(port)
            yield f"127.0.0.1:{port}"
        finally:
            held.terminate()
            held.wait(30)


def listening(port: int, patience: float = 60.0) -> None:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        with socket.socket() as asked:
            if asked.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    pytest.fail("the cluster did not start in time")


@pytest.mark.filterwarnings("ignore")  # those of Ray itself
def test_a_cluster_and_this_machine_agree_to_the_bit(cluster, tmp_path):
    changes = {"steps": [8, 64], "rows": 150, "length": 2050, "language": ["paper-2gram", "interval-5"]}
    recipe = read_recipe(FIGURE, changes | {"metrics": ["samples", "ter_upper(rows=3)"]})
    sweep(recipe, store=tmp_path / "there", engine="ray", address=cluster)
    sweep(recipe, store=tmp_path / "here", workers=1)
    found = compare(tmp_path / "here", tmp_path / "there")
    assert (found.equal, found.both) == (True, 8)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("how", "said", "attempts"),
    [("raise", "three is not a number", 1), ("kill", "its process was killed", 2), ("hang", "more than the limit", 1)],
)
def test_a_bad_cell_stops_no_other(cluster, bench: Bench, how, said, attempts):
    recipe = {"metrics": [SPOILED], "grid": {"x": list(range(6))}, "fixed": {"how": how}}
    state = bench.sweep(recipe, engine="ray", address=cluster, limit=5.0, attempts=2).status()
    assert (state["done"], state["failed"]) == (5, 1)
    assert said in state["failures"][0]["error"]
    assert state["failures"][0]["attempts"] == attempts


@pytest.mark.filterwarnings("ignore")
def test_cells_find_what_others_have_left(cluster, bench: Bench, undisturbed, monkeypatch):
    recipe = {"metrics": ["tests.experiments.jobs.trivial:harvest"], "grid": {"x": [1, 2], "factor": [1, 10]}}
    expected = undisturbed(recipe)
    monkeypatch.setenv("TRIVIAL_LOG", str(bench.log))
    bench.sweep(recipe, engine="ray", address=cluster)
    assert bench.records() == expected


@pytest.mark.filterwarnings("ignore")
def test_a_gpu_that_nobody_has_is_not_waited_for(cluster, bench: Bench):
    recipe = {"metrics": ["tests.experiments.jobs.trivial:on_device"], "fixed": {"device": "cuda"}}
    with pytest.raises(UnmaskError, match="the cluster has no GPU"):
        bench.sweep(recipe, engine="ray", address=cluster)
    assert bench.sweep(recipe | {"fixed": {"device": "cpu"}}, engine="ray", address=cluster).rows()[0]["value"] == 1
