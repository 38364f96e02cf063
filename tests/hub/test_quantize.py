"""Weights of 8 bits: a little other answers, named in what was made of them."""

from __future__ import annotations

import sys

import msgspec
import pytest
import torch

from tests.hub.small import CONFIGS, card, published, tokens
from tests.needs import needs
from unmask import UnmaskError, generate, hub

SHOWN = {"vocab_size": 128, "hidden_size": 64, "intermediate_size": 96}


@pytest.fixture
def directory(tmp_path):
    place = published(tmp_path / "model", "qwen2", CONFIGS["qwen2"] | SHOWN)
    (tmp_path / "card.json").write_bytes(msgspec.json.encode(card("qwen2")))
    return place


@pytest.mark.filterwarnings("ignore")
@needs("torchao")
def test_eight_bits(directory):
    options = {"card": str(directory.parent / "card.json"), "dtype": "float32"}
    whole, small = hub.load_model(directory, **options), hub.load_model(directory, quantize="int8", **options)
    row = torch.where(tokens(1, 12) < 40, tokens(1, 12), 37)
    ours, theirs = (model.body.logits(model.body.states(row, None, None, None)) for model in (small, whole))
    off = float((ours - theirs).abs().max() / theirs.abs().max())
    assert 1e-4 < off < 0.1
    assert small.source()["quantize"] == "int8"
    assert whole.source()["quantize"] == "none"
    assert generate(small, length=8, rows=2, steps=4).tokens.shape == (2, 8)


def test_what_cannot_be(directory, monkeypatch):
    chosen = str(directory.parent / "card.json")
    with pytest.raises(UnmaskError, match="quantize"):
        hub.load_model(directory, card=chosen, quantize="int3")
    monkeypatch.setitem(sys.modules, "torchao", None)
    with pytest.raises(UnmaskError, match=r"--quantize int8 needs torchao\. Run: pip install torchao"):
        hub.load_model(directory, card=chosen, quantize="int8")
