"""Networks and states come back from their files; a directory that is damaged, or asks for much, says so in a line."""

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

from tests.models.trained.small import L, V, every_context, trunk
from unmask import UnmaskError, languages
from unmask.models import trained as networks
from unmask.models.trained import checkpoints
from unmask.models.trained.checkpoints import ACCOUNT, CONFIG, STATE, WEIGHTS, alone
from unmask.models.trained.loop import resume, train
from unmask.models.trained.recipe import Recipe
from unmask.models.trained.shape import Shape

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


@pytest.mark.parametrize("kind", ["mdm", "ar"])
def test_there_and_back(tmp_path, kind):
    made = trunk(kind, dtype=torch.float32, seed=3)
    networks.save(made, tmp_path / "made" / "here", {"steps": 3})
    place = tmp_path / "made" / "here"
    loaded = networks.load(place, "cpu")
    assert (loaded.shape, loaded.training) == (made.shape, False)
    assert loaded(every_context()).equal(made(every_context()))
    assert json.loads((place / ACCOUNT).read_text()) == {"steps": 3}
    assert json.loads((place / CONFIG).read_text()) == {"model_type": "unmask", **made.shape.to_dict()}
    assert sorted(path.name for path in place.iterdir()) == [CONFIG, WEIGHTS, ACCOUNT]
    assert networks.load(place, "cpu", vocabulary=V, length=L - 1).shape.vocabulary == V
    refused(lambda: networks.load(place, "cpu", vocabulary=8), f"a network for {V} symbols, not for 8")
    refused(lambda: networks.load(place, "cpu", length=512), f"a network for at most {L} tokens, not for 512")


def test_a_state_comes_back(place):
    source, found, tensors = checkpoints.read_state(place)
    assert (found.step, found.recipe, found.shape.hidden) == (4, RECIPE, 8)
    assert source.to_dict() == LANGUAGE.to_dict()
    assert [entry["step"] for entry in found.journal] == [1, 2, 3, 4]
    assert {name.partition("/")[0] for name in tensors} == {"weights", "average", "exp_avg", "exp_avg_sq"}


def test_nothing_there(tmp_path, place):
    refused(lambda: networks.load(tmp_path / "nowhere", "cpu"), "holds no network (it does not exist)")
    for name, words in ((WEIGHTS, f"holds no {WEIGHTS}"), (CONFIG, f"no {CONFIG} in it")):
        (place / name).unlink()
        refused(lambda: networks.load(place, "cpu"), words)
    refused(lambda: resume(tmp_path / "nowhere"), "holds nothing to resume")
    save_file({"other": torch.ones(2)}, place / STATE)
    refused(lambda: resume(place), "has no metadata of a training")
    (tmp_path / "file").write_text("")
    refused(lambda: networks.save(trunk(), tmp_path / "file"), "file is not a directory")


CONFIGS = [
    ({"model_type": "llama"}, "the type of the model is 'llama'; expected 'unmask'"),
    ({"layerz": 3}, "unknown field of a network's shape 'layerz'; did you mean layers?"),
    ({"hidden": 15}, "hidden is 15"),
    ({"hidden": "8"}, "hidden is a text; expected a whole number"),
    ({"hidden": 12 * 10**9}, "hidden is 12000000000"),
    ({"vocabulary": 5}, "'embed.weight' in"),
    ({"vocabulary": 2**24, "hidden": 2**17}, "fit into the"),
    ({"layers": 4000}, "has no 'blocks.1."),
    ({"kind": ["mdm"]}, "kind is a list; expected a text"),
    ({"kind": "ar"}, "'place', which the network of config.json does not have"),
]


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("change", "words"), CONFIGS)
def test_configs_that_are_wrong(place, change, words):
    path = place / CONFIG
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    refused(lambda: networks.load(place, "cpu"), words)


@pytest.mark.parametrize("size", [0, 5, 100, -1])
def test_weights_that_are_cut(place, size):
    whole = (place / WEIGHTS).read_bytes()
    (place / WEIGHTS).write_bytes(whole[:size])
    refused(lambda: networks.load(place, "cpu"), "is not a complete safetensors file")


NUMBERLESS = [(torch.nan, "not finite"), (-torch.inf, "not finite"), (3e38, "too large")]


@pytest.mark.parametrize(("value", "words"), NUMBERLESS)
def test_weights_that_are_no_numbers(place, value, words):
    weights = load_file(place / WEIGHTS)
    weights["embed.weight"][:] = value
    save_file(weights, place / WEIGHTS)
    refused(lambda: networks.load(place, "cpu"), words)


def spoil(path, facts=None, tensors=None):
    """The state with other facts (a text, or changes of them) and other tensors (None: left out)."""
    with safe_open(path, "pt") as file:
        said = json.loads(file.metadata()["unmask"])
    said = facts if isinstance(facts, str) else json.dumps(said | (facts or {}))
    kept = {name: tensor for name, tensor in (load_file(path) | (tensors or {})).items() if tensor is not None}
    save_file(kept, path, {"unmask": said})


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ("nope", "is not JSON"),
        ("{}", "it has no 'shape'"),
        ({"step": 5}, "step is 5; expected at most 4"),
        ({"recipe": {"steps": 4, "batch": 4, "rate": 0.1, "seed": "x"}}, "seed"),
        ({"shape": {"kind": "mdm", "vocabulary": 4, "length": 8, "hidden": 12 * 10**9}}, "hidden is 12000000000"),
        ({"language": {"kind": "interval", "width": 5}}, "is a network for 4 symbols, not for 16"),
        ({"language": {"kind": "os:system"}}, "unknown kind of language"),
        ({"journal": [3]}, "journal[0] is a whole number; expected a mapping"),
        ({"unheard": 3}, "unknown key 'unheard'"),
    ],
)
def test_facts_that_are_wrong(place, facts, words):
    spoil(place / STATE, facts)
    refused(lambda: resume(place), words)


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"average/embed.weight": None}, "has no 'average/embed.weight'"),
        ({"other": torch.ones(1)}, "has 'other'"),
        ({"weights/head.weight": torch.ones(1)}, "'weights/head.weight' in"),  # it would broadcast
        ({"exp_avg/head.weight": torch.ones(3, 3)}, "'exp_avg/head.weight' in"),  # it would end the process
        ({"exp_avg/head.weight": torch.full((4, 8), torch.inf)}, "not finite"),
        ({"weights/head.weight": torch.ones(4, 8, dtype=torch.int64)}, "of type I64"),
    ],
)
def test_tensors_that_are_wrong(place, tensors, words):
    spoil(place / STATE, tensors=tensors)
    refused(lambda: resume(place), words)


@pytest.mark.parametrize("name", [WEIGHTS, CONFIG, STATE, ACCOUNT])
def test_pipes_are_not_waited_for(place, name):
    (place / name).unlink()
    os.mkfifo(place / name)
    attempts = {STATE: resume, ACCOUNT: checkpoints.read_language}
    refused(lambda: attempts.get(name, lambda where: networks.load(where, "cpu"))(place), "it is a pipe")


@pytest.mark.parametrize(
    ("account", "words"),
    [
        ({"origin": {"configuration": {"label": "x"}}}, "origin.configuration has no 'language'"),
        ({"origin": {"configuration": {"label": 3, "language": {}}}}, "origin.configuration.label "),
        (
            {"origin": {"configuration": {"label": "x", "language": {"kind": "interval"}}}},
            "it has no 'width'",
        ),
    ],
)
def test_accounts_that_are_wrong(place, account, words):
    (place / ACCOUNT).write_text(json.dumps(account))
    refused(lambda: checkpoints.read_language(place), words)


def test_devices(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert checkpoints.choose_device("auto") == checkpoints.choose_device("cpu") == torch.device("cpu")
    refused(lambda: checkpoints.choose_device("cuda"), "torch finds no CUDA device")
    refused(lambda: checkpoints.choose_device("gpu"), "unknown device 'gpu'")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert checkpoints.choose_device("auto") == torch.device("cuda")


@pytest.mark.long
def test_two_trainings_into_one_directory(place):
    program = "import sys; from pathlib import Path; from unmask.models.trained.checkpoints import alone\n"
    program += f"with alone(Path({str(place)!r})): print('here', flush=True); sys.stdin.read()"
    other = subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True)
    assert other.stdout.readline() == "here\n"
    refused(lambda: resume(place), "another process trains in")
    other.communicate("")
    with alone(place):
        pass
    assert resume(place).steps == 4
