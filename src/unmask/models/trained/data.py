"""Numbered training examples from a language or a text.

The n-th example is a function of (language, seed, n). A new example is row n of the language. Of a fixed set of S
sequences 99% are for training; seed and epoch determine their order. An example of a text is a window
(models/text/windows.py). So a resumed run, or several processes, see the same examples as one uninterrupted process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.arguments import fits
from unmask.core.errors import UnmaskError
from unmask.languages import Language
from unmask.models.text import Text

TRAINING = 2**41  # first row of the language for training, and for validation: far from the rows of experiments,
HELD_OUT = 2**42  # so that no network is tested on its training examples
SHARE = 0.99  # fraction of a fixed set for training (the paper's)
HELD_OUT_TOKENS = 2**16  # of a text, read by validation
BLOCK = 2**16  # rows sampled at once
Batch = TypeVar("Batch")


class Examples:
    """Training examples and held-out sequences of a language."""

    def __init__(self, language: Language, length: int, seed: int, samples: int | None = None) -> None:
        language.check_length(length)
        if samples is not None:
            arguments.whole("samples", samples, 2, what=": one of them is for validation")
            fits(samples, f"samples of {length} tokens", 2 * length, "the number of samples")
        self.language, self.length, self.seed = language, length, seed
        self.fixed = None if samples is None else self._draw_all(samples)  # (S, L)
        self.trained_on = 0 if samples is None else training_size(samples)
        self._epoch, self._shuffled = -1, torch.empty(0, dtype=torch.int64)

    def rows(self, first: int, count: int) -> Tensor:
        """Examples first .. first + count - 1, (count, L)."""
        if self.fixed is None:
            return self.language.sample(count, self.length, seed=self.seed, first_row=TRAINING + first)
        parts, end = [], first + count
        while first < end:
            epoch, place = divmod(first, self.trained_on)
            taken = min(end - first, self.trained_on - place)
            parts.append(self._shuffle(epoch)[place : place + taken])
            first += taken
        return self.fixed[torch.cat(parts)].long()

    def held_out(self, count: int) -> Tensor:
        """At most `count` sequences (rows, L) that are never used for training."""
        if self.fixed is None:
            return self.language.sample(count, self.length, seed=self.seed, first_row=HELD_OUT)
        return self.fixed[self.trained_on : self.trained_on + count].long()

    def _shuffle(self, epoch: int) -> Tensor:
        if epoch != self._epoch:
            generator = np.random.default_rng([self.seed, epoch])
            self._epoch, self._shuffled = epoch, torch.from_numpy(generator.permutation(self.trained_on))
        return self._shuffled

    def _draw_all(self, samples: int) -> Tensor:
        """The fixed set (S, L), with few bytes per token."""
        small = torch.uint8 if self.language.vocabulary <= 256 else torch.int32
        examples = torch.empty((samples, self.length), dtype=small)
        for first in range(0, samples, BLOCK):
            part = examples[first : first + BLOCK]
            part.copy_(self.language.sample(len(part), self.length, seed=self.seed, first_row=TRAINING + first))
        return examples


class Windows:
    """Training examples and held-out sequences of a text."""

    def __init__(self, text: Text, length: int, seed: int, samples: int | None = None) -> None:
        if samples is not None:
            raise UnmaskError("samples is set, but a text has a fixed size. Leave samples out")
        text.check_length(length)
        self.text, self.length, self.seed = text, length, seed

    def rows(self, first: int, count: int) -> Tensor:
        return self.text.windows(first, count, self.length, self.seed)

    def held_out(self, count: int) -> Tensor:
        return self.text.tiles(min(count, max(HELD_OUT_TOKENS // self.length, 1)), self.length)


def training_size(samples: int) -> int:
    """Number of training sequences in a fixed set."""
    return min(round(SHARE * samples), samples - 1)


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
