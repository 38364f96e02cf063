"""How far a sampler goes: a family is a sampler with one option left open, its knob, and values from cheap to dear.

The knob is the number of rounds N ("steps") unless KNOBS says otherwise, or the specification itself does, by a list:
"threshold(threshold=[0.5, 0.9])" is that sampler at two budgets, whoever wrote it. An option that is fixed in the
specification is no knob: "threshold(threshold=0.9)" has one budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unmask.errors import UnmaskError
from unmask.names import parse
from unmask.samplers import SAMPLERS

STEPS = "steps"
SHARES = (1 / 32, 1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1)  # N as a share of L
QUICK_SHARES = (1 / 32, 1 / 8, 1 / 2, 1)
BEYOND, QUICK_BEYOND = (2, 8), (8,)  # more N than tokens, where positions draw their rounds and still collide
INDEPENDENT = ("ancestral", "as-published-mdlm")
KNOBS: dict[str, tuple[str, tuple[float, ...]]] = {
    "strided": (STEPS, (2, 3, 4, 5, 8, 16, 32)),
    "dyadic": (STEPS, (1, 2, 3, 4, 5, 6, 8)),
    "block-strided": (STEPS, (2, 4, 6, 8, 10, 12, 14)),
    "dilated": ("base", (128, 8, 4, 2)),
    "threshold": ("threshold", (0.2, 0.35, 0.5, 0.7, 0.9)),
    "factor": ("factor", (64.0, 16.0, 4.0, 1.0)),
    "entropy-bounded": ("gamma", (64.0, 16.0, 4.0, 1.0, 0.1)),
    "entropy-sum": ("threshold", (64.0, 16.0, 4.0, 1.0, 0.1)),
    "clairvoyant": ("gamma", (2.0, 0.5, 0.2, 0.05, 0.01, 0.001)),
    "speculative": ("draft_length", (32, 8, 2)),
}
USUAL = {"gibbs": "gibbs(stride=8)"}  # what stands for a sampler whose default costs more than AR
OTHER_NAMES = ("llada", "dream")  # of samplers that have one already


@dataclass(frozen=True)
class Family:
    """A sampler as it was asked for, with its knob and what the knob is set to."""

    specification: str
    knob: str
    values: tuple[Any, ...]

    def at(self, value: Any) -> tuple[str, int | None]:
        """(the sampler's specification, N) at one setting of the knob; None: N is not the knob, and has its default."""
        if self.knob == STEPS:
            return self.specification, value
        name, options = parse("sampler", self.specification)
        options[self.knob] = value
        return f"{name}({', '.join(f'{option}={given!r}' for option, given in options.items())})", None


def family(specification: str, length: int, steps: Sequence[int] = (), quick: bool = False) -> Family:
    """The family that a specification names, for sequences of one length; steps: N where N is the knob."""
    name, options = parse("sampler", specification)
    lists = [option for option, value in options.items() if isinstance(value, list)]
    if len(lists) > 1:
        raise UnmaskError(f"sampler {specification!r} lists values of {' and '.join(lists)}; a family has one knob")
    if lists:
        if not options[lists[0]]:
            raise UnmaskError(f"sampler {specification!r} lists no value of {lists[0]}; give at least one")
        found = Family(specification, lists[0], tuple(options[lists[0]]))
    else:
        knob, values = KNOBS.get(name, (STEPS, ()))
        if knob in options:
            found = Family(specification, knob, (options[knob],))
        elif knob == STEPS:
            usual = values or rounds(length, quick, beyond=name in INDEPENDENT)
            found = Family(specification, STEPS, tuple(steps) or usual)
        else:
            found = Family(specification, knob, values)
    for value in found.values:  # a mistake is found before the work
        SAMPLERS.make(found.at(value)[0])
    return found


def rounds(length: int, quick: bool = False, beyond: bool = False) -> tuple[int, ...]:
    """The numbers of rounds that a curve is drawn through."""
    shares = QUICK_SHARES if quick else SHARES
    more = (QUICK_BEYOND if quick else BEYOND) if beyond else ()
    return tuple(sorted({max(round(share * length), 1) for share in (*shares, *more)}))
