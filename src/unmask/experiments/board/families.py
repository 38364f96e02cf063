"""How far a sampler goes: a family is a sampler with one option left open, its knob, and values from cheap to dear.

The knob is the number of rounds N ("steps") unless KNOBS says otherwise, or the specification itself does, by a list:
"threshold(threshold=[0.5, 0.9])" is that sampler at two budgets, whoever wrote it. An option that is fixed in the
specification is no knob: "threshold(threshold=0.9)" has one budget. Where N is the knob, it is given in the same way,
though it is no option of the sampler: "ancestral(steps=[8, 32])" is the sampler "ancestral" at these N.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from unmask.core.errors import UnmaskError
from unmask.core.registry import parse
from unmask.samplers import SAMPLERS

STEPS = "steps"
SHARES = (1 / 32, 1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1)  # N as a share of L
QUICK_SHARES = (1 / 32, 1 / 8, 1 / 2, 1)
BEYOND, QUICK_BEYOND = (2, 8), (8,)  # more N than tokens, where positions draw their rounds and still collide
INDEPENDENT = ("ancestral", "as-published-mdlm")
KNOBS: dict[str, tuple[str, tuple[float, ...]]] = {
    "strided": (STEPS, (2, 3, 4, 5, 8, 16, 32)),
    "dyadic": (STEPS, (1, 2, 3, 4, 5, 6, 8)),
    "best-order": (STEPS, (1, 2, 3, 4, 5, 6, 8)),
    "block-strided": (STEPS, (2, 4, 6, 8, 10, 12, 14)),
    "dilated": ("base", (128, 8, 4, 2)),
    "threshold": ("threshold", (0.2, 0.35, 0.5, 0.7, 0.9)),
    "factor": ("factor", (64.0, 16.0, 4.0, 1.0)),
    "entropy-bounded": ("gamma", (64.0, 16.0, 4.0, 1.0, 0.1)),
    "entropy-sum": ("threshold", (64.0, 16.0, 4.0, 1.0, 0.1)),
    "clairvoyant": ("gamma", (2.0, 0.5, 0.2, 0.05, 0.01, 0.001)),
    "speculative": ("draft_length", (32, 8, 2)),
    "apd": ("weight", (0.9, 0.5)),
    "wino": ("threshold", (0.2, 0.5)),
    "saber": ("least", (32, 8, 2)),
    "particle-gibbs": (STEPS, (4, 16)),
    "token-editing": ("threshold", (0.3, 0.6)),
    "klass": ("threshold", (0.2, 0.35, 0.6)),
    "settled": ("threshold", (0.2, 0.35, 0.6)),
    "credit": ("threshold", (0.35, 0.6, 0.9)),
    "slowfast": ("sure", (0.2, 0.35, 0.6)),
    "sched": ("gap", (0.5, 1.5, 6.0)),
    "localleap": ("threshold", (0.35, 0.5, 0.7)),
    "punt": ("epsilon", (2.0, 0.5, 0.1)),
    "info-gain": (STEPS, (4, 12, 24)),  # each round looks at four more contexts
    "deferred": ("threshold", (0.2, 0.35, 0.6)),
    "adaptive-blocks": ("threshold", (0.2, 0.35, 0.6)),
    "multi-block": ("threshold", (2.0, 1.5, 1.0)),
}
USUAL = {"gibbs": "gibbs(stride=8)"}  # what stands for a sampler whose default costs more than AR
OTHER_NAMES = ("llada", "dream")  # of samplers that have one already


@dataclass(frozen=True)
class Family:
    """A sampler as it was asked for, but for N, with its knob and what the knob is set to."""

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


def family(specification: str, length: int, quick: bool = False) -> Family:
    """The family that a specification names, for sequences of one length; fails where it makes no sampler."""
    name, options = parse("sampler", specification)
    knob, values = _knob(specification)
    if knob in options:
        given = options[knob]
        values = tuple(given) if isinstance(given, list) else (given,)
        if not values:
            raise UnmaskError(f"sampler {specification!r} lists no value of {knob}; give at least one")
    elif knob == STEPS:
        values = values or rounds(length, quick, beyond=name in INDEPENDENT)
    if STEPS in options:
        if wrong := [value for value in values if type(value) is not int or value < 1]:
            raise UnmaskError(f"steps of sampler {specification!r} is {wrong[0]!r}; expected a whole number from 1")
        del options[STEPS]
        specification = _spelled(name, options)
    found = Family(specification, knob, values)
    for value in found.values:  # a mistake is found before the work
        SAMPLERS.make(found.at(value)[0])
    return found


def with_steps(specification: str, steps: Sequence[int]) -> str:
    """A specification with these N, where N is its knob and it says none itself."""
    name, options = parse("sampler", specification)
    if not steps or STEPS in options or _knob(specification)[0] != STEPS:
        return specification
    return _spelled(name, options | {STEPS: list(steps)})


def code_of(specification: str) -> str:
    """A digest of the sources of a sampler that is none of ours: changed, it is another one under the same name."""
    maker = SAMPLERS.find(parse("sampler", specification)[0])
    if maker.__module__.partition(".")[0] == "unmask":
        return ""
    for whose in (sys.modules.get(maker.__module__), maker):
        with suppress(OSError, TypeError):  # a module without a file, as that of a notebook
            return hashlib.sha256(inspect.getsource(whose).encode()).hexdigest()  # type: ignore[arg-type]
    return ""


def rounds(length: int, quick: bool = False, beyond: bool = False) -> tuple[int, ...]:
    """The numbers of rounds that a curve is drawn through."""
    shares = QUICK_SHARES if quick else SHARES
    more = (QUICK_BEYOND if quick else BEYOND) if beyond else ()
    return tuple(sorted({max(round(share * length), 1) for share in (*shares, *more)}))


def _knob(specification: str) -> tuple[str, tuple[Any, ...]]:
    """(the knob of a specification, its usual values where it has any but N as shares of the length)."""
    name, options = parse("sampler", specification)
    lists = [option for option, value in options.items() if isinstance(value, list)]
    if len(lists) > 1:
        raise UnmaskError(f"sampler {specification!r} lists values of {' and '.join(lists)}; a family has one knob")
    usual, values = KNOBS.get(name, (STEPS, ()))
    knob = lists[0] if lists else usual
    if STEPS in options and (usual, knob) != (STEPS, STEPS):
        other = knob if knob != STEPS else usual
        raise UnmaskError(f"sampler {specification!r} says steps, but its knob is {other}; leave steps out")
    return knob, values if knob == usual else ()


def _spelled(name: str, options: Mapping[str, Any]) -> str:
    """The specification that is read as this; a word stands as it is where it is read as one."""
    said = []
    for option, value in options.items():
        bare = f"{option}={value}"
        try:
            same = isinstance(value, str) and parse("sampler", f"{name}({bare})")[1] == {option: value}
        except UnmaskError:
            same = False
        said.append(bare if same else f"{option}={value!r}")
    return f"{name}({', '.join(said)})" if said else name
