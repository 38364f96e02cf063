"""Soft targets: the exact laws that training may be told in the place of the tokens that were drawn from them.

    grad E_{x_j ~ q(. | x_R)} [-log p(x_j | x_R)]  =  grad -sum_v q(v | x_R) log p(v | x_R)

The right side is what a batch of one-hot targets estimates, with the noise of the draw of x_j.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.core.memory import fits
from unmask.ideal import Ideal
from unmask.languages import Language
from unmask.networks.training.objectives import Masks, follows


def hidden_laws(language: Language, tokens: Tensor, masks: Masks, most: int) -> Tensor:
    """(B, most, V) float32: q(x_j | x_R) at the first positions of the order, hidden or not (where it is one-hot)."""
    fits(len(tokens) * most, f"laws of {language.vocabulary} symbols", 12 * language.vocabulary)
    return language.posterior(masks.hide(tokens, language.vocabulary), masks.order[:, :most]).float()


def next_laws(language: Language, tokens: Tensor) -> Tensor:
    """(B, L, V) float32: q(x_j | x_<j)."""
    rows, length = tokens.shape
    fits(tokens.numel(), f"laws of {language.vocabulary} symbols", 12 * language.vocabulary)
    said = Ideal(language).causal(rows, length).extend(follows(tokens, language.vocabulary))
    laws = said if isinstance(said, Tensor) else said.dense()
    return laws.view(rows, length, -1).to(torch.float32)
