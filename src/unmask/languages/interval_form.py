"""The interval language in closed form: what ancestral sampling does to it at any length (theory.md 6).

Two positions of an interval that are revealed in the same round disagree with probability 1/2, independently of all
other pairs; revealed in different rounds they never do. So P(valid | order) = 2^-pairs, p restricted to valid sequences
is proportional to q, and KL(q || p) = -log(1 - SER).

A hidden position knows one bit from each revealed partner, and two partners that are revealed together disagree with
probability 1/2 whatever else is known, so that both curves are straight lines: with P pairs of partners
    h(u) = L (l-1) - 2 P u  bits,    e(u) = P / 2,    C(q) = P / 2  and  c(q) = (l-1)/4 for whole intervals.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from unmask.core.compiled import kernel
from unmask.core.estimates import Estimate, bounded_mean
from unmask.kernels.machine import Floats
from unmask.languages.closed_form import ClosedForm


class IntervalForm(ClosedForm):
    """Of the language of intervals of l = width positions."""

    method = "closed form of the interval language"

    def __repr__(self) -> str:
        return f"<IntervalForm of width {self.width}>"

    def __init__(self, width: int) -> None:
        self.width = width

    def bits(self, length: int) -> int:
        """C(l, 2) an interval; r positions of a shorter one have C(r, 2) + r (l - r)."""
        whole, rest = divmod(length, self.width)
        return whole * math.comb(self.width, 2) + math.comb(rest, 2) + rest * (self.width - rest if rest else 0)

    def pairs(self, length: int) -> int:
        """How many pairs of positions share a bit: those of one interval."""
        whole, rest = divmod(length, self.width)
        return whole * math.comb(self.width, 2) + math.comb(rest, 2)

    def log_valid(self, length: int, delta: Tensor) -> float:
        """1 - SER = G_l^floor(L/l) G_r."""
        whole, rest = divmod(length, self.width)
        return whole * _log_agreement(self.width, delta) + _log_agreement(rest, delta)

    def divergence(self, length: int, delta: Tensor) -> float:
        """KL(q || p) = -log(1 - SER)."""
        return -self.log_valid(length, delta)

    def order_divergence(self, length: int, delta: Tensor) -> float:
        """E[pairs] = (how many pairs there are) sum_k delta_k^2, in bits; here in nats."""
        return self.pairs(length) * float((delta**2).sum()) * math.log(2)

    def generative_bits(self, length: int, delta: Tensor) -> float:
        """H(q): restricted to valid sequences p is q."""
        return self.bits(length)

    def information(self, length: int) -> Floats:
        """f(k) = l - 1 - (2 P / L) k / (L-1) bits, in nats: k of the L-1 others are revealed, all as likely."""
        share = np.arange(length) / max(length - 1, 1)
        bits = self.width - 1 - 2 * self.pairs(length) / length * share
        return np.asarray(bits * math.log(2))

    def errors(self, length: int) -> Floats:
        """g(k) = P(two positions are partners) / 2."""
        return np.full(length - 1, self.pairs(length) / max(math.comb(length, 2), 1) / 2)

    def ser_of_orders(self, order: Tensor, groups: Tensor | None = None) -> Estimate:
        """1 - 2^-pairs a row, which is Rao-Blackwellised: what is left to chance is the order."""
        padding = -order.shape[1] % self.width
        rounds = torch.nn.functional.pad(order, (0, padding)).view(len(order), -1, self.width)
        same = (rounds.unsqueeze(-1) == rounds.unsqueeze(-2)) & (rounds > 0).unsqueeze(-1)
        pairs = (same.sum((1, 2, 3)) - (order > 0).sum(1)) / 2
        return bounded_mean(1 - 2.0 ** -pairs.double(), method="rao-blackwell", groups=groups)


def agreement(places: int, delta: Tensor) -> float:
    """G = E[2^-pairs] = l! [z^l] prod_k sum_j (delta_k z)^j / j! 2^(-j(j-1)/2): P(an interval of l places is valid)."""
    return float(_coefficient(delta.numpy(), _round_series(places)) * math.factorial(places))


def disagreement(places: int, delta: Tensor) -> float:
    """1 - G with all its digits where it is small: e^(delta_k z) is taken out of each factor, e^z out of all of them.

    1 - G = -l! [z^l] e^z (prod_k (1 + r(delta_k z)) - 1), where 1 + r is a factor of G times e^-z, and r begins at z^2.
    """
    signs = np.array([(-1.0) ** n / math.factorial(n) for n in range(places + 1)])
    surplus = np.convolve(_round_series(places), signs)[: places + 1]
    surplus[:2] = 0.0
    excess = _excess(delta.numpy(), surplus)
    return -math.factorial(places) * float(excess @ np.abs(signs)[::-1])


def _log_agreement(places: int, delta: Tensor) -> float:
    wrong = disagreement(places, delta)
    return math.log1p(-wrong) if wrong < 0.5 else math.log(agreement(places, delta))


def _round_series(places: int) -> Floats:
    """2^(-j(j-1)/2) / j!, j = 0..places: one round writes j places of an interval, and all their pairs agree."""
    return np.array([2.0 ** (-j * (j - 1) / 2) / math.factorial(j) for j in range(places + 1)])


@kernel
def _coefficient(delta: Floats, series: Floats) -> float:
    """[z^l] prod_k sum_j series(j) (delta_k z)^j for l+1 coefficients."""
    places = len(series) - 1
    product = np.zeros(places + 1)
    product[0] = 1.0
    for d in delta:
        for n in range(places, -1, -1):
            total, power = 0.0, 1.0
            for j in range(n + 1):
                total += product[n - j] * power * series[j]
                power *= d
            product[n] = total
    return float(product[places])


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
