"""Tests of a decoder, to copy into its repository: `pytest examples/test_my_decoder.py`.

`my_generate` is your own loop. It needs a model with `.logits`, and the id of the mask.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.testing import assert_law, assert_same_tokens


def my_generate(model, rows: int = 400, length: int = 16, steps: int = 8, temperature: float = 1.0) -> Tensor:
    """Low-confidence remasking: draw everywhere, keep the most probable tokens."""
    mask = model.config.mask_token_id
    x = torch.full((rows, length), mask)
    for _ in range(steps):
        p = (model(x).logits / temperature).double().softmax(-1)
        drawn = torch.distributions.Categorical(probs=p).sample()
        score = p.gather(-1, drawn.unsqueeze(-1)).squeeze(-1).masked_fill(x != mask, -1)
        best = score.topk(length // steps).indices
        x = x.scatter(1, best, drawn.gather(1, best))
    return x


def test_my_decoder_has_the_right_distribution():
    assert_law(my_generate, sampler="low-confidence", steps=8)


def test_it_obeys_the_temperature():
    """Filters change draws and scores; LLaDA's temperature, of draws alone, is "low-confidence(temperature=0.7)"."""
    warm = {"temperature": 0.7}
    assert_law(lambda model: my_generate(model, **warm), sampler="low-confidence", steps=8, filters=warm)


def test_it_is_reproducible():
    assert_same_tokens(my_generate, my_generate)
