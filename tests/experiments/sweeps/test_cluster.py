"""A real cluster of Ray, two nodes of this machine: the same bits, and all that can die is killed without grace."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.experiments.sweeps.conftest import ROOT, SQUARE, Bench
from tests.experiments.sweeps.test_faults import SPOILED, gone, until
from tests.needs import needs
from unmask.core.errors import UnmaskError
from unmask.experiments import cluster as engine
from unmask.experiments import read_recipe, sweep
from unmask.experiments.run import resume
from unmask.experiments.store import LOG, Store
from unmask.experiments.tables import status

# JAX, which tests of other tools import, warns of every fork. Ray's forks run another program at once.
FORKED = pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning")
pytestmark = [needs("cluster", "linux"), FORKED]
PLACED = "tests.experiments.sweeps.trivial:placed"
WIDE = "tests.experiments.sweeps.trivial:wide"
SOWN = "tests.experiments.sweeps.trivial:sown"
SPACE = 80 * 2**20  # bytes of each object store: the least that Ray takes
ANSWER = 12 * 2**20
LIMIT = 30.0  # seconds of a block that hangs; a new process imports within them, beside other tests on a slow disk, too


class Nodes:
    """A cluster whose head measures nothing, and two nodes `first` and `second` of one CPU."""

    def __init__(self, log: Path, disk: float = 1.0) -> None:
        """disk: the share of the disk that may be full before Ray writes no answer there."""
        from ray.cluster_utils import Cluster

        self.log = log
        head: dict[str, Any] = {"num_cpus": 0, "object_store_memory": SPACE, "include_dashboard": False}
        head["_system_config"] = {
            "automatic_object_spilling_enabled": False,
            "local_fs_capacity_threshold": disk,
        }
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            self.add("first")
            self.add("second")
        except BaseException:
            self.cluster.shutdown()
            raise

    def add(self, name: str, cpus: int = 1) -> Any:
        more = {"NODE": name, "TRIVIAL_LOG": str(self.log)}
        return self.cluster.add_node(num_cpus=cpus, object_store_memory=SPACE, env_vars=more)

    @property
    def options(self) -> dict[str, Any]:
        return {"engine": "ray", "address": self.cluster.address, "workers": None}

    def in_flight(self, node: str) -> dict[str, int]:
        """The blocks that run on a node, with their processes."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        ended = {line.split()[1] for line in lines if line.startswith("ends")}
        begun = [re.fullmatch(r"begins (\d+) on (\S+) in (\d+)", line) for line in lines]
        return {one[1]: int(one[3]) for one in begun if one and one[2] == node and one[1] not in ended}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory) -> Iterator[Nodes]:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", paths)
        made = Nodes(tmp_path_factory.mktemp("cluster") / "log")
        try:
            yield made
        finally:
            made.cluster.shutdown()


@pytest.fixture
def bench(nodes: Nodes, tmp_path) -> Iterator[Bench]:
    """The log of its drivers is that of the nodes, and begins anew."""
    made = Bench(tmp_path)
    made.log = nodes.log
    made.log.unlink(missing_ok=True)
    yield made
    Path(f"{made.log}.held").unlink(missing_ok=True)


def wait(driver: subprocess.Popen[str], condition: Callable[[], object]) -> None:
    """Until a condition holds, as long as the driver lives."""
    until(lambda: condition() or driver.poll() is not None)
    assert driver.poll() is None, driver.communicate()


def blocks(directory: Path) -> dict[Any, Any]:
    store = Store.open(directory)
    return {(stem, rows): one.tally for stem, own in store.blocks.items() for rows, one in own.items()}


def test_the_bits_are_those_of_one_machine(nodes: Nodes, bench: Bench, tmp_path):
    plan = read_recipe(ROOT / "recipes" / "smoke.yaml", {"rows": 50, "steps": [4, 16]})
    local = sweep(plan, store=tmp_path / "local", engine="here")
    made = sweep(plan, store=bench.store, **nodes.options)
    assert len(made.keys) == 34
    assert {key: made.store.records(key) for key in made.keys} == {key: local.store.records(key) for key in local.keys}
    assert blocks(bench.store) == blocks(tmp_path / "local")
    assert made.store.runs[-1].engine == "ray"


def test_a_node_is_killed_while_two_blocks_are_there(nodes: Nodes, bench: Bench):
    """Both are measured again, elsewhere, and nothing else is."""
    doomed = nodes.add("doomed", cpus=2)
    bench.hold(0)
    driver = bench.drive({"jobs": [PLACED], "grid": {"x": list(range(12))}}, **nodes.options)
    wait(driver, lambda: len(nodes.in_flight("doomed")) == 2 and nodes.in_flight("first") and nodes.in_flight("second"))
    lost = nodes.in_flight("doomed")
    nodes.cluster.remove_node(doomed, allow_graceful=False)
    assert gone([*lost.values()]), "a process has outlived its node"
    bench.release()
    _, words = driver.communicate(timeout=120)
    assert (driver.returncode, words) == (0, "")
    begun = [line.split()[1] for line in bench.measured().elements() if line.startswith("begins")]
    assert sorted(begun, key=int) == sorted([*map(str, range(12)), *lost], key=int)
    store = bench.content
    assert {store.spec(key)["x"]: store.records(key)[0]["value"] for key in store.done} == {x: x * x for x in range(12)}
    assert bench.whole()


def test_the_driver_is_killed_and_resumes(nodes: Nodes, bench: Bench):
    """Its blocks end with it; what was done is not measured again."""
    bench.hold(4)
    driver = bench.drive({"jobs": [PLACED], "grid": {"x": list(range(8))}}, **nodes.options)
    wait(driver, lambda: nodes.in_flight("first") and nodes.in_flight("second") and len(bench.content.done) == 4)
    running = nodes.in_flight("first") | nodes.in_flight("second")
    driver.kill()
    driver.communicate()
    bench.kills += 1
    assert gone([*running.values()]), "a process has outlived its driver"
    bench.release()
    made = resume(bench.store, allow_imports=["tests.experiments.sweeps.trivial"], **nodes.options)
    begun = [line.split()[1] for line in bench.measured().elements() if line.startswith("begins")]
    assert sorted(begun) == sorted([*map(str, range(8)), *running])
    assert sorted(row["value"] for row in made.rows()) == [x * x for x in range(8)]
    assert bench.whole()


@pytest.mark.parametrize(
    ("how", "begun", "error"),
    [
        ("kill", 3, "its process was killed (SIGKILL), most often because memory ran out"),
        ("parent", 3, "its worker or node was lost: WorkerCrashedError"),
        ("hang", 1, f"it took more than the limit of {LIMIT:g} s and was stopped"),
        ("raise", 1, "ValueError: three is not a number (trivial.py, line "),
        ("say", 1, ""),
    ],
)
def test_a_cell_that_ends_badly_is_the_only_one(nodes: Nodes, bench: Bench, how, begun, error):
    """A lost process is an attempt, of three; and what a job prints is in the log of the store."""
    recipe = {"jobs": [SPOILED], "grid": {"x": [1, 2, 3, 4, 5]}, "fixed": {"how": how}}
    limit = LIMIT if how == "hang" else 60.0
    made = sweep({"name": "t"} | recipe, store=bench.store, limit=limit, **nodes.options)
    assert bench.measured()["3 0"] == begun
    failures = made.failures()
    assert [spec["x"] for spec, _ in failures] == [3] * bool(error)
    assert all(text.startswith(error) for _, text in failures)
    assert sorted(row["x"] for row in made.rows()) == [1, 2, *[3] * (not error), 4, 5]
    log = bench.store / LOG
    assert (log.read_text() if log.exists() else "") == ("three\n" if how == "say" else "")


class Filler:
    def fill(self, parts: int) -> int:
        import ray

        self.kept = [ray.put(bytes(2**22)) for _ in range(parts)]
        return parts * 2**22


@contextmanager
def filled(nodes: Nodes) -> Iterator[None]:
    """Connected, and on each node less is free than one answer takes."""
    import ray

    ray.init(nodes.cluster.address, log_to_driver=False, logging_level="ERROR")
    try:
        on = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        own = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        places = [on(node, soft=False) for node in own]
        fillers = [ray.remote(num_cpus=0)(Filler).options(scheduling_strategy=place).remote() for place in places]
        assert all(SPACE - taken < ANSWER for taken in ray.get([one.fill.remote(18) for one in fillers]))
        yield
        assert ray.is_initialized()  # the program's connection stays
    finally:
        ray.shutdown()


def test_a_full_object_store_loses_no_answer(nodes: Nodes, bench: Bench):
    recipe = {"name": "t", "jobs": [WIDE], "grid": {"x": list(range(6))}, "fixed": {"size": ANSWER}}
    with filled(nodes):
        made = sweep(recipe, store=bench.store, **nodes.options)
    assert [(row["x"], len(row["more"])) for row in made.rows()] == [(x, ANSWER) for x in range(6)]


def test_a_full_disk_and_object_store_are_named(nodes: Nodes, bench: Bench):
    recipe = {"name": "t", "jobs": [WIDE], "grid": {"x": [1]}, "fixed": {"size": ANSWER}}
    full = Nodes(nodes.log, disk=0.0)
    try:
        with filled(full):
            sweep(recipe, store=bench.store, **full.options)
    finally:
        full.cluster.shutdown()
    assert [failed["error"] for failed in status(bench.store)["failures"]] == [engine.FULL]


def test_an_interrupt_lets_running_blocks_finish(nodes: Nodes, bench: Bench):
    bench.hold(0)
    driver = bench.drive({"jobs": [PLACED], "grid": {"x": list(range(9))}}, **nodes.options)
    wait(driver, lambda: nodes.in_flight("first") and nodes.in_flight("second"))
    os.killpg(driver.pid, signal.SIGINT)
    assert "stopping after the running cells" in str(driver.stderr and driver.stderr.readline())
    bench.release()
    driver.communicate(timeout=60)
    found = status(bench.store)
    assert (found["done"], found["todo"], found["failed"], found["running"]) == (2, 7, 0, 0)
    assert bench.whole()


@contextmanager
def elsewhere(directory: Path) -> Iterator[None]:
    """Nodes that do not see the store."""
    unseen = nullcontext(SimpleNamespace(name=str(directory / "elsewhere" / "token")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "NamedTemporaryFile", lambda **how: unseen)
        yield


MINE = """
import os
from mine.more import factor

def product(x: int) -> list:
    return [{"measure": "product", "value": factor * x, "where": os.getcwd()}]
"""


def test_allowed_files_are_sent_to_a_node_without_them(nodes: Nodes, bench: Bench, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "more.py").write_text("factor = 7\n")
    (tmp_path / "own.py").write_text(MINE)
    recipe = tmp_path / "r.json"
    recipe.write_text('{"name": "r", "jobs": ["own.py:product"], "grid": {"x": [1, 2]}}')
    allowed = {"allow_imports": ["own.py", "mine"]}
    there = sweep(recipe, store=tmp_path / "there", **nodes.options, **allowed)
    assert {row["where"] for row in there.rows()} == {str(tmp_path)}
    with elsewhere(tmp_path):
        made = sweep(recipe, store=bench.store, **nodes.options, **allowed)
    assert [row["value"] for row in made.rows()] == [7, 14]
    assert all(row["where"] != str(tmp_path) for row in made.rows())


def test_cells_with_files_need_a_file_system_of_all_nodes(nodes: Nodes, bench: Bench, tmp_path):
    recipe = {"name": "t", "jobs": [SOWN], "grid": {"x": [1, 2]}}
    with elsewhere(tmp_path), pytest.raises(UnmaskError, match=r"have files, and node \S+ does not see"):
        sweep(recipe, store=bench.store, **nodes.options)
    assert not bench.measured()
    made = sweep(recipe, store=bench.store, **nodes.options)
    assert [(made.store.place(key) / "kept.txt").read_text() for key in made.keys] == ["1\n", "2\n"]


def test_a_node_with_other_sources_is_refused(nodes: Nodes, bench: Bench, monkeypatch):
    monkeypatch.setattr(engine, "code", lambda: "another")
    with pytest.raises(UnmaskError, match="a node has another version of unmask"):
        sweep({"name": "t", "jobs": [SQUARE], "grid": {"x": [1, 2]}}, store=bench.store, **nodes.options)
    assert not bench.content.done


def test_no_cluster_at_an_address(bench: Bench):
    with pytest.raises(UnmaskError, match=r"no cluster of Ray at 127.0.0.1:1: .*`ray start --head`"):
        sweep(
            {"name": "t", "jobs": [SQUARE], "grid": {"x": [1]}}, store=bench.store, engine="ray", address="127.0.0.1:1"
        )
