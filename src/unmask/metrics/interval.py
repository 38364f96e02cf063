"""The interval language in closed form: what ancestral sampling does to it at any length (theory.md 6).

Two positions of an interval that are revealed in the same round disagree with probability 1/2, independently of all
other pairs; revealed in different rounds they never do. So P(valid | order) = 2^-pairs, p restricted to valid sequences
is proportional to q, and KL(q || p) = -log(1 - SER).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numba import njit
from torch import Tensor

from unmask.estimates import Estimate, mean
from unmask.exact.machine import Floats
from unmask.languages import Interval


def exact_ser(language: Interval, length: int, delta: Tensor) -> float:
    """SER = 1 - G_l^floor(L/l) G_r."""
    return -math.expm1(_log_valid(language, length, delta))


def exact_ter(language: Interval, length: int, delta: Tensor) -> float:
    """log2 TER(p) = log2 TER(q) - log2(1 - SER) / L."""
    missing = -_log_valid(language, length, delta) / math.log(2)
    return float(2 ** ((language.bits(length) + missing) / length))


def _log_valid(language: Interval, length: int, delta: Tensor) -> float:
    """log(1 - SER), which a float still holds where it does not hold 1 - SER."""
    whole, rest = divmod(length, language.width)
    return whole * math.log(agreement(language.width, delta)) + math.log(agreement(rest, delta))


def agreement(places: int, delta: Tensor) -> float:
    """G = E[2^-pairs] = l! [z^l] prod_k sum_j (delta_k z)^j / j! 2^(-j(j-1)/2): P(an interval of l places is valid)."""
    j = np.arange(places + 1)
    halves = np.array([2.0 ** (-n * (n - 1) / 2) / math.factorial(n) for n in j])
    return float(_coefficient(places, delta.numpy(), halves) * math.factorial(places))


def rao_blackwell_ser(order: Tensor, language: Interval) -> Estimate:
    """SER from orders (B, L) alone, 1 - 2^-pairs a row: unbiased where the order does not depend on the tokens."""
    padding = -order.shape[1] % language.width
    rounds = torch.nn.functional.pad(order, (0, padding)).view(len(order), -1, language.width)
    same = (rounds.unsqueeze(-1) == rounds.unsqueeze(-2)) & (rounds > 0).unsqueeze(-1)
    pairs = (same.sum((1, 2, 3)) - (order > 0).sum(1)) / 2
    return mean(1 - 2.0 ** -pairs.double(), method="rao-blackwell")


@njit(cache=True, nogil=True)
def _coefficient(places: int, delta: Floats, halves: Floats) -> float:
    product = np.zeros(places + 1)
    product[0] = 1.0
    for d in delta:
        for n in range(places, -1, -1):
            total, power = 0.0, 1.0
            for j in range(n + 1):
                total += product[n - j] * power * halves[j]
                power *= d
            product[n] = total
    return float(product[places])
