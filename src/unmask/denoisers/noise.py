"""The two kinds of noise of a diffusion language model, and the reverse step of uniform noise.

    mask     a hidden position has no token; a denoiser predicts it, and a drawn token stays
    uniform  each token is kept with probability a, its level, and is otherwise uniform on V symbols; every step draws
             all of them again, so wrong tokens can be repaired:  E_a(v, y) = a [v = y] + (1 - a) / V

A denoiser of uniform noise predicts from noisy tokens y at level a, given as its time. Its engine is hollow if a
prediction does not depend on the own token, r_i(v) = q(x_i = v | y without y_i); otherwise it predicts
q(x_i = v | y) ~ r_i(v) E_a(v, y_i). The exact step from level t to s > t draws each position from

    mu_i(b) = q(z_i = b | y) ~ E_(t/s)(b, y_i) (s r_i(b) + (1 - s) / V)

The full posterior in place of r would count y_i twice.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Noise = Literal["mask", "uniform"]


def emitted(weights: Tensor, tokens: Tensor, level: Tensor | float) -> Tensor:
    """(K, V): weights (K, V) times E_a(v, y) of tokens y (K) at a level a, one or (K)."""
    own = tokens.unsqueeze(1)
    level = torch.as_tensor(level, dtype=torch.float64).expand(len(tokens)).unsqueeze(1)
    product = weights * ((1 - level) / weights.shape[1])
    return product.scatter_add_(1, own, level * weights.gather(1, own))


def without_own(full: Tensor, tokens: Tensor, level: Tensor | float) -> Tensor:
    """(K, V): r, from q(x_i | y) at tokens y (K) and a level below 1, one or (K)."""
    alone = full / emitted(torch.ones_like(full), tokens, level)
    return alone / alone.sum(1, keepdim=True)


def reverse(alone: Tensor, tokens: Tensor, before: float, after: float) -> Tensor:
    """(K, V): mu, the probabilities of new tokens at level `after`, from r and tokens (K) at level `before`."""
    ratio = before / after if after > 0 else 0.0
    mixed = emitted(after * alone + (1 - after) / alone.shape[1], tokens, ratio)
    return mixed / mixed.sum(1, keepdim=True)
