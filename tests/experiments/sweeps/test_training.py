"""Trainings are cells, and what networks generate needs them: whatever is killed, what comes out is undisturbed."""

from __future__ import annotations

import os
import shutil
import signal

import pytest
from safetensors.torch import load_file

from tests.experiments.sweeps.conftest import Bench, measured
from tests.experiments.sweeps.test_faults import children_of, until
from tests.needs import needs
from unmask import UnmaskError, generate, languages, score
from unmask.core.reading import read_json
from unmask.experiments import sweep
from unmask.experiments.cell import Place, call, cell_of, cells_of, check, find, merged
from unmask.experiments.recipe import from_dict
from unmask.experiments.store import FILES
from unmask.models.trained import Network, checkpoints, load

NETWORK = {"language": "paper-2gram", "length": 8, "layers": 1, "training_steps": 6, "device": "cpu"}
RECIPE = {
    "name": "t",
    "jobs": ["learned"],
    "fixed": NETWORK,
    "grid": {"sampler": ["ancestral", "autoregressive", "speculative"], "steps": [4]},
    "rows": 60,
}
CAREFUL = {
    "jobs": ["tests.experiments.sweeps.careful:careful"],
    "fixed": {"language": "paper-2gram", "training_steps": 12, "seconds": 0.1},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return sweep(RECIPE, store=tmp_path_factory.mktemp("trained") / "store", engine="here")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Where a training of twelve steps lies, and its records."""
    place = tmp_path_factory.mktemp("undisturbed") / "network"
    return place, measured("training", place, **NETWORK | {"training_steps": 12})


def test_the_sampler_decides_the_noise_of_its_network(tmp_path):
    """Both kinds of noise take a training of their own; masked cells keep the key that they had."""
    fixed = NETWORK | {"sampler": "uniform-ancestral", "steps": 3}
    cells = cells_of(from_dict({"name": "t", "jobs": ["learned"], "fixed": fixed, "rows": 10}))
    assert [cell.job for cell in cells] == ["uniform_training", "learned"]
    masked = cells_of(from_dict({"name": "t", "jobs": ["learned"], "fixed": NETWORK | {"steps": 3}, "rows": 10}))
    assert masked[0].spec == cells[0].spec | {"job": "training"}
    assert "noise" not in masked[0].spec
    made = sweep({"name": "t", "jobs": ["learned"], "fixed": fixed, "rows": 10}, store=tmp_path / "s", engine="here")
    assert {row["n"] for row in made.rows() if row["measure"] == "ser"} == {10}
    (trained,) = [
        row["key"] for row in made.rows() if row["job"] == "uniform_training" and row["measure"] == "training_steps"
    ]
    assert load(made.directory / FILES / trained).shape.noise == "uniform"


def directories(made):
    """Of an MDM and of an AR model."""
    rows = {row["kind"]: row["key"] for row in made.rows() if row["job"] == "training"}
    return [made.directory / FILES / rows[kind] for kind in ("mdm", "ar")]


def same_network(one, other):
    ours, theirs = (load_file(place / checkpoints.WEIGHTS) for place in (one, other))
    return ours.keys() == theirs.keys() and all(tensor.equal(theirs[name]) for name, tensor in ours.items())


def test_it_measures_what_the_networks_do(made):
    table = made.table()
    network, language = Network(*(load(place, "cpu") for place in directories(made))), languages.load("paper-2gram")
    for sampler in RECIPE["grid"]["sampler"]:
        drawn = generate(network, sampler=sampler, steps=4, length=8, rows=60, seed=0)
        found = table[table["sampler"] == sampler].set_index("measure")["value"]
        assert found["ser"] == score(drawn, language).ser.value
        assert found["model_calls"] == drawn.model_calls.double().mean()
    learned = table[(table["job"] == "training") & (table["kind"] == "mdm")].set_index("measure")
    account = read_json(directories(made)[0] / checkpoints.ACCOUNT)
    assert learned["value"]["training_steps"] == account["step"] == 6
    assert learned["value"]["entropy_nats_per_token"] == pytest.approx(account["entropy"])
    assert learned["value"]["excess_percent"] == account["journal"][-1]["excess_percent"] > 5  # six steps teach little
    assert learned["low"]["excess_percent"] < learned["value"]["excess_percent"] < learned["high"]["excess_percent"]


def test_each_network_is_trained_once(made):
    specs = [cell.spec for cell in cells_of(from_dict(RECIPE))]
    assert [spec["job"] for spec in specs] == ["training", "learned", "training", "learned", "learned"]
    other = cell_of({"job": "learned", **NETWORK, "sampler": "gibbs(inner=autoregressive)"})
    assert [cell.spec["kind"] for cell in other.needs] == ["mdm", "ar"]
    assert len(list((made.directory / FILES).iterdir())) == 2


def test_blocks_add_up(made, tmp_path):
    """Of the canvases and of the reader; as tallies, to the last digit."""
    for sampler, needed in (("ancestral", directories(made)[:1]), ("autoregressive", directories(made)[1:])):
        whole = cell_of({"job": "learned", **NETWORK, "sampler": sampler, "steps": 4, "rows": 60}).values
        parts = [whole | {"first_row": first, "rows": rows} for first, rows in ((0, 7), (7, 40), (47, 13))]
        place = Place(tmp_path, tuple(needed))
        found = [call(find("learned").run, values, place=place) for values in (*parts, whole)]
        assert merged(found[:-1]) == found[-1]
        assert found[-1]["ser_count"] == 60


@pytest.mark.long
def test_two_workers_and_this_process_agree_to_the_bit(made, tmp_path):
    found = sweep(RECIPE, store=tmp_path, workers=2)
    tables = [each.table().drop(columns="seconds") for each in (made, found)]
    assert tables[0].equals(tables[1])
    for one, other in zip(directories(made), directories(found), strict=True):
        assert same_network(one, other)


@pytest.mark.long
@needs("linux")
@pytest.mark.parametrize("victim", ["worker", "driver"])
def test_a_training_that_is_killed_goes_on(bench: Bench, undisturbed, victim):
    place, expected = undisturbed
    driver = bench.drive(CAREFUL, workers=1)
    until(lambda: len(bench.measured()) >= 4)
    if victim == "worker":
        os.kill(children_of(driver)[0], signal.SIGKILL)
        assert driver.wait(120) == 0
    else:
        driver.kill()
        driver.wait(120)
        assert len(bench.measured()) < 12
        bench.sweep(CAREFUL, workers=1)
    driver.communicate()
    assert bench.measured().keys() == {f"step {step}" for step in range(12)}
    assert bench.measured().total() <= 14  # the step that it was in, and one that was not saved yet
    ((key, records),) = bench.records()
    assert records == expected
    assert same_network(place, bench.store / FILES / key)


def test_a_kill_between_the_last_state_and_the_network(made, tmp_path):
    mdm, _ = directories(made)
    place = tmp_path / "again"
    shutil.copytree(mdm, place)
    (place / checkpoints.WEIGHTS).write_bytes(b"of an earlier step")
    again = measured("training", place, **NETWORK)
    assert same_network(mdm, place)
    assert {record["measure"]: record["value"] for record in again} == {
        row["measure"]: row["value"] for row in made.rows() if (row["job"], row.get("kind")) == ("training", "mdm")
    }


def test_a_directory_of_another_training(made, tmp_path):
    mdm, _ = directories(made)
    shutil.copytree(mdm, tmp_path / "other")
    with pytest.raises(UnmaskError, match="holds a training of 6 steps, which started when its preset had other"):
        measured("training", tmp_path / "other", **NETWORK | {"training_steps": 7})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"language": "paper-5gram"}, "paper-5gram"),
        ({"length": 0}, "length is 0"),
        ({"preset": "quickly"}, "quick"),
        ({"layers": 0}, "layers is 0"),
        ({"training_steps": 0}, "steps is 0"),
        ({"training_steps": "many"}, "is a text; expected a whole number"),
        ({"sampler": "ancestrally"}, "ancestral"),
        ({"schedule": "linea"}, "linear"),
        ({"steps": 0}, "steps is 0"),
    ],
)
def test_mistakes_are_told_before_anything_is_measured(changes, said):
    with pytest.raises(UnmaskError, match=said):
        check(cells_of(from_dict({"name": "t", "jobs": ["learned"], "fixed": NETWORK | changes})))


def test_sequences_that_vary_in_length_are_refused(tmp_path):
    path = str(tmp_path / "ending.json")
    languages.HMM([1.0, 0.0], [[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]], end=1).save(path)
    with pytest.raises(UnmaskError, match=r"ending.json vary in length.* Name another language"):
        check(cells_of(from_dict({"name": "t", "jobs": ["training"], "fixed": {"language": path}})))
