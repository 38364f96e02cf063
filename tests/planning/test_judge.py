"""What open models say of texts, by enumeration; and the one that knows English."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch

from tests.models.open.small import CONFIGS, MASK, V, card, load, published
from tests.models.open.test_engine import Plain
from unmask import UnmaskError
from unmask.planning.judge import judge


class Letters:
    """Of "a", "b", .."""

    name, vocabulary = "letters", V

    def encode(self, text):
        return np.array([ord(letter) - ord("a") for letter in text], dtype=np.int32)


@pytest.fixture(scope="module", params=[{}, {"prediction": "shifted"}, {"block": 2}])
def model(request, tmp_path_factory):
    directory = published(tmp_path_factory.mktemp("small"), "qwen2", CONFIGS["qwen2"])
    return load(directory, card("qwen2", **request.param), tokenizer=Letters())


def enumerated(model, row):
    """E over m uniform in 1..L and over all sets of m positions of the mean of -log p over them."""
    plain, length, total = Plain(model), len(row), 0.0
    for size in range(1, length + 1):
        of_size = []
        for hidden in combinations(range(length), size):
            tokens = row.clone()
            tokens[list(hidden)] = V
            said = plain.posterior(tokens[None])[0]
            of_size.append(-sum(float(said[place, row[place]].log()) for place in hidden) / size)
        total += sum(of_size) / len(of_size) / length
    return total


@pytest.mark.sampled(3)
def test_the_bound_of_a_masked_model_is_the_enumerated_one(model):
    """At five standard errors: a false alarm in 2 million."""
    texts = ["abcda", "xyz"]
    found = judge(model, [*texts, ""], draws=1500)
    assert found.tokens.tolist() == [5, 3, 0]
    assert found.nats[2].isnan()
    for number, text in enumerate(texts):
        exact = enumerated(model, torch.from_numpy(Letters().encode(text)).long())
        assert abs(float(found.nats[number]) - exact) < 5 * float(found.error[number])
        assert 0 < float(found.error[number]) < 0.1


def test_an_ar_model_is_exact(tmp_path):
    directory = published(tmp_path, "qwen2", CONFIGS["qwen2"])
    model = load(directory, card("qwen2", block=1), tokenizer=Letters())
    texts = ["abc", "", "hgfedcba", "b"]
    found = judge(model, texts)
    assert found.error.tolist()[0] == 0
    assert found.nats[1].isnan()
    for number, text in enumerate(texts):
        row = torch.from_numpy(Letters().encode(text)).long()
        nats = 0.0
        for place in range(len(row)):  # the start says the first token and is not seen by others
            before = row[:place] if place else torch.tensor([1])
            causal = torch.ones((len(before), len(before))).tril().bool()[None, None]
            logits = model.body.logits(model.body.states(before[None], None, causal, None))[0, -1]
            logits[MASK] = -torch.inf
            nats -= float(logits.log_softmax(-1)[row[place]])
        if text:
            assert float(found.nats[number]) == pytest.approx(nats / len(row), abs=1e-9)


def test_who_cannot_read_says_so(tmp_path):
    model = load(published(tmp_path, "qwen2", CONFIGS["qwen2"]), card("qwen2"))
    with pytest.raises(UnmaskError, match="small-qwen2 has no tokenizer"):
        judge(model, ["abc"])
