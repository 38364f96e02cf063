"""`unmask generate --model`: the same rows as in Python, and every way to ask for a network that is not there."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
import torch

from tests.models.open.small import CONFIGS, card, published
from tests.models.trained.small import L, V, trunk
from unmask import generate
from unmask.core.samples import read_tokens
from unmask.models.trained import Network, save


@pytest.fixture
def pair(run):
    """Directories mdm and ar."""
    trunks = [trunk(kind, dtype=torch.float32) for kind in ("mdm", "ar")]
    for made in trunks:
        save(made, made.shape.kind)
    return trunks


@pytest.mark.parametrize("sampler", ["ancestral", "autoregressive", "speculative"])
def test_a_model_in_place_of_a_language(run, pair, sampler):
    """Its length is what it was made for."""
    models = {
        "ancestral": (["--model", "mdm"], Network(pair[0])),
        "autoregressive": (["--model", "ar"], Network(ar=pair[1])),
        "speculative": (["--model", "mdm", "--causal-model", "ar", "--batch", 7], Network(*pair)),
    }
    options, network = models[sampler]
    ran = run("generate", *options, "--sampler", sampler, "--rows", 20, "--steps", 3, "--out", "x.npy", "--json")
    made = generate(network, sampler=sampler, rows=20, steps=3, length=L)
    assert ran.code == 0, ran.err
    assert torch.equal(read_tokens("x.npy"), made.tokens)
    assert ran.result["model_calls"] == float(made.model_calls.double().mean())


def test_a_model_goes_on_from_what_is_given(run, pair):
    start = np.array([[0, V, 2, V], [V, V, V, 1]])
    np.save("start.npy", start)
    run("generate", "--model", "mdm", "--given", "start.npy", "--rows-per-prompt", 3, "--out", "x.npy")
    tokens = read_tokens("x.npy").numpy()
    assert tokens.shape == (6, L)
    shown = start.repeat(3, 0)
    assert bool(((shown == V) | (shown == tokens)).all())


MISTAKES = {
    "expected either --language for an exact denoiser, or --model": ["--model", "mdm", "--language", "interval-5"],
    "Pass one of the two": [],
    "--causal-model needs --model": ["--language", "interval-5", "--causal-model", "ar"],
    "--batch needs --model": ["--language", "interval-5", "--batch", 3],
    "--prompt-length needs --language": ["--model", "mdm", "--prompt-length", 2],
    "ar holds an AR network; --causal-model": ["--model", "ar", "--causal-model", "ar"],
    "given as ar is of kind mdm": ["--model", "mdm", "--causal-model", "mdm"],
    "has no AR model": ["--model", "mdm", "--sampler", "autoregressive"],
    "cannot fill masks": ["--model", "ar"],
    "length is 9; the MDM was trained for up to 4 tokens": ["--model", "mdm", "--length", 9],
    "nowhere": ["--model", "nowhere"],
    "finds no CUDA device": ["--model", "mdm", "--device", "cuda"],
    "unknown device 'gpu'": ["--model", "mdm", "--device", "gpu"],
    "--rows-per-prompt needs prompts": ["--model", "mdm", "--rows-per-prompt", 2],
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes(run, pair, monkeypatch, words):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    ran = run("generate", *MISTAKES[words], "--rows", 2, "--out", "x.npy")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("unmask: error: ")
    assert words in ran.err


def test_an_open_model_is_timed(run, tmp_path):
    (tmp_path / "card.json").write_bytes(msgspec.json.encode(card("qwen2")))
    published(tmp_path / "model", "qwen2", CONFIGS["qwen2"])
    options = ("--lengths", 16, "--batch", 1, "--steps", 4, "--repeats", 1, "--json")
    found = run("model", "time", "--model", "model", "--card", "card.json", *options).result
    assert found["model"]["card"] == "small-qwen2"
    assert [timing["length"] for timing in found["timings"]] == [16]
