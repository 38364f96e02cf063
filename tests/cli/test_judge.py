"""`unmask model judge`: texts of each file that texts are written to, and files that hold none."""

from __future__ import annotations

import json
import math

import pytest
import torch

from tests.models.open.speaking import spoken
from unmask.core.samples import write_tokens
from unmask.models import open as hub
from unmask.planning.judge import judge, token_entropy, tokens_of

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
