"""A state says where a training stands, or what in it does not agree; a network is compared with its shape before."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from unmask import UnmaskError, languages
from unmask.models import trained as networks
from unmask.models.trained import checkpoints, stored
from unmask.models.trained.loop import resume, train
from unmask.models.trained.recipe import Recipe
from unmask.models.trained.shape import Shape
from unmask.models.trained.stored import alone

LANGUAGE = languages.random_ngram(2, 4, temperature=2.0, seed=1)
RECIPE = Recipe(steps=4, batch=4, rate=0.01)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    place = tmp_path_factory.mktemp("trained") / "net"
    train(LANGUAGE, Shape("mdm", 4, 8, hidden=8, layers=1, heads=2), RECIPE, place)
    return place


@pytest.fixture
def place(trained, tmp_path):
    """A copy to be spoiled."""
    for path in trained.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def refused(attempt, words):
    with pytest.raises(UnmaskError, match=re.escape(words)) as caught:
        attempt()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def spoil(path, facts=None, tensors=None):
    """The state with other facts (a text, or changes of them) and other tensors (None: left out)."""
    with safe_open(path, "pt") as file:
        said = json.loads(file.metadata()["unmask"])
    said = facts if isinstance(facts, str) else json.dumps(said | (facts or {}))
    kept = {name: tensor for name, tensor in (load_file(path) | (tensors or {})).items() if tensor is not None}
    save_file(kept, path, {"unmask": said})


def test_a_state_comes_back(place):
    found = stored.read(place)
    assert (found.step, found.recipe, found.shape.hidden) == (4, RECIPE, 8)
    assert found.source.to_dict() == LANGUAGE.to_dict()
    assert [entry["step"] for entry in found.journal] == [1, 2, 3, 4]
    parts = {name.partition("/")[0] for name in found.tensors}
    assert parts == {"weights", "average", "exp_avg", "exp_avg_sq"}


def test_nothing_to_resume(tmp_path):
    refused(lambda: resume(tmp_path), "holds nothing to resume")
    refused(lambda: resume(tmp_path / "nowhere"), "holds nothing to resume")
    save_file({"other": torch.ones(2)}, tmp_path / checkpoints.STATE)
    refused(lambda: resume(tmp_path), "has no metadata of a training")


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ("nope", "is not JSON"),
        ("[1]", "expected a mapping"),
        ("{}", "has no 'shape'"),
        ({"step": "x"}, "step is 'x'; expected a whole number"),
        ({"step": -1}, "step is -1"),
        ({"step": 5}, "step is 5; expected at most 4"),
        ({"step": 2**70}, "step is 1180591620717411303424; expected at most 4"),
        ({"recipe": None}, "recipe is None; expected a mapping"),
        ({"recipe": {"steps": 4, "batch": 4, "rate": 0.1, "seed": "x"}}, "seed"),
        ({"recipe": {"steps": 4, "batch": 4}}, "rate"),
        ({"recipe": {"stepz": 4}}, "did you mean steps?"),
        ({"shape": {"kind": "mdm", "vocabulary": 4, "length": 8, "hidden": 12 * 10**9}}, "hidden is 12000000000"),
        ({"shape": {"kind": ["mdm"], "vocabulary": 4, "length": 8}}, "kind is ['mdm']; expected a text"),
        ({"language": {"kind": "interval", "width": 5}}, "is a network for 4 symbols, not for 16"),
        ({"language": {"kind": "os:system"}}, "unknown kind of language"),
        ({"language": 3}, "language is 3; expected a mapping"),
        ({"journal": [3]}, "journal[0] is 3; expected a mapping"),
        ({"journal": [{"step": 1}]}, "journal[0] has no 'seconds'"),
        ({"loss": "high"}, "loss is 'high'; expected a number"),
        ({"label": 3}, "label is 3; expected a text"),
        ({"unheard": 3}, "unknown key 'unheard'"),
    ],
)
def test_facts_that_are_wrong(place, facts, words):
    spoil(place / checkpoints.STATE, facts)
    refused(lambda: resume(place), words)


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"weights/embed.weight": None}, "has no 'weights/embed.weight'"),
        ({"average/embed.weight": None}, "has no 'average/embed.weight'"),
        ({"other": torch.ones(1)}, "has 'other'"),
        ({"weights/head.weight": torch.ones(1)}, "'weights/head.weight' in"),  # it would broadcast
        ({"exp_avg/head.weight": torch.ones(3, 3)}, "'exp_avg/head.weight' in"),  # it would end the process
        ({"weights/head.weight": torch.full((4, 8), torch.nan)}, "not finite"),
        ({"exp_avg/head.weight": torch.full((4, 8), torch.inf)}, "not finite"),
        ({"weights/head.weight": torch.ones(4, 8, dtype=torch.int64)}, "of type I64"),
    ],
)
def test_tensors_that_are_wrong(place, tensors, words):
    spoil(place / checkpoints.STATE, tensors=tensors)
    refused(lambda: resume(place), words)


CONFIGS = [
    ({"hidden": 12 * 10**9}, "hidden is 12000000000"),
    ({"layers": 10**18}, "layers is 1000000000000000000"),
    ({"layers": 4000}, "has no 'blocks.1."),
    ({"vocabulary": 2**24, "hidden": 2**17}, "fit into the"),
    ({"kind": ["mdm"]}, "kind is ['mdm']; expected a text"),
    ({"kind": None}, "kind is None; expected a text"),
    ({"hidden": "8"}, "hidden is '8'"),
    ({"hidden": 8.0}, "hidden is 8.0"),
    ({"model_type": ["unmask"]}, "the type of the model is ['unmask']"),
]


@pytest.mark.parametrize(("change", "words"), CONFIGS)
def test_configs_that_ask_for_much(place, change, words):
    path = place / checkpoints.CONFIG
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    refused(lambda: networks.load(place, "cpu"), words)


@pytest.mark.parametrize(
    ("value", "words"),
    [(torch.nan, "not finite"), (-torch.inf, "not finite"), (3e38, "too large")],
)
def test_weights_that_are_no_numbers(place, value, words):
    weights = load_file(place / checkpoints.WEIGHTS)
    weights["embed.weight"][:] = value
    save_file(weights, place / checkpoints.WEIGHTS)
    refused(lambda: networks.load(place, "cpu"), words)


@pytest.mark.parametrize("name", [checkpoints.WEIGHTS, checkpoints.CONFIG, checkpoints.STATE, checkpoints.ACCOUNT])
def test_pipes_are_not_waited_for(place, name):
    (place / name).unlink()
    os.mkfifo(place / name)
    attempts = {checkpoints.STATE: resume, checkpoints.ACCOUNT: checkpoints.read_language}
    refused(lambda: attempts.get(name, lambda where: networks.load(where, "cpu"))(place), "it is a pipe")


@pytest.mark.parametrize(
    ("account", "words"),
    [
        ([], "it is []; expected a mapping"),
        ({"origin": None}, "origin is None"),
        ({"origin": {"configuration": {"label": "x"}}}, "origin.configuration has no 'language'"),
        ({"origin": {"configuration": {"label": 3, "language": {}}}}, "origin.configuration.label is 3"),
        ({"origin": {"configuration": {"label": "x", "language": {"kind": "interval"}}}}, "has no 'width'"),
    ],
)
def test_accounts_that_are_wrong(place, account, words):
    (place / checkpoints.ACCOUNT).write_text(json.dumps(account))
    refused(lambda: checkpoints.read_language(place), words)


@pytest.mark.rotates(3)
def test_two_trainings_into_one_directory(place):
    program = "import sys; from pathlib import Path; from unmask.models.trained.stored import alone\n"
    program += f"with alone(Path({str(place)!r})): print('here', flush=True); sys.stdin.read()"
    other = subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True)
    assert other.stdout.readline() == "here\n"
    refused(lambda: resume(place), "another process trains in")
    other.communicate("")
    with alone(place):
        pass
    assert resume(place).steps == 4
