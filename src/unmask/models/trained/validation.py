"""Numbered training examples, and the loss on held-out sequences, in nats per token, next to the exact entropy.

The n-th example is a function of (language, seed, n). A new example is row n of the language. Of a fixed set of S
sequences 99% are for training; seed and epoch determine their order. An example of a text is a window
(models/text/corpus.py). So a resumed run sees the same examples as an uninterrupted one.

In validation, the loss of the ideal denoiser on the same sequences and masks, or noise, is a control variate. Its
expectation is the entropy, since every order of an ideal any-order model gives q(x) (theory.md 1). So

    loss = H(q)/|x| + mean of (the network's nats - the ideal's nats)/|x|

has the same expectation as the plain loss and little of its noise: only the noise of the learning error. A text has no
known ideal denoiser, so its validation is the plain loss. Under uniform noise the loss here is the NELBO.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Randomness
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate
from unmask.core.means import mean
from unmask.core.memory import fits
from unmask.denoisers import UniformIdeal
from unmask.languages import Language
from unmask.models.text import Text
from unmask.models.trained.objectives import Noisy, Objective, alone, nelbo
from unmask.models.trained.recipe import training_size
from unmask.models.trained.trunk import Trunk

TRAINING = 2**41  # first row of the language for training, and for validation: far from the rows of experiments,
HELD_OUT = 2**42  # so that no network is tested on its training examples
HELD_OUT_TOKENS = 2**16  # of a text, read by validation
SAMPLED = 2**16  # rows sampled at once
BLOCK = 256  # rows whose exact predictions are in memory at once
TOKENS = {"cpu": 2**12, "cuda": 2**17}  # evaluated at once
POSTERIOR_BYTES = 2**26  # bytes of the posteriors of the ideal denoiser in memory at once
LEAST = 1e-12  # nats per token: a language of one sequence has entropy 0, and the relative excess would be infinite
Batch = TypeVar("Batch")


class Examples:
    """Training examples and held-out sequences of a language or a text."""

    def __init__(self, source: Language | Text, length: int, seed: int, samples: int | None = None) -> None:
        source.check_length(length)
        if samples is not None:
            if isinstance(source, Text):
                raise UnmaskError("samples is set, but a text has a fixed size. Leave samples out")
            arguments.whole("samples", samples, 2, what=": one of them is for validation")
            fits(samples, f"samples of {length} tokens", 2 * length, "the number of samples")
        self.source, self.length, self.seed = source, length, seed
        self.fixed: Tensor | None = None
        if samples is not None:
            self.fixed, self.trained_on = self._draw_all(samples), training_size(samples)  # (S, L)
        self._epoch, self._shuffled = -1, torch.empty(0, dtype=torch.int64)

    def rows(self, first: int, count: int) -> Tensor:
        """Examples first .. first + count - 1, (count, L)."""
        if isinstance(self.source, Text):
            return self.source.windows(first, count, self.length, self.seed)
        if self.fixed is None:
            return self.source.sample(count, self.length, seed=self.seed, first_row=TRAINING + first)

        parts = []
        end = first + count
        while first < end:
            epoch, place = divmod(first, self.trained_on)
            taken = min(end - first, self.trained_on - place)
            parts.append(self._shuffle(epoch)[place : place + taken])
            first += taken
        return self.fixed[torch.cat(parts)].long()

    def held_out(self, count: int) -> Tensor:
        """At most `count` sequences (rows, L) that are never used for training."""
        if isinstance(self.source, Text):
            return self.source.tiles(min(count, max(HELD_OUT_TOKENS // self.length, 1)), self.length)
        if self.fixed is None:
            return self.source.sample(count, self.length, seed=self.seed, first_row=HELD_OUT)
        return self.fixed[self.trained_on : self.trained_on + count].long()

    def _shuffle(self, epoch: int) -> Tensor:
        if epoch != self._epoch:
            generator = np.random.default_rng([self.seed, epoch])
            self._epoch, self._shuffled = epoch, torch.from_numpy(generator.permutation(self.trained_on))
        return self._shuffled

    def _draw_all(self, samples: int) -> Tensor:
        """The fixed set (S, L), with few bytes per token."""
        assert isinstance(self.source, Language)
        small = torch.uint8 if self.source.vocabulary <= 256 else torch.int32
        examples = torch.empty((samples, self.length), dtype=small)
        for first in range(0, samples, SAMPLED):
            part = examples[first : first + SAMPLED]
            part.copy_(self.source.sample(len(part), self.length, seed=self.seed, first_row=TRAINING + first))
        return examples


def ahead(make: Callable[[int], Batch], first: int, end: int) -> Iterator[Batch]:
    """make(first), ..., make(end - 1); another thread computes each while its predecessor is in use."""
    if first >= end:
        return
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(make, first)
        for number in range(first, end):
            batch = waiting.result()
            if number + 1 < end:
                waiting = thread.submit(make, number + 1)
            yield batch


class Validation(NamedTuple):
    loss: Estimate  # nats per token
    entropy: float | None = None  # nats per token, for a language
    excess_percent: Estimate | None = None  # of the loss above the entropy


class HeldOut:
    """The plain loss on held-out sequences (rows, L), with the same masks at every call."""

    padding = 1.0  # L over the mean |x|: positions per token that counts
    entropy: float | None = None  # H(q) over the mean |x|, if q is known

    def __init__(self, tokens: Tensor, seed: int, objective: Objective) -> None:
        self.tokens, self.objective = tokens, objective
        rng = Randomness(seed, HELD_OUT + torch.arange(len(tokens)))
        self.masks = objective.draw(rng, len(tokens), tokens)

    def __call__(self, trunk: Trunk) -> Validation:
        return Validation(mean(self.nats(trunk) / self.tokens.shape[1]))

    @torch.no_grad()
    def nats(self, trunk: Trunk) -> Tensor:
        """(rows) float64, on the CPU."""
        block = max(1, TOKENS[trunk.device.type] // self.tokens.shape[1])
        blocks = torch.arange(len(self.tokens)).split(block)
        return torch.cat([self._nats(trunk, rows).double().cpu() for rows in blocks])

    def _nats(self, trunk: Trunk, rows: Tensor) -> Tensor:
        tokens = self.tokens[rows]
        masks = None if self.masks is None else self.masks.select(rows)
        if not isinstance(masks, Noisy):
            return self.objective.nats(trunk, trunk.device, tokens, masks)
        noisy = masks.to(trunk.device)
        full = trunk(noisy.tokens, None, noisy.level).double().softmax(-1)
        return nelbo(alone(full.cpu(), masks), tokens, masks)


class Judge(HeldOut):
    """The loss paired with the exact denoiser; tokens of a prompt count with their entropy."""

    def __init__(self, language: Language, tokens: Tensor, seed: int, objective: Objective) -> None:
        super().__init__(tokens, seed, objective)
        self.language, length = language, tokens.shape[1]
        self.padding = length / float(language.sizes(tokens).double().mean())
        self.entropy: float = language.entropy(length).value / length * self.padding

    def __call__(self, trunk: Trunk) -> Validation:
        a_token = (self.nats(trunk) - self._ideal) * self.padding / self.tokens.shape[1]
        excess = mean(a_token, method="t, paired with the exact denoiser")
        percent = 100 / max(self.entropy, LEAST)
        return Validation(excess.map(lambda e: self.entropy + e), self.entropy, excess.map(lambda e: percent * e))

    @cached_property
    def _ideal(self) -> Tensor:
        """(rows): nats of the ideal denoiser."""
        tokens, masks = self.tokens, self.masks
        prompt, unknown = self.objective.prompt, self.language.vocabulary
        if masks is None:
            shown = torch.where(torch.arange(tokens.shape[1]) < prompt, tokens, unknown)
            return -self.language.log_prob(tokens, shown)
        if isinstance(masks, Noisy):
            nats = []
            ideal = UniformIdeal(self.language)
            for rows in torch.arange(len(tokens)).split(BLOCK):
                noisy = masks.select(rows)
                r = ideal.posterior(noisy.tokens, time=noisy.level, known=noisy.known)
                nats.append(nelbo(r, tokens[rows], noisy))
            return torch.cat(nats)

        chances = []
        contexts = masks.hide(tokens, unknown)
        for rows in torch.arange(len(tokens)).split(max(1, POSTERIOR_BYTES // (8 * tokens.shape[1] * unknown))):
            places = masks.order[rows]
            truth = tokens[rows].gather(1, places).unsqueeze(2)
            chances.append(self.language.posterior(contexts[rows], places).gather(2, truth).squeeze(2))

        return (tokens.shape[1] - prompt) * masks.mean(-torch.cat(chances).log())
