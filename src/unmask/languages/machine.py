"""Languages that are machines, that is weighted automata; all their quantities are computed by message passing."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unmask.core.chance import Stream
from unmask.core.errors import UnmaskError
from unmask.core.memory import fits
from unmask.core.threads import over_blocks
from unmask.languages.base import MESSAGE_BYTES, Language
from unmask.languages.facts import machine_facts
from unmask.languages.kernels import first_order, paths
from unmask.languages.kernels.machine import Machine
from unmask.languages.kernels.messages import fill_rows
from unmask.languages.kernels.passes import Passes
from unmask.languages.kernels.windows import Windows

ROWS = 64  # of a block without messages
LONGEST_ORDER = 256  # positions whose best order takes seconds to compute


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
    def windows(self) -> Windows | None:
        """The form of an n-gram whose messages are restricted to revealed tokens, where it is faster."""
        return None

    @property
    def endless(self) -> bool:
        return self.machine.open_ended

    def best_order(self, hidden: Tensor, steps: int) -> Tensor:
        if (chain := first_order.first_order(self.machine)) is None:
            return super().best_order(hidden, steps)
        length = hidden.shape[1]
        if length > LONGEST_ORDER:
            problem = f"the best order of {length} positions takes too long; expected at most {LONGEST_ORDER}"
            raise UnmaskError(f"{problem}. Use blocks(block_length={LONGEST_ORDER}, inner='dyadic'), or dyadic.")
        needed = min(steps, length.bit_length())  # dyadic orders of that many steps are exact
        if (length, needed) not in self._paid:
            links = chain.links(length)
            self._paid[length, needed] = links, first_order.least_paid(links, needed - 1)
        patterns, which = hidden.unique(dim=0, return_inverse=True)
        orders = [first_order.best_order(*self._paid[length, needed], ~pattern.numpy()) for pattern in patterns]
        return torch.from_numpy(np.stack(orders))[which]

    @cached_property
    def _paid(self) -> dict[tuple[int, int], tuple[np.ndarray, np.ndarray]]:
        return {}

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
        shared = paths.backward_rows(self.machine, given.numpy()) if len(given) == 1 else None

        def draw(rows: slice) -> None:
            pattern = given.numpy() if shared is not None else given[rows].numpy()
            backward = paths.backward_rows(self.machine, pattern) if shared is None else shared
            rng = np.uint64(seed), int(Stream.LANGUAGE), int(Stream.STATE), row_ids[rows].numpy()
            paths.sample_rows(self.machine, rng, pattern, backward, out[rows].numpy())

        block = ROWS if shared is not None else max(1, MESSAGE_BYTES // (8 * length * self.machine.states))
        for _ in over_blocks(draw, len(row_ids), block):
            pass
        return out

    def _posterior(self, tokens: Tensor, positions: Tensor) -> Tensor:
        out = torch.empty((*positions.shape, self.vocabulary), dtype=torch.float64)

        def answer(rows: slice) -> None:
            self.passes.posterior(tokens[rows].numpy(), positions[rows].numpy(), out[rows].numpy())

        self.log_normaliser(tokens.shape[1])
        for _ in over_blocks(answer, len(tokens), ROWS):
            pass
        return out

    def _entropy(self, given: Tensor) -> float | None:
        if not self.machine.unambiguous:
            return None
        pattern = given.unsqueeze(0).numpy()
        return float(paths.path_entropy(self.machine, pattern[0], paths.backward_rows(self.machine, pattern)[0]))

    def _window_distribution(self, size: int, length: int) -> Tensor:
        forward, backward = np.empty((2, 1, length, self.machine.states))
        fill_rows(self.machine, self.blank(1, length).numpy(), forward, backward, np.empty((1, length), bool))
        starts, ends = forward[0, : length - size + 1], backward[0, size - 1 :]
        if self.machine.open_ended:  # every end is possible, so the positions can be averaged first
            starts, ends = starts.mean(0, keepdims=True), np.ones((1, self.machine.states))
        distribution = np.zeros(self.vocabulary**size)
        paths.window_masses(self.machine, starts, ends, size, distribution)
        return torch.from_numpy(distribution)

    def facts(self) -> dict[str, Any]:
        return machine_facts(self)
