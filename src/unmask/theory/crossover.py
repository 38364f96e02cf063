"""When masked diffusion is faster than autoregression: a rule without the length (theory.md 7.4, 9).

If each step has few errors, the linear schedule of N steps has 1 - SER = exp(-C(q) / N), C(q) = c L. So an SER of s
takes N = c L / lambda steps, lambda = -log(1 - s), for which a sequence needs N (1 - (1 - 1/N)^L) model calls, as the
other steps reveal nothing in it. With L / N = lambda / c, as L grows,

    model calls / L = (c / lambda) (1 - e^(-lambda / c)) = x (1 - e^(-1/x)),      x = c / lambda

which rises from 0 to 1 in x and does not contain L: only the language (c) and the target (lambda) matter. AR takes L
tokens. Let an AR token take r times as long as a model call. Masked diffusion is faster if and only if
model calls / L < r: for all x below `crossing(r)`, so for every SER above 1 - exp(-c / crossing(r)).
"""

from __future__ import annotations

import math

from scipy.optimize import brentq

from unmask.core.errors import UnmaskError

SMALL, LARGE = 1e-12, 1e12


def calls_per_token(x: float) -> float:
    """x (1 - e^(-1/x)): model calls per token, where x = c / lambda."""
    return -x * math.expm1(-1 / x) if x > 0 else 0.0


def model_calls_per_token(constant: float, ser: float) -> float:
    """Model calls per token for an SER; constant: c(q) = C(q) / L."""
    _check(constant)
    if not 0 < ser < 1:
        raise UnmaskError(f"ser is {ser}; expected a number between 0 and 1")
    return calls_per_token(constant / -math.log1p(-ser))


def crossing(ratio: float) -> float:
    """The x with this number of model calls per token: x (1 - e^(-1/x)) = r, for r between 0 and 1."""
    if not 0 < ratio < 1:
        raise UnmaskError(f"ratio is {ratio}; expected AR token time / model call time, between 0 and 1")
    return float(brentq(lambda x: calls_per_token(x) - ratio, SMALL, LARGE, xtol=1e-15, rtol=1e-14))


def ser_at(constant: float, ratio: float) -> float:
    """The SER at which both are equally fast: masked diffusion is faster if the target allows more errors.

    0 if it is always faster: an AR token takes longer than a model call, or there are no errors to avoid.
    """
    _check(constant)
    return 0.0 if ratio >= 1 or constant == 0 else -math.expm1(-constant / crossing(ratio))


def _check(constant: float) -> None:
    if not 0 <= constant < math.inf:
        raise UnmaskError(f"constant is {constant}; expected c(q) = C(q) / L, 0 or a positive number")
