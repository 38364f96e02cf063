"""What a language knows of its own sampling: the numbers of ancestral sampling that it has formulas for."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor

from unmask.core.estimates import Estimate
from unmask.kernels.machine import Floats


class ClosedForm(ABC):
    """Ancestral sampling by the ideal denoiser at any length L, by any schedule delta (N) (theory.md 2, 7).

    A language that has one gives it as its `closed_form`, and SER, TER, curves, plans and bounds are read off it. It is
    for languages whose sequences all have length L (no `end`). Whoever knows no formula for one of these has none.
    """

    method: ClassVar[str]  # what is said of the numbers: "closed form of ..."

    @abstractmethod
    def bits(self, length: int) -> float:
        """H(q) in bits a sequence."""

    @abstractmethod
    def log_valid(self, length: int, delta: Tensor) -> float:
        """log(1 - SER), which a float still holds where it does not hold 1 - SER."""

    @abstractmethod
    def divergence(self, length: int, delta: Tensor) -> float:
        """KL(q || p) in nats a sequence."""

    @abstractmethod
    def order_divergence(self, length: int, delta: Tensor) -> float:
        """E KL(q || p_order) over the orders of the schedule, in nats a sequence."""

    @abstractmethod
    def generative_bits(self, length: int, delta: Tensor) -> float:
        """E_p[-log2 q(x) | q(x) > 0] in bits a sequence."""

    @abstractmethod
    def information(self, length: int) -> Floats:
        """(L) f(k), the mean of H(X_j | X_R) over j and |R| = k, in nats."""

    @abstractmethod
    def errors(self, length: int) -> Floats:
        """(L-1) g(k), the mean over pairs and |R| = k of how likely two tokens drawn apart contradict each other."""

    def ser(self, length: int, delta: Tensor) -> float:
        """P_p(q(x) = 0)."""
        return -math.expm1(self.log_valid(length, delta))

    def ser_of_orders(self, order: Tensor, groups: Tensor | None = None) -> Estimate | None:
        """SER from orders (B, L) alone, 0 where given: unbiased where they do not depend on the tokens; None: unknown.

        groups (B) are the prompts of rows that share some.
        """
        return None
