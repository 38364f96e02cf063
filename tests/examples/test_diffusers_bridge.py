"""The callback of Diffusers on a stub of its pipeline: our sampler decides, whatever the pipeline has chosen."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from diffusers_bridge import Callback
from torch import nn

from unmask import generate, languages
from unmask.core.errors import UnmaskError

pytestmark = pytest.mark.long
LANGUAGE = languages.load("paper-2gram")
V = MASK = LANGUAGE.vocabulary


class Model(nn.Module):
    """The exact denoiser of the window, with logits as an attribute or first in a tuple."""

    wrapped = True

    def forward(self, input_ids):
        exact = LANGUAGE.posterior(input_ids).log().clamp(min=-1e4)
        logits = torch.cat([exact, torch.zeros_like(exact[..., :1])], -1)
        return SimpleNamespace(logits=logits) if self.wrapped else (logits,)


def pipeline(model, ids, size, callback, whole=True):
    """As LLaDA2Pipeline: block after block, a window up to its end, tokens of its own choice, then the callback."""
    for end in range(size, ids.shape[1] + 1, size):
        for step in range(size):
            window = ids[:, :end].clone()
            if not bool((window == MASK).any()):
                break
            model(input_ids=window) if step % 2 else model(window)
            window[window == MASK] = 0  # the pipeline's own tokens
            told = callback(None, step, None, {"block_x": window if whole else window[:, -size:]})
            ids[:, end - told["block_x"].shape[1] : end] = told["block_x"]
    return ids


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("wrapped", [True, False])
def test_the_tokens_are_those_of_the_sampler(whole, wrapped):
    model, given = Model(), torch.full((2, 8), MASK)
    model.wrapped = wrapped
    given[:, 0] = torch.tensor([1, 2])
    with Callback(model, "threshold(threshold=0.4)", MASK, seed=3) as callback:
        ids = pipeline(model, given.clone(), 4, callback, whole)
    expected = given.clone()
    for end in (4, 8):
        expected[:, :end] = generate(
            LANGUAGE, sampler="threshold(threshold=0.4)", given=expected[:, :end], seed=3
        ).tokens
    assert ids.tolist() == expected.tolist()
    assert not model._forward_hooks


def test_a_callback_needs_a_forward_pass():
    with Callback(Model(), "threshold", MASK) as callback, pytest.raises(UnmaskError, match="no forward pass"):
        callback(None, 0, None, {"block_x": torch.zeros((1, 4))})
