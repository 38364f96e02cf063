"""An open model on the clock of the networks: what is counted, not how fast it is."""

from __future__ import annotations

import pytest

from tests.models.open.small import CONFIGS, card, load, published
from unmask import UnmaskError
from unmask.planning.clock import as_reader, open_clock


@pytest.fixture
def directory(tmp_path):
    return published(tmp_path / "model", "qwen2", CONFIGS["qwen2"])


def test_each_length_and_batch(directory):
    model = load(directory, card("qwen2"))
    found = open_clock(model, (6, 12), (1, 3), steps=6, repeats=2)
    assert [(timing.length, timing.batch) for timing in found] == [(6, 1), (6, 3), (12, 1), (12, 3)]
    for timing in found:
        assert timing.model_call_ms.value > 0
        assert timing.token_ms.value > 0
        assert timing.model_call_flop == timing.batch * model.body.flops(timing.length, timing.length)
        assert 0 < timing.model_calls <= 6
    (error,) = open_clock(model, (65,), (1,))
    assert "expected at most 64" in str(error)


def test_who_reads(directory):
    model, ar = load(directory, card("qwen2")), load(directory, card("qwen2", block=1))
    assert as_reader(ar) is ar
    assert as_reader(load(directory, card("qwen2"), causal=ar)) is ar
    own = as_reader(model)
    assert own.card.causal
    assert own.body is model.body
    model.body.sizes = None
    with pytest.raises(UnmaskError, match=r"cannot run causally\. Pass an AR model"):
        as_reader(model)
