"""unmask train: what Python does, the object that programs read, and what it says to mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from unmask import UnmaskError, languages
from unmask.models import trained
from unmask.models.trained import loop, preset
from unmask.models.trained.loop import Conditions
from unmask.models.trained.recipe import recipe

TINY = ("--length", 8, "--hidden", 16, "--layers", 1, "--heads", 2)
BRIEF = (*TINY, "--steps", 10, "--batch", 8)
SMALL = ("--language", "paper-2gram", *BRIEF)
OTHER = ("--language", "paper-2gram(seed=2)", *BRIEF)
KEYS = {
    "directory",
    "steps",
    "seconds",
    "parameters",
    "tokens_per_second",
    "loss_nats_per_token",
    "validation_nats_per_token",
    "entropy_nats_per_token",
    "excess_percent",
    "device",
    "threads",
    "precision",
    "percent_of_matmul_peak",
}
MEASURED = {"directory", "seconds", "tokens_per_second", "percent_of_matmul_peak"}  # another at every run


@pytest.mark.parametrize("kind", ["mdm", "ar"])
def test_it_is_what_python_trains(run, kind):
    ran = run("train", *OTHER, "--model", kind, "--seed", 3, "--out", "out", "--json")
    assert ran.code == 0
    assert set(ran.result) == KEYS
    language = languages.load("paper-2gram(seed=2)")
    shape = preset("quick", kind, 8, length=8, hidden=16, layers=1, heads=2)
    found = loop.train(language, shape, recipe("quick", kind, steps=10, batch=8, seed=3), "python").to_dict()
    assert ran.result["percent_of_matmul_peak"] > 0
    for name in KEYS - MEASURED:
        assert ran.result[name] == found[name]
    ours, theirs = load_file("out/model.safetensors"), load_file("python/model.safetensors")
    assert all(tensor.equal(theirs[name]) for name, tensor in ours.items())
    assert ran.result["entropy_nats_per_token"] == pytest.approx(language.entropy(8).value / 8)
    assert ran.result["parameters"] == sum(weight.numel() for weight in trained.load("out", "cpu").parameters())
    account = json.loads(Path("out/training.json").read_text())
    assert account["origin"]["configuration"]["label"] == "paper-2gram(seed=2)"


def test_uniform_noise_is_what_python_trains_and_generates_with_its_samplers(run):
    ran = run("train", *SMALL, "--noise", "uniform", "--seed", 3, "--out", "out", "--json")
    assert ran.code == 0
    assert set(ran.result) == KEYS
    language = languages.load("paper-2gram")
    shape = preset("quick", "mdm", 8, length=8, hidden=16, layers=1, heads=2, time_free=False, noise="uniform")
    how = recipe("quick", "mdm", "uniform", steps=10, batch=8, seed=3)
    found = loop.train(language, shape, how, "python").to_dict()
    for name in KEYS - MEASURED:
        assert ran.result[name] == found[name]
    made = run(
        "generate", "--model", "out", "--sampler", "uniform-ancestral", "--steps", 3, "--rows", 4, "--out", "a.npy"
    )
    assert made.code == 0
    traced = ("--sampler", "uniform-ancestral", "--steps", 3, "--out", "trace.json")
    assert run("play", "--model", "out", *traced).code == 0
    assert (
        run("generate", "--model", "out", "--sampler", "renoise", "--steps", 3, "--rows", 4, "--out", "c.npy").code == 0
    )
    refused = run("generate", "--model", "out", "--steps", 3, "--rows", 4, "--out", "d.npy").err
    assert "sampler ancestral removes mask noise, and Network removes uniform noise; expected the same. Use" in refused
    assert run("train", "--out", "out", "--resume", "--json").result["steps"] == 10


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--noise", "gauss"), "unknown noise 'gauss'; known: mask, uniform"),
        (("--noise", "uniform", "--model", "ar"), "an AR model removes no noise"),
        (("--noise", "uniform", "--spread", 0.5), "spread is set, which needs masks; the noise is uniform"),
    ],
)
def test_mistakes_with_noise(run, options, said):
    ran = run("train", *SMALL, *options, "--out", "out")
    assert ran.code != 0
    assert said in ran.err
    assert not Path("out").exists()


def test_every_option_reaches_the_recipe(run):
    options = ("--rate", 0.5, "--weight-decay", 0.25, "--average", 0.5, "--samples", 40)
    run(
        "train",
        *("--language", "paper-2gram(pruned=False)"),
        *BRIEF,
        *options,
        "--accumulate",
        2,
        "--spread",
        0.25,
        "--run",
        3,
        "--targets",
        "posterior",
        "--optimiser",
        "muon",
        "--out",
        "out",
    )
    origin = json.loads(Path("out/training.json").read_text())["origin"]["configuration"]
    wanted = {
        "rate": 0.5,
        "weight_decay": 0.25,
        "average": 0.5,
        "samples": 40,
        "spread": 0.25,
        "run": 3,
        "targets": "posterior",
        "optimiser": "muon",
    }
    assert {name: origin["recipe"][name] for name in wanted} == wanted
    assert origin["parts"] == 2
    assert origin["label"] == "paper-2gram(pruned=False)"
    assert origin["language"] == languages.load("paper-2gram(pruned=False)").to_dict()


def test_the_table_and_what_is_said_meanwhile(run):
    ran = run("train", *SMALL, "--out", "out")
    assert ran.out.startswith("directory")
    assert "excess percent" in ran.out
    assert ran.err.count("nats per token") == 10
    assert ran.err.startswith("step 1, ")


def test_an_interrupted_training_is_resumed(run, monkeypatch):
    whole = run("train", *SMALL, "--out", "whole", "--json").result
    report = loop.Training._report

    def interrupt(self):
        if self.step == 6:
            raise KeyboardInterrupt
        report(self)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "Conditions", often)
        patch.setattr(loop.Training, "_report", interrupt)
        ran = run("train", *SMALL, "--out", "out")
    assert ran.code == 130
    assert "the checkpoint of step 5 is in out. Continue with --resume --out out" in ran.err
    resumed = run("train", "--out", "out", "--resume", "--json")
    assert resumed.code == 0
    assert resumed.result["validation_nats_per_token"] == whole["validation_nats_per_token"]


def often(*arguments):
    return Conditions(*arguments, save_seconds=0.0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--out", "new"), "--language is missing"),
        (("--out", "new", "--resume"), "new holds nothing to resume"),
        (("--out", "out", "--resume", "--rate", 1), "--rate does not apply to --resume"),
        (("--out", "out", "--resume", "--language", "brackets"), "--language does not apply to --resume"),
        ((*SMALL, "--out", "out"), "already holds a network"),
        ((*SMALL, "--out", "new", "--model", "mmd"), "did you mean mdm?"),
        ((*SMALL, "--out", "new", "--preset", "papr"), "did you mean paper?"),
        ((*SMALL, "--out", "new", "--device", "cuda"), "no CUDA device"),
        ((*SMALL, "--out", "new", "--device", "gpu"), "unknown device 'gpu'"),
        ((*SMALL, "--out", "new", "--precision", "half"), "unknown precision 'half'"),
        ((*SMALL, "--out", "new", "--heads", 3), "expected a multiple of 2 x heads"),
        ((*SMALL, "--out", "new", "--samples", 1), "at least 2"),
        (("--language", "modular-sum", "--length", 1, "--out", "new"), "no sequence of length 1"),
        (("--language", "papr-2gram", "--out", "new"), "did you mean paper-2gram"),
    ],
)
def test_mistakes_are_told(run, monkeypatch, arguments, words):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    Path("out").mkdir()
    Path("out/config.json").write_text("{}")
    ran = run("train", *arguments)
    assert ran.code == 2
    assert ran.err.startswith("unmask: error: ")
    assert words in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("optimiser", ["muon", "adamw"])
def test_a_rate_that_overflows_leaves_nothing(run, tmp_path, optimiser):
    ran = run("train", *SMALL, "--optimiser", optimiser, "--rate", "1e308", "--out", "out")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "at most 1e+06" in ran.err
    assert not (tmp_path / "out").exists()
    for name in ("rate", "clip", "weight_decay"):
        with pytest.raises(UnmaskError, match=rf"{name} is 1e\+308; expected .* 1e\+06"):
            recipe("small", **{name: 1e308})
