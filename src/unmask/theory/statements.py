"""What a theorem says in one case: a number, of what, from which side, under which assumption, and whose it is.

The quantities that are spoken of:
    divergence     KL(q || p) in nats a sequence, of the mixture p over orders, unless the assumption names one order
    ter_ratio      TER(p) / TER(q) = exp(KL(q || p) / L), at a fixed length
    ser            the sequence error rate; valid is 1 - ser
    excess         E[|M_k| - dep_n(M_k)]: how many of the positions that a round reveals depend on another one of it
    collision      P(two positions share a round); distinct is 1 - collision
    rounds         how many are needed
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Literal, TypeVar, cast

from unmask.core import arguments
from unmask.schedules.schedule import as_delta

Kind = Literal["upper", "lower", "exact"]
Origin = Literal["paper", "reconstructed", "ours"]
SIGNS = {"upper": "<=", "lower": ">=", "exact": "="}


F = TypeVar("F", bound=Callable[..., Any])


def _rate(value: Any) -> None:
    if not 0 < arguments.number("ser", value, 0, 1) < 1:
        arguments.refuse("ser", value, "a number between 0 and 1")


ASKED: dict[str, Callable[[Any], object]] = {
    "length": arguments.length,
    "places": lambda value: arguments.whole("places", value, 0, arguments.MOST_LENGTH),
    "tokens": lambda value: arguments.whole("tokens", value),
    "rounds": lambda value: arguments.whole("rounds", value),
    "vocabulary": lambda value: arguments.whole("vocabulary", value),
    "width": lambda value: arguments.whole("width", value, 1, arguments.MOST_LENGTH),
    "n": lambda value: arguments.whole("n", value, 2, what=", the order of an n-gram"),
    "delta": lambda value: as_delta(value) if not isinstance(value, float) else value,
    "learning": lambda value: arguments.number("learning", value, what=" of nats a token"),
    "between": lambda value: arguments.number("between", value, -arguments.INFINITY, what=" of nats"),
    "eps": lambda value: arguments.number("eps", value, 0, 1, above=True),
    "wrong": lambda value: arguments.number("wrong", value, 0, 1),
    "ser": _rate,
}


def asked(function: F) -> F:
    """The function with its arguments checked, by the names that they have all over the theory."""
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            if name in ASKED and value is not signature.parameters[name].default:
                ASKED[name](value)
        return function(*args, **kwargs)

    return cast("F", call)


@dataclass(frozen=True)
class Statement:
    """`of` is at most, at least or exactly `value`.

    origin: "paper" where the text is legible; "reconstructed" where its formulas are lost and the proof was followed;
    "ours" otherwise. proven: False where a step of the proof is heuristic. Nothing is clipped: a bound on a
    probability that exceeds 1 is shown as it is.
    """

    value: float
    kind: Kind
    of: str
    assumption: str
    origin: Origin
    where: str
    proven: bool = True

    def allows(self, truth: float, slack: float = 1e-9) -> bool:
        """Whether the truth may be this, up to rounding."""
        room = slack * max(1.0, abs(self.value))
        above, below = truth > self.value + room, truth < self.value - room
        return not (above and self.kind != "lower") and not (below and self.kind != "upper")

    def then(self, of: str, increasing: Callable[[float], float], where: str, exact: bool = True) -> Statement:
        """What follows for an increasing function of the quantity, or (exact=False) for what lies below that."""
        if not exact and self.kind == "lower":
            raise ValueError(f"a lower bound on {self.of} says nothing of {of}, which lies below")
        kind = self.kind if exact else "upper"
        return replace(self, value=increasing(self.value), of=of, kind=kind, where=f"{where}, by {self.where}")

    def __str__(self) -> str:
        doubt = "" if self.proven else ", a step of its proof is heuristic"
        return f"{self.of} {SIGNS[self.kind]} {self.value:.6g}  [{self.where}; {self.origin}{doubt}; {self.assumption}]"


def ter_ratio(divergence: Statement, length: int) -> Statement:
    """log TER(p) = log TER(q) + KL(q || p) / L at a fixed length (theory.md (4))."""
    return divergence.then("ter_ratio", lambda nats: math.exp(nats / length), "definition of TER")


def ser(divergence: Statement) -> Statement:
    """SER <= 1 - exp(-KL(q || p)): data processing on the event that q finds x possible (theory.md 2).

    Equality for the interval language.
    """
    return divergence.then("ser", lambda nats: -math.expm1(-nats), "SER <= 1 - exp(-KL)", exact=False)
