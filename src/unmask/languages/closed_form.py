"""Formulas for ancestral sampling of the interval language by the ideal denoiser, at any length (theory.md 2, 6, 7).

Your own language may return an object with the same methods as its `closed_form`; SER, TER, curves, plans and bounds
are then computed from it. All sequences of such a language have length L (no `end`), and all formulas must be known.

Two positions of an interval that are revealed in the same step disagree with probability 1/2, independently of all
other pairs; revealed in different steps they never disagree. So P(valid | order) = 2^-pairs, p restricted to valid
sequences is proportional to q, and KL(q || p) = -log(1 - SER).

Each revealed partner determines one bit of a hidden position. Two partners that are revealed together disagree with
probability 1/2, whatever else is known. So both curves are straight lines: with P pairs of partners
    h(u) = L (l-1) - 2 P u  bits,    e(u) = P / 2,    C(q) = P / 2  and  c(q) = (l-1)/4 for whole intervals.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from unmask.core.compiled import kernel
from unmask.core.estimates import Estimate, bounded_mean
from unmask.languages.kernels.machine import Floats


class ClosedForm:
    """The closed form for intervals of l = width positions, by any schedule delta (N)."""

    method = "closed form of the interval language"  # how the numbers are obtained

    def __repr__(self) -> str:
        return f"<ClosedForm of width {self.width}>"

    def __init__(self, width: int) -> None:
        self.width = width

    def bits(self, length: int) -> float:
        """H(q) in bits per sequence: C(l, 2) per interval; r positions of a shorter one have C(r, 2) + r (l - r)."""
        whole, rest = divmod(length, self.width)
        return whole * math.comb(self.width, 2) + math.comb(rest, 2) + rest * (self.width - rest)

    def pairs(self, length: int) -> int:
        """The number of pairs of positions with a common bit: those within an interval."""
        whole, rest = divmod(length, self.width)
        return whole * math.comb(self.width, 2) + math.comb(rest, 2)

    def ser(self, length: int, delta: Tensor) -> float:
        """P_p(q(x) = 0)."""
        return -math.expm1(self.log_valid(length, delta))

    def log_valid(self, length: int, delta: Tensor) -> float:
        """log(1 - SER), which a float can represent even if 1 - SER underflows: 1 - SER = G_l^floor(L/l) G_r."""
        whole, rest = divmod(length, self.width)
        return whole * _log_agreement(self.width, delta) + _log_agreement(rest, delta)

    def divergence(self, length: int, delta: Tensor) -> float:
        """KL(q || p) = -log(1 - SER), in nats per sequence."""
        return -self.log_valid(length, delta)

    def order_divergence(self, length: int, delta: Tensor) -> float:
        """E KL(q || p_order) over orders: E[pairs] = (number of pairs) sum_k delta_k^2 bits, in nats."""
        return self.pairs(length) * float((delta**2).sum()) * math.log(2)

    def generative_bits(self, length: int, delta: Tensor) -> float:
        """E_p[-log2 q(x) | q(x) > 0] = H(q): restricted to valid sequences, p is q."""
        return self.bits(length)

    def information(self, length: int) -> Floats:
        """(L) f(k) = l - 1 - (2 P / L) k / (L-1) bits, in nats: k uniformly chosen others are revealed."""
        fraction = np.arange(length) / max(length - 1, 1)
        bits = self.width - 1 - 2 * self.pairs(length) / length * fraction
        return np.asarray(bits * math.log(2))

    def errors(self, length: int) -> Floats:
        """(L-1) g(k) = P(two positions are partners) / 2."""
        return np.full(length - 1, self.pairs(length) / max(math.comb(length, 2), 1) / 2)

    def ser_of_orders(self, order: Tensor, groups: Tensor | None = None) -> Estimate:
        """SER from orders (B, L), 0 at given positions: 1 - 2^-pairs per row, which is Rao-Blackwellized.

        groups (B): the prompt of each row."""
        padding = -order.shape[1] % self.width
        steps = torch.nn.functional.pad(order, (0, padding)).view(len(order), -1, self.width)
        same = (steps.unsqueeze(-1) == steps.unsqueeze(-2)) & (steps > 0).unsqueeze(-1)
        pairs = (same.sum((1, 2, 3)) - (order > 0).sum(1)) / 2
        return bounded_mean(1 - 2.0 ** -pairs.double(), method="rao-blackwell", groups=groups)


def agreement(size: int, delta: Tensor) -> float:
    """G = E[2^-pairs] = l! [z^l] prod_k sum_j (delta_k z)^j / j! 2^(-j(j-1)/2): P(an interval of size l is valid)."""
    return float(_coefficient(delta.numpy(), _step_series(size)) * math.factorial(size))


def disagreement(size: int, delta: Tensor) -> float:
    """1 - G to full precision if it is small: e^(delta_k z) is factored out of each factor, e^z out of the product.

    1 - G = -l! [z^l] e^z (prod_k (1 + r(delta_k z)) - 1), where 1 + r is a factor of G times e^-z, and r begins at z^2.
    """
    signs = np.array([(-1.0) ** n / math.factorial(n) for n in range(size + 1)])
    surplus = np.convolve(_step_series(size), signs)[: size + 1]
    surplus[:2] = 0.0
    excess = _excess(delta.numpy(), surplus)
    return -math.factorial(size) * float(excess @ np.abs(signs)[::-1])


def _log_agreement(size: int, delta: Tensor) -> float:
    invalid = disagreement(size, delta)
    return math.log1p(-invalid) if invalid < 0.5 else math.log(agreement(size, delta))


def _step_series(size: int) -> Floats:
    """2^(-j(j-1)/2) / j!, j = 0..size: one step writes j positions of an interval, and all their pairs agree."""
    return np.array([2.0 ** (-j * (j - 1) / 2) / math.factorial(j) for j in range(size + 1)])


@kernel
def _coefficient(delta: Floats, series: Floats) -> float:
    """[z^l] prod_k sum_j series(j) (delta_k z)^j for l+1 coefficients."""
    size = len(series) - 1
    product = np.zeros(size + 1)
    product[0] = 1.0
    for d in delta:
        for n in range(size, -1, -1):
            total, power = 0.0, 1.0
            for j in range(n + 1):
                total += product[n - j] * power * series[j]
                power *= d
            product[n] = total
    return float(product[size])


@kernel
def _excess(delta: Floats, surplus: Floats) -> Floats:
    """The coefficients of prod_k (1 + r(delta_k z)) - 1 for r = sum_{j>=2} surplus(j) z^j: Q <- Q + r + Q r."""
    excess = np.zeros(len(surplus))
    for d in delta:
        for n in range(len(surplus) - 1, 1, -1):
            total, power = excess[n], d * d
            for j in range(2, n + 1):
                total += power * surplus[j] * (excess[n - j] if n > j else 1.0)
                power *= d
            excess[n] = total
    return excess
