"""`unmask model judge`: texts of each file that texts are written to, and files that hold none."""

from __future__ import annotations

import json
import math

import pytest
import torch

from tests.models.open.speaking import spoken
from unmask.core.samples import write_tokens
from unmask.diagnosis.judge import judge, token_entropy, tokens_of
from unmask.models import open as hub

SAID = ["The cat sat on the mat.", "A dog, too.\nTwice."]


@pytest.fixture(params=[None, 1])
def model(request, tmp_path):
    """(directory, card) of a masked model and of an AR model."""
    directory = tmp_path / "model"
    directory.mkdir()
    return spoken(directory, "qwen2", block=request.param), directory / "card.json"


def test_all_files_say_the_same(run, model, tmp_path):
    directory, card = model
    write_tokens(tmp_path / "a.txt", torch.zeros((2, 3), dtype=torch.int64), SAID)
    write_tokens(tmp_path / "b.jsonl", torch.zeros((2, 3), dtype=torch.int64), SAID)
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, SAID)))
    options = ("--by", directory, "--card", card, "--draws", 6, "--json")
    first, *others = (run("model", "judge", name, *options).result for name in ("a.txt", "b.jsonl", "c.jsonl"))
    assert others == [first, first]
    loaded = hub.load_model(directory, card=str(card))
    found = judge(loaded, SAID, draws=6)
    assert first["tokens"] == int(found.tokens.sum())
    assert first["kind"] == ("exact" if loaded.card.causal else "bound")
    assert first["perplexity"]["value"] == pytest.approx(math.exp(float(found.nats.mean())))
    assert (first["draws_standard_error"] == 0) == loaded.card.causal
    nats = float((found.nats * found.tokens).sum())
    assert first["bits_a_character"] == pytest.approx(nats / math.log(2) / len("".join(SAID)))
    entropy = [float(token_entropy(row[None])) for row in tokens_of(loaded, SAID)]
    assert first["token_entropy_nats"]["value"] == pytest.approx(sum(entropy) / 2)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npy", b"x", "is not a file of texts; expected .txt or .jsonl"),
        ("a.txt", b"", "contains no text"),
        ("a.txt", b"\xff\xfe", "is not UTF-8 text"),
        ("a.jsonl", b'{"tokens": [1]}', "text"),
        ("a.jsonl", b"3", "line 1"),
        ("b.txt", None, "No such file"),
    ],
)
def test_files_that_hold_no_texts(run, tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    said = run("model", "judge", name, "--by", "nobody")
    assert said.code == 2
    assert message in said.err
    assert said.err.count("\n") == 1


PATH = ("--likelihood", "path", "--sampler", "top-probability(ties='position')")


@pytest.fixture
def masked(tmp_path):
    directory = tmp_path / "masked"
    directory.mkdir()
    (tmp_path / "a.txt").write_text(SAID[0])
    return "model", "judge", "a.txt", "--by", spoken(directory), "--card", directory / "card.json"


def test_the_likelihood_of_a_sampler(run, masked):
    """One token per step from left to right is the chain; a random order has the mean of its draws."""
    found = {}
    for kind, *options in (
        ("chain",),
        ("path", "--sampler", "left-to-right"),
        ("path", "--sampler", "top-probability(ties='position')", "--steps", 4),
        ("path", "--sampler", "ancestral", "--steps", 4, "--draws", 5),
    ):
        result = run(*masked, "--likelihood", kind, *options, "--json").result
        assert result["kind"] == kind
        found[kind, *options[1:2]] = result
    chain, path = found["chain",], found["path", "left-to-right"]
    assert path["perplexity"]["value"] == pytest.approx(chain["perplexity"]["value"], rel=1e-5)
    assert path["model_calls"] == chain["model_calls"] == chain["tokens"]
    assert found["path", "top-probability(ties='position')"]["model_calls"] == 4
    random = found["path", "ancestral"]
    assert random["draws_standard_error"] > 0 == path["draws_standard_error"]
    assert 5 <= random["model_calls"] <= 5 * 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--likelihood", "path"), "all texts have probability 0 under llada"),
        (("--likelihood", "path", "--sampler", "wino"), "re-masks tokens"),
        (("--sampler", "ancestral"), "the likelihood bound has no sampler"),
        (("--likelihood", "path", "--sampler", "nobody"), "nobody"),
    ],
)
def test_likelihoods_that_a_sampler_has_not(run, masked, options, message):
    ran = run(*masked, *options)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_an_ar_model_has_no_sampler(run, tmp_path):
    directory = tmp_path / "ar"
    directory.mkdir()
    (tmp_path / "a.txt").write_text(SAID[0])
    name = spoken(directory, "qwen2", block=1)
    ran = run("model", "judge", "a.txt", "--by", name, "--card", directory / "card.json", *PATH)
    assert ran.code == 2
    assert "is an AR model" in ran.err
