"""Validation: the loss of a network on held-out sequences, in nats per token, next to the exact entropy.

The loss of the ideal denoiser on the same sequences and masks, or noise, is a control variate. Its expectation is the
entropy, since every order of an ideal any-order model gives q(x) (theory.md 1). So

    loss = H(q)/|x| + mean of (the network's nats - the ideal's nats)/|x|

has the same expectation as the plain loss and little of its noise: only the noise of the learning error. A text has no
known ideal denoiser, so its validation is the plain loss. Under uniform noise the loss here is the NELBO (noising.py).
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from unmask.core.chance import Randomness
from unmask.core.estimates import Estimate, mean
from unmask.denoisers import UniformIdeal
from unmask.languages import Language
from unmask.models.trained.data import HELD_OUT
from unmask.models.trained.noising import Noisy, alone, draw_noise, nelbo
from unmask.models.trained.objectives import Masks, causal_nats, draw_masks, masked_nats
from unmask.models.trained.trunk import Trunk

BLOCK = 256  # rows whose exact predictions are in memory at once
TOKENS = {"cpu": 2**12, "cuda": 2**17}  # evaluated at once
POSTERIOR_BYTES = 2**26  # bytes of the posteriors of the ideal denoiser in memory at once
LEAST = 1e-12  # nats per token: a language of one sequence has entropy 0, and the relative excess would be infinite


class Validation(NamedTuple):
    loss: Estimate  # nats per token
    entropy: float | None = None  # nats per token, for a language
    excess_percent: Estimate | None = None  # of the loss above the entropy

    @property
    def excess(self) -> Estimate:
        """The excess over the entropy of a language, in %."""
        assert self.excess_percent is not None
        return self.excess_percent


class HeldOut:
    """The plain loss on held-out sequences (rows, L), with the same masks at every call.

    symbols: the V of uniform noise, in place of masks.
    """

    def __init__(self, tokens: Tensor, seed: int, causal: bool, prompt: int = 0, symbols: int | None = None) -> None:
        self.tokens, self.prompt = tokens, prompt
        rows, length = tokens.shape
        rng = Randomness(seed, HELD_OUT + torch.arange(rows))
        self.masks: Masks | Noisy | None = None
        if symbols is not None:
            self.masks = draw_noise(rng, rows, tokens, symbols, prompt)
        elif not causal:
            self.masks = draw_masks(rng, rows, length, prompt=prompt)

    @property
    def padding(self) -> float:
        """L over the mean |x|: positions per token that counts."""
        return 1.0

    @property
    def entropy(self) -> float | None:
        """H(q) over the mean |x|, if q is known."""
        return None

    def __call__(self, trunk: Trunk) -> Validation:
        return Validation(mean(self.nats(trunk) / self.tokens.shape[1]))

    @torch.no_grad()
    def nats(self, trunk: Trunk) -> Tensor:
        """(rows) float64, on the CPU."""
        block = max(1, TOKENS[trunk.device.type] // self.tokens.shape[1])
        blocks = [slice(begin, begin + block) for begin in range(0, len(self.tokens), block)]
        return torch.cat([self._nats(trunk, rows) for rows in blocks])

    def _nats(self, trunk: Trunk, rows: slice) -> Tensor:
        tokens, symbols = self.tokens[rows].to(trunk.device), trunk.shape.vocabulary
        if self.masks is None:
            nats = causal_nats(trunk, symbols, tokens, prompt=self.prompt)
        elif isinstance(self.masks, Noisy):
            noisy = self.masks.select(rows)
            level = None if trunk.shape.time_free else noisy.level.to(trunk.device)
            full = trunk(noisy.tokens.to(trunk.device), None, level).double().softmax(-1)
            nats = nelbo(alone(full.cpu(), noisy), self.tokens[rows], noisy)
        else:
            masks = self.masks.select(rows).to(trunk.device)
            most = int(masks.counts.max())
            timed = not trunk.shape.time_free
            nats = masked_nats(trunk, symbols, tokens, masks, most, timed, prompt=self.prompt)
        return nats.double().cpu()


class Judge(HeldOut):
    """The loss paired with the exact denoiser; tokens of a prompt count with their entropy."""

    def __init__(
        self,
        language: Language,
        tokens: Tensor,
        seed: int,
        causal: bool,
        prompt: int = 0,
        symbols: int | None = None,
    ) -> None:
        super().__init__(tokens, seed, causal, prompt, symbols)
        self.language, self.sizes = language, language.sizes(tokens)

    @property
    def padding(self) -> float:
        return self.tokens.shape[1] / float(self.sizes.double().mean())

    @property
    def entropy(self) -> float:
        return self._entropy

    @cached_property
    def _entropy(self) -> float:
        length = self.tokens.shape[1]
        return self.language.entropy(length).value / length * self.padding

    @cached_property
    def _ideal(self) -> Tensor:
        """(rows): nats of the ideal denoiser."""
        if self.masks is None:
            places = torch.arange(self.tokens.shape[1])
            shown = torch.where(places < self.prompt, self.tokens, self.language.vocabulary)
            return -self.language.log_prob(self.tokens, shown)
        if isinstance(self.masks, Noisy):
            blocks = torch.arange(len(self.tokens)).split(BLOCK)
            return torch.cat([self._ideal_of(rows, self.masks.select(rows)) for rows in blocks])
        tokens, places = self.tokens, self.masks.order
        contexts = self.masks.hide(tokens, self.language.vocabulary)
        block = max(1, POSTERIOR_BYTES // (8 * tokens.shape[1] * self.language.vocabulary))
        probabilities = [
            self.language.posterior(contexts[rows], places[rows]).gather(
                2, tokens[rows].gather(1, places[rows])[:, :, None]
            )
            for rows in (slice(begin, begin + block) for begin in range(0, len(tokens), block))
        ]
        return (tokens.shape[1] - self.prompt) * self.masks.mean(-torch.cat(probabilities).squeeze(2).log())

    def _ideal_of(self, rows: Tensor, noisy: Noisy) -> Tensor:
        r = UniformIdeal(self.language).posterior(noisy.tokens, time=noisy.level, known=noisy.known)
        return nelbo(r, self.tokens[rows], noisy)

    def __call__(self, trunk: Trunk) -> Validation:
        a_token = (self.nats(trunk) - self._ideal) * self.padding / self.tokens.shape[1]
        excess = mean(a_token, method="t, paired with the exact denoiser")
        percent = 100 / max(self.entropy, LEAST)
        return Validation(excess.map(lambda e: self.entropy + e), self.entropy, excess.map(lambda e: percent * e))
