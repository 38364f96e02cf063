"""A family is a sampler with one open option, its knob, and values from cheap to expensive.

The knob is the number of steps N ("steps"), or the option in KNOBS, or a list in the specification:
"threshold(threshold=[0.5, 0.9])" has two budgets. A fixed option is not a knob: "threshold(threshold=0.9)" has one
budget. If N is the knob, it is written like an option: "ancestral(steps=[8, 32])". A sampler that ignores N and is not
in KNOBS has its first number as its knob: fractions in place of a fraction, else multiples of the default.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from unmask.core.entries import several
from unmask.core.errors import UnmaskError
from unmask.core.specs import parse, written
from unmask.samplers import SAMPLERS

STEPS = "steps"
FRACTIONS = (1 / 32, 1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1)  # N / L
QUICK_FRACTIONS = (1 / 32, 1 / 8, 1 / 2, 1)
BEYOND, QUICK_BEYOND = (2, 8), (8,)  # N / L above 1, for samplers that draw each position's step and still collide
MULTIPLES = (0.25, 0.5, 1, 2, 4)  # of the default of an option
INDEPENDENT = ("ancestral", "as-published-mdlm")
KNOBS: dict[str, tuple[str, tuple[float, ...]]] = {
    "strided": (STEPS, (2, 3, 4, 5, 8, 16, 32)),
    "dyadic": (STEPS, (1, 2, 3, 4, 5, 6, 8)),
    "threshold": ("threshold", (0.2, 0.35, 0.5, 0.7, 0.9)),
    "factor": ("factor", (64.0, 16.0, 4.0, 1.0)),
    "entropy-bounded": ("gamma", (64.0, 16.0, 4.0, 1.0, 0.1)),
    "entropy-sum": ("threshold", (64.0, 16.0, 4.0, 1.0, 0.1)),
    "speculative": ("draft_length", (32, 8, 2)),
    "wino": ("threshold", (0.2, 0.5)),
    "token-editing": ("threshold", (0.3, 0.6)),
    "klass": ("threshold", (0.2, 0.35, 0.6)),
    "localleap": ("threshold", (0.35, 0.5, 0.7)),
}
USUAL = {  # of a sampler whose default costs more than AR, or reads levels from a schedule of masks
    "gibbs": "gibbs(stride=8)",
    "uniform-ancestral": "uniform-ancestral(grid='geometric(last=0.0008)')",
}
OTHER_NAMES = ("llada", "dream")  # second names of samplers


@dataclass(frozen=True)
class Family:
    """A sampler's specification without N, its knob and the values of the knob."""

    specification: str
    knob: str
    values: tuple[Any, ...]

    @property
    def rises(self) -> bool:
        """Whether later values are known to cost more."""
        return self.knob == STEPS or parse("sampler", self.specification)[0] in KNOBS

    def at(self, value: Any) -> tuple[str, int | None]:
        """(specification of the sampler, N) at one value of the knob; None if N is not the knob."""
        if self.knob == STEPS:
            return self.specification, value
        name, options = parse("sampler", self.specification)
        options[self.knob] = value
        return written(name, options), None


def family(specification: str, length: int, quick: bool = False) -> Family:
    """The family of a specification for sequences of one length; fails if it makes no sampler."""
    name, options = parse("sampler", specification)
    lists = [option for option, value in options.items() if isinstance(value, list)]
    if len(lists) > 1:
        raise UnmaskError(f"sampler {specification!r} lists values of {' and '.join(lists)}; a family has one knob")

    usual, values = usual_knob(name)
    knob = next(iter(lists), usual)

    others = [one for one in (knob, usual) if one != STEPS]
    if STEPS in options and others:
        raise UnmaskError(f"sampler {specification!r} sets steps, but its knob is {others[0]}; leave steps out")

    if knob in options:
        values = tuple(several(options[knob]))
        if not values:
            raise UnmaskError(f"sampler {specification!r} lists no value of {knob}; give at least one")
    elif knob == STEPS and not values:
        values = steps(length, quick, beyond=name in INDEPENDENT)

    if STEPS in options:
        for value in values:
            if type(value) is not int or value < 1:
                raise UnmaskError(f"steps of sampler {specification!r} is {value!r}; expected a whole number from 1")
        del options[STEPS]
        specification = written(name, options)

    member = Family(specification, knob, values)
    for value in member.values:  # find mistakes before the work
        SAMPLERS.make(member.at(value)[0])
    return member


def usual_knob(name: str) -> tuple[str, tuple[Any, ...]]:
    """(the knob of a sampler, its usual values if they do not depend on the length)."""
    if name in KNOBS or getattr(SAMPLERS.find(name), "pace", "") != "free":
        return KNOBS.get(name, (STEPS, ()))
    for option, usual in SAMPLERS.entry(name).options.items():
        if type(usual) in (int, float) and usual > 0:
            if type(usual) is float and usual < 1:
                return option, KNOBS["threshold"][1]
            return option, tuple(sorted({type(usual)(times * usual) or usual for times in MULTIPLES}))
    return STEPS, ()


def apart(specification: str) -> tuple[str, str, Any]:
    """(specification without the value of its knob, knob, value); the value can be None."""
    name, options = parse("sampler", specification)
    knob = KNOBS.get(name, (STEPS, ()))[0]
    value = options.pop(knob, None)
    return written(name, options), knob, value


def with_steps(specification: str, steps: Sequence[int]) -> str:
    """A specification with these N, if N is its knob and it sets none itself."""
    name, options = parse("sampler", specification)
    if not steps or lists_budgets(specification) or usual_knob(name)[0] != STEPS:
        return specification
    return written(name, options | {STEPS: list(steps)})


def lists_budgets(specification: str) -> bool:
    """Whether it sets its own N, or several values of an option."""
    _, options = parse("sampler", specification)
    return STEPS in options or list in map(type, options.values())


def code_of(specification: str) -> str:
    """A digest of the source code of a sampler from another package; a change makes it another sampler."""
    maker = SAMPLERS.find(parse("sampler", specification)[0])
    if maker.__module__.partition(".")[0] == "unmask":
        return ""
    for source in (sys.modules.get(maker.__module__), maker):
        with suppress(OSError, TypeError):  # a module without a file, for example in a notebook
            return hashlib.sha256(inspect.getsource(source).encode()).hexdigest()  # type: ignore[arg-type]
    return ""


def steps(length: int, quick: bool = False, beyond: bool = False) -> tuple[int, ...]:
    """The values of N of a curve."""
    fractions: tuple[float, ...] = QUICK_FRACTIONS if quick else FRACTIONS
    if beyond:
        fractions += QUICK_BEYOND if quick else BEYOND
    return tuple(sorted({max(round(fraction * length), 1) for fraction in fractions}))
