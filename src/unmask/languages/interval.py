"""The language of Theorem 4.4, with its closed form: every two positions of an interval share one fair bit."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Stream
from unmask.languages.base import LANGUAGES, Language
from unmask.languages.closed_form import ClosedForm
from unmask.languages.kernels import local
from unmask.languages.kernels.machine import Machine, explore

MAX_WIDTH = 16


@LANGUAGES.register("interval")
class Interval(Language):
    """Example C.7: intervals of l positions over V = 2^(l-1) tokens (theory.md 6).

    Each pair a < b of an interval has a fair bit B_ab. It is component b-1 of the token at a and component a of the
    token at b; component c is bit c-1 of the token. So an interval is valid if its pairs agree, and all valid ones are
    equally likely. In a shorter last interval of r positions, the bits of absent partners are free.

    The denoiser copies the bits of revealed partners; the other bits are fair. This also defines it in impossible
    contexts, since each bit has one partner.
    """

    kind: ClassVar[str] = "interval"
    width: int

    def __init__(self, width: int) -> None:
        self.width = arguments.whole("width", width, 2, MAX_WIDTH, " positions of an interval")
        self.vocabulary = 2 ** (self.width - 1)

    def parameters(self) -> dict[str, Any]:
        return {"width": self.width}

    @property
    def closed_form(self) -> ClosedForm:
        return ClosedForm(self.width)

    def _sample(self, row_ids: Tensor, given: Tensor, seed: int) -> Tensor:
        out = torch.empty((len(row_ids), given.shape[1]), dtype=torch.int64)
        arrays = row_ids.numpy(), given.numpy(), out.numpy()
        local.sample_rows(self.width, np.uint64(seed), int(Stream.LANGUAGE), *arrays)
        return out

    def log_evidence(self, tokens: Tensor) -> Tensor:
        shown = torch.empty(len(tokens), dtype=torch.float64)
        local.shown_bits(self.width, self.vocabulary, tokens.numpy(), shown.numpy())
        return -shown * math.log(2)

    def _posterior(self, tokens: Tensor, positions: Tensor) -> Tensor:
        out = torch.empty((*positions.shape, self.vocabulary), dtype=torch.float64)
        local.posterior_rows((None, self.width), tokens.numpy(), positions.numpy(), out.numpy())
        return out

    def _entropy(self, given: Tensor) -> float:
        return self.closed_form.bits(len(given)) * math.log(2) + float(self.log_evidence(given.unsqueeze(0))[0])

    def _window_distribution(self, size: int, length: int) -> Tensor:
        """The mean over the positions in an interval at which a window can start."""
        v = self.vocabulary
        digits = v ** torch.arange(size - 1, -1, -1)
        content = torch.arange(v**size).unsqueeze(1) // digits % v
        distribution = torch.zeros(v**size, dtype=torch.float64)

        starts = torch.bincount(torch.arange(length - size + 1) % self.width).tolist()
        for place, count in enumerate(starts):
            shown = torch.full((v**size, place + size), v)
            shown[:, place:] = content
            distribution += count * self.log_evidence(shown).exp()
        return distribution / (length - size + 1)

    @property
    def endless(self) -> bool:
        return True

    def local_form(self, length: int) -> tuple[None, int]:
        return None, self.width

    def facts(self) -> dict[str, Any]:
        return {
            "width": self.width,
            "entropy_rate_bits": (self.width - 1) / 2,
            "deterministic": True,
            "primitive": False,
            "valid_fraction_per_interval": 2.0 ** -math.comb(self.width, 2),
        }

    def as_machine(self) -> Machine:
        """The minimal machine of note C.8: a state is the position and the bits of its open pairs, including new ones.

        It has sum_a 2^((a-1)(l-a+1) + (l-a)) states: 544 at l = 5.
        """
        width = self.width
        pairs = list(combinations(range(width), 2))
        own = [[pair for pair in pairs if pair[0] == a] for a in range(width)]

        def fresh(a: int, open_bits: dict[tuple[int, int], int]) -> list[tuple[float, tuple[int, frozenset[Any]]]]:
            states = []
            for value in range(2 ** len(own[a])):
                drawn = {pair: value >> i & 1 for i, pair in enumerate(own[a])}
                states.append((0.5 ** len(own[a]), (a, frozenset((open_bits | drawn).items()))))
            return states

        def successors(state: tuple[int, frozenset[Any]]) -> list[tuple[float, tuple[int, frozenset[Any]]]]:
            a, bits = state
            following = (a + 1) % width
            return fresh(following, {pair: bit for pair, bit in bits if pair[1] >= following > 0})

        def symbol(state: tuple[int, frozenset[Any]]) -> int:
            a, bits = state
            return sum(bit << (pair[1] - 1 if pair[0] == a else pair[0]) for pair, bit in bits if a in pair)

        return explore(fresh(0, {}), successors, symbol, lambda state: True, self.vocabulary)
