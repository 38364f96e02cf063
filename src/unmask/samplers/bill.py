"""What some rows have cost."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class Bill:
    impossible: Tensor  # (B): the evaluation at which a row's context had probability zero for the first time, or 0
    evaluations_of: dict[str, Tensor] = field(default_factory=dict)  # (B) for each: "denoiser", "causal"
    forwards: int = 0
    rows_computed: int = 0

    def charge(self, name: str, evaluations: Tensor, rows: Tensor, forwards: int, rows_computed: int) -> None:
        """Add what these rows (K) cost, evaluations (K) of one denoiser."""
        counts = self.evaluations_of.setdefault(name, torch.zeros_like(self.impossible))
        counts.index_add_(0, rows, evaluations)
        self.forwards += forwards
        self.rows_computed += rows_computed

    def add(self, rows: Tensor, bill: Bill) -> None:
        """Another attempt at these rows (K), which is the one that counts for what was met on the way."""
        for name, evaluations in bill.evaluations_of.items():
            self.charge(name, evaluations, rows, 0, 0)
        self.forwards += bill.forwards
        self.rows_computed += bill.rows_computed
        self.impossible[rows] = bill.impossible
