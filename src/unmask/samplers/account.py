"""The cost of the rows of a session."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from unmask.denoisers import Cost


@dataclass
class Account:
    """The cost of B rows."""

    impossible: Tensor  # (B): the model call at which a row's context first had probability zero, or 0
    probes: Tensor  # (B): model calls whose input is not the row itself
    positions: Tensor  # (B): computed positions of all model calls
    revised: Tensor  # (B): number of re-masked tokens
    model_calls_of: dict[str, Tensor] = field(default_factory=dict)  # (B) for each model: "denoiser", "causal"
    spent: Cost = field(default_factory=Cost)

    @property
    def model_calls(self) -> Tensor:
        """(B): model calls of all denoisers together."""
        return sum(self.model_calls_of.values(), torch.zeros_like(self.impossible))

    def charge(self, name: str, model_calls: Tensor, rows: Tensor | slice, spent: Cost) -> None:
        """Add model calls (K) of one denoiser for these rows (K), and the computation spent on them."""
        counts = self.model_calls_of.setdefault(name, torch.zeros_like(self.impossible))
        counts[rows] += model_calls
        self.spent = self.spent + spent

    def add(self, rows: Tensor, account: Account) -> None:
        """Add another attempt at these rows (K); its impossible contexts replace the earlier ones."""
        for name, model_calls in account.model_calls_of.items():
            self.charge(name, model_calls, rows, Cost())
        self.spent = self.spent + account.spent
        self.impossible[rows] = account.impossible
        self.probes[rows] += account.probes
        self.positions[rows] += account.positions
