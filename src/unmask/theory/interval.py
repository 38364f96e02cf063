"""The curves of the interval language: both are straight lines (theory.md 6, 7.2).

A hidden position knows one bit from each revealed partner, and two partners that are revealed together disagree with
probability 1/2 whatever else is known, so with P pairs of partners
    h(u) = L (l-1) - 2 P u  bits,    e(u) = P / 2,    C(q) = P / 2  and  c(q) = (l-1)/4 for whole intervals.
SER, TER and KL are in metrics.interval.
"""

from __future__ import annotations

import math

import numpy as np

from unmask.languages import Interval
from unmask.metrics.interval import related_pairs
from unmask.theory.curves import ErrorCurve, InformationCurve

METHOD = "closed form of the interval language"


def information_curve(language: Interval, length: int) -> InformationCurve:
    """f(k) = l - 1 - (2 P / L) k / (L-1) bits, in nats: k of the L-1 others are revealed, each partner as likely."""
    share = np.arange(length) / max(length - 1, 1)
    bits = language.width - 1 - 2 * related_pairs(language, length) / length * share
    return InformationCurve(bits * math.log(2), METHOD)


def error_curve(language: Interval, length: int) -> ErrorCurve:
    """g(k) = P(two positions are partners) / 2."""
    pairs = max(math.comb(length, 2), 1)
    return ErrorCurve(np.full(length - 1, related_pairs(language, length) / pairs / 2), METHOD)
