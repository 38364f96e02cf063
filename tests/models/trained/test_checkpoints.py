"""A network that was saved is the same when it is loaded, and a directory that is damaged says how."""

from __future__ import annotations

import json
import re

import pytest
import torch
from safetensors.torch import save_file

from tests.models.trained.small import L, V, every_context, trunk
from unmask import UnmaskError
from unmask.models import trained
from unmask.models.trained import checkpoints


@pytest.fixture
def directory(tmp_path):
    return trained.save(trunk(dtype=torch.float32), tmp_path / "made" / "here")


@pytest.mark.parametrize("kind", ["mdm", "ar"])
def test_there_and_back(tmp_path, kind):
    made = trunk(kind, dtype=torch.float32, seed=3)
    trained.save(made, tmp_path, {"steps": 3})
    loaded = trained.load(tmp_path, "cpu")
    assert loaded.shape == made.shape
    assert not loaded.training
    assert loaded(every_context()).equal(made(every_context()))
    assert json.loads((tmp_path / "training.json").read_text()) == {"steps": 3}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors", "training.json"]


def test_config_is_the_shape_and_whose_it_is(directory):
    config = json.loads((directory / "config.json").read_text())
    assert config == {"model_type": "unmask", "architectures": ["UnmaskForMaskedLM"], **trunk().shape.to_dict()}


def refuses(directory, words, **asked):
    with pytest.raises(UnmaskError, match=re.escape(words)) as refused:
        trained.load(directory, "cpu", **asked)
    assert str(directory) in str(refused.value)


def test_another_vocabulary_or_length_than_asked(directory):
    assert trained.load(directory, "cpu", vocabulary=V, length=L - 1).shape.vocabulary == V
    refuses(directory, f"a network for {V} symbols, not for 8", vocabulary=8)
    refuses(directory, f"a network for at most {L} tokens, not for 512", length=512)


def test_nothing_there(tmp_path, directory):
    refuses(tmp_path / "nowhere", "holds no network (it does not exist)")
    (directory / "config.json").unlink()
    refuses(directory, "no config.json in it")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "llama"}, "the type of the model is 'llama'; expected 'unmask'"),
        ({"layerz": 3}, "unknown field of a network's shape 'layerz'; did you mean layers?"),
        ({"hidden": 15}, "hidden is 15"),
        ({"hidden": "16"}, "hidden is '16'; expected a whole number"),
        ({"vocabulary": V + 1}, "'embed.weight' in"),
        ({"layers": 3}, "has no 'blocks.2."),
        ({"layers": 1}, "which the network of config.json does not have"),
    ],
)
def test_a_config_that_is_wrong(directory, change, words):
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config | change))
    refuses(directory, words)


def test_a_config_that_is_cut(directory):
    whole = (directory / "config.json").read_text()
    (directory / "config.json").write_text(whole[:40])
    refuses(directory, "config.json is not JSON")
    (directory / "config.json").write_text("[1]")
    refuses(directory, "it is [1]; expected a mapping")


@pytest.mark.parametrize("size", [0, 5, 100, -1])
def test_weights_that_are_cut(directory, size):
    whole = (directory / "model.safetensors").read_bytes()
    (directory / "model.safetensors").write_bytes(whole[:size])
    refuses(directory, "is not a complete safetensors file")


def test_weights_that_are_gone_or_of_another(directory):
    save_file({"other": torch.ones(2)}, directory / "model.safetensors")
    refuses(directory, "has no 'place', which the network of config.json needs")
    (directory / "model.safetensors").unlink()
    refuses(directory, "holds no model.safetensors")


def test_devices(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert checkpoints.choose_device("auto") == checkpoints.choose_device("cpu") == torch.device("cpu")
    with pytest.raises(UnmaskError, match="torch finds no CUDA device"):
        checkpoints.choose_device("cuda")
    with pytest.raises(UnmaskError, match="unknown device 'gpu'"):
        checkpoints.choose_device("gpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert checkpoints.choose_device("auto") == torch.device("cuda")


def test_a_file_where_the_directory_should_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnmaskError, match="file is not a directory"):
        trained.save(trunk(), tmp_path / "file")
