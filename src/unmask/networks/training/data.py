"""Where the sequences come from: from a language itself, or from a text, and a number is all that is needed to go on.

The n-th example of a training is a function of (language, seed, n) alone, whoever draws it and after whatever happened:
fresh examples are row n of the language; of a fixed set of S sequences, 99% are for training, and the examples of an
epoch are those in an order that the seed and the epoch determine; of a text it is a window (text/windows.py). So a
resumed run, and processes that share a batch, see what one undisturbed process sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.memory import fits
from unmask.languages import Language
from unmask.text import Text

TRAINING = 2**41  # the first row of the language for training, and for validation: far from the rows that anybody
HELD_OUT = 2**42  # measures on, so that nobody measures by accident on what a network was trained on
SHARE = 0.99  # of a fixed set that is for training (the paper's)
HELD_OUT_TOKENS = 2**16  # of a text that validation reads
BLOCK = 2**16  # rows that are drawn at once
Batch = TypeVar("Batch")


class Examples:
    """The training examples of a language, and those held out."""

    def __init__(self, language: Language, length: int, seed: int, samples: int | None = None) -> None:
        language.check_length(length)
        if samples is not None:
            arguments.whole("samples", samples, 2, what=": one of them is for validation")
            fits(samples, f"samples of {length} tokens", 2 * length)
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
        """At most `count` sequences (rows, L) that no network is trained on."""
        if self.fixed is None:
            return self.language.sample(count, self.length, seed=self.seed, first_row=HELD_OUT)
        return self.fixed[self.trained_on : self.trained_on + count].long()

    def _shuffle(self, epoch: int) -> Tensor:
        if epoch != self._epoch:
            luck = np.random.default_rng([self.seed, epoch])
            self._epoch, self._shuffled = epoch, torch.from_numpy(luck.permutation(self.trained_on))
        return self._shuffled

    def _draw_all(self, samples: int) -> Tensor:
        """The fixed set (S, L), in as few bytes a token as will do."""
        small = torch.uint8 if self.language.vocabulary <= 256 else torch.int32
        kept = torch.empty((samples, self.length), dtype=small)
        for first in range(0, samples, BLOCK):
            part = kept[first : first + BLOCK]
            part.copy_(self.language.sample(len(part), self.length, seed=self.seed, first_row=TRAINING + first))
        return kept


class Windows:
    """The same of a text, which is a fixed set by itself."""

    def __init__(self, text: Text, length: int, seed: int, samples: int | None = None) -> None:
        if samples is not None:
            raise UnmaskError("samples is for languages; a text is what it is, so leave it out")
        text.check_length(length)
        self.text, self.length, self.seed = text, length, seed

    def rows(self, first: int, count: int) -> Tensor:
        return self.text.windows(first, count, self.length, self.seed)

    def held_out(self, count: int) -> Tensor:
        return self.text.tiles(min(count, max(HELD_OUT_TOKENS // self.length, 1)), self.length)


def training_size(samples: int) -> int:
    """How many sequences of a fixed set are trained on."""
    return min(round(SHARE * samples), samples - 1)


def ahead(make: Callable[[int], Batch], first: int, end: int) -> Iterator[Batch]:
    """make(first), ..., make(end - 1), each begun by another thread while its predecessor is worked on."""
    if first >= end:
        return
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(make, first)
        for number in range(first, end):
            batch = waiting.result()
            if number + 1 < end:
                waiting = thread.submit(make, number + 1)
            yield batch
