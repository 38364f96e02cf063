"""The statement of a theorem in one case: a bound or value, its quantity, its assumption, and its origin.

Quantities:
    divergence     KL(q || p) in nats per sequence, of the mixture p over orders, or of one order if so stated
    ter_ratio      TER(p) / TER(q) = exp(KL(q || p) / L), at a fixed length
    ser            the sequence error rate; valid is 1 - ser
    excess         E[|M_k| - dep_n(M_k)]: number of positions in a step that depend on another one of the step
    collision      P(two positions share a step); distinct is 1 - collision
    steps          number of steps needed
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Literal, TypeVar, cast

from unmask.core import arguments
from unmask.samplers.schedules import as_delta

Kind = Literal["upper", "lower", "exact"]
Origin = Literal["paper", "reconstructed", "ours"]
SIGNS = {"upper": "<=", "lower": ">=", "exact": "="}


F = TypeVar("F", bound=Callable[..., Any])


def _rate(value: Any) -> None:
    if not 0 < arguments.number("ser", value, 0, 1) < 1:
        arguments.refuse("ser", value, "a number between 0 and 1")


CHECKS: dict[str, Callable[[Any], object]] = {
    "length": arguments.length,
    "places": lambda value: arguments.whole("places", value, 0, arguments.MOST_LENGTH),
    "tokens": lambda value: arguments.whole("tokens", value),
    "steps": lambda value: arguments.whole("steps", value),
    "vocabulary": lambda value: arguments.whole("vocabulary", value),
    "width": lambda value: arguments.whole("width", value, 1, arguments.MOST_LENGTH),
    "n": lambda value: arguments.whole("n", value, 2, what=", the order of an n-gram"),
    "delta": lambda value: as_delta(value) if not isinstance(value, float) else value,
    "learning": lambda value: arguments.number("learning", value, what=" of nats per token"),
    "between": lambda value: arguments.number("between", value, -arguments.INFINITY, what=" of nats"),
    "eps": lambda value: arguments.number("eps", value, 0, 1, above=True),
    "wrong": lambda value: arguments.number("wrong", value, 0, 1),
    "ser": _rate,
}


def checked(function: F) -> F:
    """Check the arguments of a function, by their names."""
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            if name in CHECKS and value is not signature.parameters[name].default:
                CHECKS[name](value)
        return function(*args, **kwargs)

    return cast("F", call)


@dataclass(frozen=True)
class Statement:
    """`of` is at most, at least or exactly `value`.

    origin: "paper" if the text is legible; "reconstructed" if its formulas are lost and the proof was followed; "ours"
    otherwise. proven: False if a step of the proof is heuristic. Bounds on probabilities may exceed 1.
    """

    value: float
    kind: Kind
    of: str
    assumption: str
    origin: Origin
    where: str
    proven: bool = True

    def allows(self, truth: float, slack: float = 1e-9) -> bool:
        """Whether the truth may have this value, up to rounding."""
        slack *= max(1.0, abs(self.value))
        above, below = truth > self.value + slack, truth < self.value - slack
        return not (above and self.kind != "lower") and not (below and self.kind != "upper")

    def then(self, of: str, increasing: Callable[[float], float], where: str, exact: bool = True) -> Statement:
        """The bound on an increasing function of the quantity, or (exact=False) on a quantity below that."""
        if not exact and self.kind == "lower":
            raise ValueError(f"a lower bound on {self.of} does not bound {of}, which is smaller")
        kind = self.kind if exact else "upper"
        return replace(self, value=increasing(self.value), of=of, kind=kind, where=f"{where}, by {self.where}")

    def __str__(self) -> str:
        doubt = "" if self.proven else ", a step of its proof is heuristic"
        return f"{self.of} {SIGNS[self.kind]} {self.value:.6g}  [{self.where}; {self.origin}{doubt}; {self.assumption}]"


def ter_ratio(divergence: Statement, length: int) -> Statement:
    """log TER(p) = log TER(q) + KL(q || p) / L at a fixed length (theory.md (4))."""
    return divergence.then("ter_ratio", lambda nats: math.exp(nats / length), "definition of TER")


def ser(divergence: Statement) -> Statement:
    """SER <= 1 - exp(-KL(q || p)): data processing on the event that x is possible under q (theory.md 2).

    Equality for the interval language.
    """
    return divergence.then("ser", lambda nats: -math.expm1(-nats), "SER <= 1 - exp(-KL)", exact=False)
