"""unmask model learning: of a network that has learned little, both parts of its errors, and what is refused."""

from __future__ import annotations

import json
import shutil

import pytest

from unmask.cli.main import main

LANGUAGE = ("--language", "paper-2gram")
BRIEF = ("--rows", 50, "--contexts", 10)


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    """Directories of an MDM and of an AR model, by their names."""
    made = tmp_path_factory.mktemp("networks")
    size = ("--length", "8", "--hidden", "8", "--heads", "1", "--steps", "20", "--batch", "16")
    for kind in ("mdm", "ar"):
        words = (*LANGUAGE, "--model", kind, *size, "--device", "cpu", "--out", str(made / kind))
        assert main(["train", *words]) == 0
    return made


@pytest.fixture
def trained(run, networks):
    def copied(kind):
        shutil.copytree(networks / kind, kind)
        return kind

    return copied


def test_an_mdm(run, trained):
    ran = run("model", "learning", trained("mdm"), "--steps", 2, 8, *BRIEF, "--json")
    assert ran.code == 0
    assert (ran.result["kind"], ran.result["language"], ran.result["length"]) == ("mdm", "paper-2gram", 8)
    ours, visited = ran.result["learning"]
    assert ours["contexts"] == "of the language"
    assert ours["impossible"] == 0
    assert visited["contexts"].startswith("of ancestral")
    assert [error["steps"] for error in ran.result["errors"]] == [2, 8]
    for error in ran.result["errors"]:
        assert error["ser"]["value"] == pytest.approx(error["ser_sampling"]["value"] + error["ser_learning"]["value"])
        assert error["ter_learning"]["value"] > 1.01  # it has learned little
    out = run("model", "learning", "mdm", "--steps", 2, *BRIEF).out
    assert "MDM on paper-2gram" in out
    assert "x 1." in out


def test_a_network_of_uniform_noise(run):
    size = ("--length", 8, "--hidden", 8, "--heads", 1, "--steps", 20, "--batch", 16)
    run("train", *LANGUAGE, "--noise", "uniform", *size, "--device", "cpu", "--out", "out")
    ran = run("model", "learning", "out", "--steps", 2, 8, *BRIEF, "--json")
    assert (ran.code, ran.result["kind"]) == (0, "uniform noise")
    for error in ran.result["errors"]:
        assert error["ser"]["value"] == pytest.approx(error["ser_sampling"]["value"] + error["ser_learning"]["value"])
        assert error["model_calls"] == error["steps"]
    out = run("model", "learning", "out", "--steps", 2, *BRIEF).out
    assert "SER: sampling error and learning error" in out
    plan = run("plan", "--model", "out", "--metric", "ter", "--target", 3).err
    assert "out is a network of uniform noise, whose plan is not known; expected an MDM." in plan


def test_an_ar_model(run, trained):
    ran = run("model", "learning", trained("ar"), *BRIEF, "--json")
    (error,) = ran.result["errors"]
    assert (error["steps"], error["model_calls"], error["ser_sampling"]["value"]) == (None, 8, 0)
    assert error["ser"] == error["ser_learning"]


def test_another_language(run, trained):
    directory = trained("mdm")
    named = run(
        "model", "learning", directory, "--language", "paper-2gram(seed=5)", "--steps", 2, *BRIEF, "--json"
    ).result
    own = run("model", "learning", directory, "--steps", 2, *BRIEF, "--json").result
    assert named["learning"][0]["mean"]["value"] > own["learning"][0]["mean"]["value"]


def test_mistakes(run, trained, tmp_path):
    assert "holds no network" in run("model", "learning", "nowhere").err
    directory = trained("mdm")
    assert "at most 8 tokens, not for 9" in run("model", "learning", directory, "--length", 9).err
    assert "for 8 symbols, not for 16" in run("model", "learning", directory, "--language", "interval-5").err
    (tmp_path / directory / "training.json").unlink()
    assert "Pass --language" in run("model", "learning", directory).err
    (tmp_path / directory / "training.json").write_text(json.dumps({"origin": 3}))
    assert "training.json: origin is a whole number; expected a mapping" in run("model", "learning", directory).err


def test_plan_of_a_network(run, trained):
    directory = trained("mdm")
    plan = ("plan", "--model", directory, "--target")
    ran = run(*plan, 3, "--metric", "ter", "--json")
    assert ran.code == 0
    assert "learning" in ran.result["method"]
    assert 0.1 < ran.result["predicted"]["value"] <= 3
    assert "Train the network longer" in run(*plan, 0.01, "--metric", "ter").err
    assert "Measure it with `unmask model learning`" in run(*plan, 0.01).err
    assert "expected an MDM" in run("plan", "--model", trained("ar"), "--metric", "ter", "--target", 0.5).err
    assert "unmask plan needs one of --language (a known language)" in run("plan", "--target", 0.5).err
