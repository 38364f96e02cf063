"""When masked diffusion beats autoregression in time: a law without the length (theory.md 7.4, 9).

Where errors are few in each round, the linear schedule of N rounds has 1 - SER = exp(-C(q) / N), C(q) = c L. So an SER
of s takes N = c L / lambda rounds, lambda = -log(1 - s), of which a row needs N (1 - (1 - 1/N)^L) evaluations, as the
others reveal nothing of it. With L / N = lambda / c, as L grows,

    evaluations / L = (c / lambda) (1 - e^(-lambda / c)) = x (1 - e^(-1/x)),      x = c / lambda

which rises from 0 to 1 in x and has no L in it: what a language asks (c) and what is asked of it (lambda) decide alone.
AR takes L tokens. If a token of AR takes r times as long as an evaluation, masked diffusion is faster if and only if
evaluations / L < r: for all x below `crossing(r)`, so for every SER above 1 - exp(-c / crossing(r)).
"""

from __future__ import annotations

import math

from scipy.optimize import brentq

from unmask.core.errors import UnmaskError

SMALL, LARGE = 1e-12, 1e12


def share(x: float) -> float:
    """x (1 - e^(-1/x)): evaluations a token, where x = c / lambda."""
    return -x * math.expm1(-1 / x) if x > 0 else 0.0


def evaluations_per_token(constant: float, ser: float) -> float:
    """What an SER takes; constant: c(q) = C(q) / L."""
    _check(constant)
    if not 0 < ser < 1:
        raise UnmaskError(f"ser is {ser}; expected a number between 0 and 1")
    return share(constant / -math.log1p(-ser))


def crossing(ratio: float) -> float:
    """The x at which evaluations a token are this share: x (1 - e^(-1/x)) = r, for r between 0 and 1."""
    if not 0 < ratio < 1:
        raise UnmaskError(f"ratio is {ratio}; expected the time of a token of AR over that of an evaluation, below 1")
    return float(brentq(lambda x: share(x) - ratio, SMALL, LARGE, xtol=1e-15, rtol=1e-14))


def ser_at(constant: float, ratio: float) -> float:
    """The SER at which both take as long: masked diffusion is faster wherever more errors than these are allowed.

    0 where it is always faster: a token of AR takes longer than an evaluation, or there are no errors to avoid.
    """
    _check(constant)
    return 0.0 if ratio >= 1 or constant == 0 else -math.expm1(-constant / crossing(ratio))


def _check(constant: float) -> None:
    if not 0 <= constant < math.inf:
        raise UnmaskError(f"constant is {constant}; expected c(q) = C(q) / L, 0 or a positive number")
