"""Languages that are machines, that is weighted automata; all their quantities are computed by message passing."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unmask.core.chance import Stream
from unmask.core.memory import fits
from unmask.core.threads import over_blocks
from unmask.languages.base import MESSAGE_BYTES, Language
from unmask.languages.kernels import local, paths
from unmask.languages.kernels.machine import Floats, Machine
from unmask.languages.kernels.messages import fill_rows
from unmask.languages.kernels.passes import Passes
from unmask.languages.properties import entropy_rate, occupied, primitive, second_eigenvalue, valid_fraction

ROWS = 64  # of a block without messages


class MachineLanguage(Language):
    """A language that `build` describes as a machine."""

    @cached_property
    def machine(self) -> Machine:
        return self.build()

    @abstractmethod
    def build(self) -> Machine: ...

    def check_length(self, length: int) -> None:
        super().check_length(length)
        fits(length, f"positions of {self.machine.states} states", 16 * self.machine.states, "the length")

    @cached_property
    def passes(self) -> Passes:
        return Passes(self.machine)

    @property
    def endless(self) -> bool:
        return self.machine.open_ended

    def possible_lengths(self, longest: int) -> np.ndarray:
        every = super().possible_lengths(longest)
        return every if self.machine.open_ended else paths.reachable_ends(self.machine, longest)

    @cached_property
    def _log_normalisers(self) -> dict[int, float]:
        return {}

    def log_normaliser(self, length: int) -> float:
        """log Z_L: the mass of all paths that end in a final state; an error without such paths."""
        if self.machine.open_ended:
            return 0.0
        if length not in self._log_normalisers:
            self.check_length(length)
            free = self.blank(1, length).numpy()
            self._log_normalisers[length] = float(self.passes.evidence(free)[0])
        return self._log_normalisers[length]

    def log_evidence(self, tokens: Tensor) -> Tensor:
        def evidence(rows: slice) -> Tensor:
            return torch.from_numpy(self.passes.evidence(tokens[rows].numpy()))

        return torch.cat(list(over_blocks(evidence, len(tokens), ROWS))) - self.log_normaliser(tokens.shape[1])

    def _sample(self, row_ids: Tensor, given: Tensor, seed: int) -> Tensor:
        length = given.shape[1]
        out = torch.empty((len(row_ids), length), dtype=torch.int64)
        shared = self._ahead(given) if len(given) == 1 else None

        def draw(rows: slice) -> None:
            pattern, backward = given, shared
            if backward is None:
                pattern = given[rows]
                backward = self._ahead(pattern)
            rng = np.uint64(seed), int(Stream.LANGUAGE), int(Stream.STATE), row_ids[rows].numpy()
            paths.sample_rows(self.machine, rng, pattern.numpy(), backward, out[rows].numpy())

        block = ROWS
        if shared is None:
            block = max(1, MESSAGE_BYTES // (8 * length * self.machine.states))

        for _ in over_blocks(draw, len(row_ids), block):
            pass
        return out

    def _posterior(self, tokens: Tensor, positions: Tensor) -> Tensor:
        out = torch.empty((*positions.shape, self.vocabulary), dtype=torch.float64)
        form = self.local_form(tokens.shape[1])
        posterior = partial(local.posterior_rows, form) if form else self.passes.posterior

        def answer(rows: slice) -> None:
            posterior(tokens[rows].numpy(), positions[rows].numpy(), out[rows].numpy())

        self.log_normaliser(tokens.shape[1])
        for _ in over_blocks(answer, len(tokens), ROWS):
            pass
        return out

    def _entropy(self, given: Tensor) -> float | None:
        if not self.machine.unambiguous:
            return None
        return float(paths.path_entropy(self.machine, given.numpy(), self._ahead(given.unsqueeze(0))[0]))

    def _ahead(self, given: Tensor) -> Floats:
        """(B, L, S) backward messages given the revealed tokens (B, L).

        With nothing revealed and every sequence able to go on, all of them are 1, and no kernel is compiled."""
        if self.machine.open_ended and bool((given == self.vocabulary).all()):
            return np.ones((*given.shape, self.machine.states))
        return paths.backward_rows(self.machine, given.numpy())

    def _window_distribution(self, size: int, length: int) -> Tensor:
        if self.machine.open_ended:  # every end is possible, so the positions can be averaged first
            starts = occupied(self.machine, length)[: length - size + 1].mean(0, keepdims=True)
            ends = np.ones((1, self.machine.states))
        else:
            forward, backward = np.empty((2, 1, length, self.machine.states))
            fill_rows(self.machine, self.blank(1, length).numpy(), forward, backward, np.empty((1, length), bool))
            starts, ends = forward[0, : length - size + 1], backward[0, size - 1 :]

        distribution = np.zeros(self.vocabulary**size)
        scratch = np.empty(size, np.int64), np.empty((size, self.machine.states)), np.empty_like(distribution)
        paths.window_masses(self.machine, starts, ends, scratch, distribution)
        return torch.from_numpy(distribution)

    def facts(self) -> dict[str, Any]:
        machine = self.machine
        return {
            "states": machine.states,
            "transitions": len(machine.edge_target),
            "deterministic": machine.unambiguous,
            "primitive": primitive(machine),
            "second_eigenvalue": second_eigenvalue(machine),
            "entropy_rate_bits": entropy_rate(self).value / math.log(2),
            "valid_fraction_of_random_strings": valid_fraction(self).value,
        }
