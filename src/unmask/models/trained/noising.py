"""Uniform noise in training: from noisy tokens y at level a (denoisers/contracts.py) a network predicts the clean ones.

    loss(x) = L E_a E_y [ mean_i -log p_i(x_i | y, a) ],    log(1 - a) uniform between log LEAST_NOISE and 0

Cross-entropy is proper at every level, so the minimiser is the full posterior p_i = q(x_i | y), whatever the weights of
the levels. These are the levels of a sampler whose noise falls geometrically. r follows by division (`without_own`),
exactly. A network whose outputs are r would have to learn log r ~ log(1 - a) of a wrong token; q(x_i | y) hardly
depends on a there.

Soft targets replace x_i by its exact distribution q(x_i | y), with the same expected gradient.

Validation is the NELBO of infinitely many steps, in nats like the NELBO of masks and above the same entropy. With
a = e^-t each token jumps at rate 1 to a random symbol, and backwards to b at rate s_i(b) / V:

    NELBO(x) = E int dt sum_i sum_b [ s_i(b) - u_i(b) log s_i(b) + u_i(b) (log u_i(b) - 1) ] / V
    s_i(b) = (a r_i(b) + (1 - a) / V) / (a r_i(y_i) + (1 - a) / V),    u_i(b) = E_a(x_i, b) / E_a(x_i, y_i)

The integral omits 1 - a < LEAST_NOISE, about LEAST_NOISE nats per token; dt = (1 - a) / a dlog(1 - a).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from unmask.core.arguments import fits
from unmask.core.chance import Randomness, Stream
from unmask.denoisers import UniformIdeal
from unmask.denoisers.contracts import without_own
from unmask.languages import Language
from unmask.models.trained.objectives import FORCED, Network, surprise
from unmask.models.trained.trunk import LEAST_NOISE

KEPT, FRESH = 3, 4  # visits of the uniforms for whether a token is kept, and for the symbol that replaces it


class Noisy(NamedTuple):
    """Rows under noise; a prompt has none."""

    tokens: Tensor  # (B, L): y
    level: Tensor  # (B) float64: a
    prompt: int = 0

    def select(self, rows: Tensor | slice) -> Noisy:
        return Noisy(self.tokens[rows], self.level[rows], self.prompt)

    def to(self, device: torch.device) -> Noisy:
        tokens, level = (part.to(device, non_blocking=True) for part in (self.tokens, self.level))
        return Noisy(tokens, level, self.prompt)

    @property
    def known(self) -> Tensor:
        """Bool (B, L): positions without noise."""
        return (torch.arange(self.tokens.shape[1]) < self.prompt).expand(self.tokens.shape)


def draw_noise(rng: Randomness, batch: int, tokens: Tensor, vocabulary: int, prompt: int = 0) -> Noisy:
    """Draw the noise of tokens (B, L). Levels have low discrepancy, like the numbers of masks (`draw_masks`)."""
    own = rng.grid(Stream.ORDER, 1, FORCED + 1).squeeze(1)
    level = 1 - LEAST_NOISE ** ((rng.row_ids % batch + own) / batch)
    keep, fresh = (rng.grid(Stream.ORDER, tokens.shape[1], visit) for visit in (KEPT, FRESH))
    keep[:, :prompt] = -1.0
    return Noisy(torch.where(keep < level.unsqueeze(1), tokens, (fresh * vocabulary).long()), level, prompt)


def noisy_nats(
    network: Network, tokens: Tensor, noisy: Noisy, timed: bool, distributions: Tensor | None = None
) -> Tensor:
    """(B): sum of -log p_i(x_i | y) after the prompt; with distributions (B, L, V), its expectation over x_i."""
    logits = network(noisy.tokens, None, noisy.level if timed else None)
    return surprise(logits, tokens if distributions is None else distributions)[:, noisy.prompt :].sum(1)


def clean_distributions(language: Language, noisy: Noisy) -> Tensor:
    """(B, L, V) float32: q(x_i | y)."""
    fits(noisy.tokens.numel(), f"distributions of {language.vocabulary} symbols", 24 * language.vocabulary)
    return UniformIdeal(language).full().posterior(noisy.tokens, time=noisy.level, known=noisy.known).float()


def alone(full: Tensor, noisy: Noisy) -> Tensor:
    """(B, L, V) float64: r, from q(x_i | y) (B, L, V)."""
    level = noisy.level.repeat_interleave(full.shape[1])
    return without_own(full.double().flatten(0, 1), noisy.tokens.flatten(), level).view_as(full)


def nelbo(alone: Tensor, tokens: Tensor, noisy: Noisy) -> Tensor:
    """(B): an unbiased estimate of the NELBO of tokens (B, L), in nats, from r (B, L, V); one level for each row."""
    vocabulary, level = alone.shape[2], noisy.level.repeat_interleave(tokens.shape[1])
    own, clean = noisy.tokens.reshape(-1), torch.nn.functional.one_hot(tokens.reshape(-1), vocabulary).double()

    def ratios(r: Tensor) -> Tensor:
        shown = level.unsqueeze(1) * r + (1 - level.unsqueeze(1)) / vocabulary
        return shown / shown.gather(1, own.unsqueeze(1))

    guess, truth = ratios(alone.flatten(0, 1)), ratios(clean)
    rates = (guess - truth - truth * (guess / truth).log()).sum(1).view(tokens.shape) / vocabulary
    return rates[:, noisy.prompt :].sum(1) * -math.log(LEAST_NOISE) * (1 - noisy.level) / noisy.level
