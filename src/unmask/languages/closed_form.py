"""Formulas for ancestral sampling of a language."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor

from unmask.core.estimates import Estimate
from unmask.languages.kernels.machine import Floats


class ClosedForm(ABC):
    """Ancestral sampling by the ideal denoiser at any length L, by any schedule delta (N) (theory.md 2, 7).

    A language returns it as its `closed_form`; SER, TER, curves, plans and bounds are computed from it. All sequences
    of the language have length L (no `end`), and all formulas must be known.
    """

    method: ClassVar[str]  # how the numbers are obtained: "closed form of ..."

    @abstractmethod
    def bits(self, length: int) -> float:
        """H(q) in bits per sequence."""

    @abstractmethod
    def log_valid(self, length: int, delta: Tensor) -> float:
        """log(1 - SER), which a float can represent even if 1 - SER underflows."""

    @abstractmethod
    def divergence(self, length: int, delta: Tensor) -> float:
        """KL(q || p) in nats per sequence."""

    @abstractmethod
    def order_divergence(self, length: int, delta: Tensor) -> float:
        """E KL(q || p_order) over the orders of the schedule, in nats per sequence."""

    @abstractmethod
    def generative_bits(self, length: int, delta: Tensor) -> float:
        """E_p[-log2 q(x) | q(x) > 0] in bits per sequence."""

    @abstractmethod
    def information(self, length: int) -> Floats:
        """(L) f(k), the mean of H(X_j | X_R) over j and |R| = k, in nats."""

    @abstractmethod
    def errors(self, length: int) -> Floats:
        """(L-1) g(k), the mean over pairs and |R| = k of P(two independently drawn tokens contradict each other)."""

    def ser(self, length: int, delta: Tensor) -> float:
        """P_p(q(x) = 0)."""
        return -math.expm1(self.log_valid(length, delta))

    def ser_of_orders(self, order: Tensor, groups: Tensor | None = None) -> Estimate | None:
        """SER from orders (B, L) alone (0 at given positions), or None. Unbiased if orders do not depend on tokens.

        groups (B): the prompt of each row.
        """
        return None
