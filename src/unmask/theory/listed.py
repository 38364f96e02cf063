"""Statements by name, for a case: a language at a length, a schedule, and a learning error.

    STATEMENTS.make("lemma-c6(width=5)", Case(language, 510, deltas("linear", 100)))

The docstring of its function describes a statement. Options are free choices in a statement; a statement about
one step is about the step with the strongest bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from torch import Tensor

from unmask.core.entries import chosen, several
from unmask.core.errors import UnmaskError
from unmask.core.registry import Registry
from unmask.languages import Language, NGram
from unmask.samplers.schedules import deltas
from unmask.theory import correctness, fluency, joint, joint_orders
from unmask.theory.correctness import WIDTH
from unmask.theory.statements import Statement

STATEMENTS: Registry[list[Statement]] = Registry("statement")


@dataclass(frozen=True, eq=False)
class Case:
    """learning: nats per token, the epsilon of Assumption 4.1; 0 for the ideal denoiser."""

    language: Language
    length: int
    delta: Tensor
    learning: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.learning < math.inf:
            raise UnmaskError(f"learning is {self.learning}; expected nats per token, 0 for the ideal denoiser")

    @property
    def order(self) -> int:
        """The n of an n-gram."""
        if not isinstance(self.language, NGram):
            raise UnmaskError(f"the language is {self.language.kind}; expected an n-gram for this statement")
        return self.language.order

    def gram(self, eps: float | None) -> tuple[int, int, int, float, float]:
        """(n, V, L, eps, learning) of theorem 4.2. (default: the first step of its schedule with N steps)"""
        eps = eps or float(deltas(f"theorem-4.2(order={self.order})", len(self.delta))[0])
        return self.order, self.language.vocabulary, self.length, eps, self.learning

    @property
    def between(self) -> float:
        """TC + DTC in nats."""
        return fluency.interaction(self.language, self.length).value

    def width(self, width: int) -> int:
        """The width of an interval language; for others the option, as the statement is about the paper's language."""
        return chosen(self.language.width, width)


def theorem_4_3(case: Case, ser: float | None = None) -> list[Statement]:
    """With option ser: also the steps for this SER."""
    steps = [] if ser is None else [correctness.theorem_4_3_steps(case.length, ser)]
    return [correctness.theorem_4_3(case.length, case.delta, case.learning), *steps]


def lemma_c6(case: Case, width: int = WIDTH, coarse: bool = False) -> Statement:
    wrong = correctness.error_chance(case.learning, coarse)
    return correctness.lemma_c6(case.length, len(case.delta), case.width(width), wrong)


def theorem_4_4(case: Case, width: int = WIDTH, coarse: bool = False, ser: float = 0.5) -> list[Statement]:
    l, wrong = case.width(width), correctness.error_chance(case.learning, coarse)
    return [correctness.theorem_4_4(case.length, l, wrong, ser), correctness.constant_4_4(l, wrong, ser)]


Said = Statement | Sequence[Statement]
TABLE: dict[str, tuple[Callable[..., object], Callable[..., Said]]] = {  # the function with the words, and the maker
    "theorem-4.2": (fluency.theorem_4_2, lambda case, eps=None: fluency.theorem_4_2(*case.gram(eps))),
    "universal": (
        fluency.universal,
        lambda case: fluency.universal(case.language.vocabulary, case.length, case.delta, case.between, case.learning),
    ),
    "lemma-c1": (correctness.lemma_c1, lambda case: correctness.lemma_c1(case.length, case.delta)),
    "lemma-c2": (correctness.lemma_c2, lambda case: correctness.lemma_c2(case.length, case.learning)),
    "theorem-4.3": (correctness.theorem_4_3, theorem_4_3),
    "linear-steps": (
        correctness.linear_steps,
        lambda case, ser=0.5: correctness.linear_steps(case.length, ser, case.between, case.learning),
    ),
    "lemma-c5": (correctness.lemma_c5, lambda case, width=WIDTH: correctness.lemma_c5(case.width(width), case.delta)),
    "lemma-c6": (correctness.lemma_c6, lemma_c6),
    "theorem-4.4": (correctness.theorem_4_4, theorem_4_4),
    "joint-uniform": (joint.joint_uniform, lambda case: joint.joint_uniform(case.language, case.length)),
    "joint-step": (joint.joint_step, lambda case: joint.joint_step(case.language, case.length)),
    "joint-loss": (joint.joint_loss, lambda case: joint.joint_loss()),
    "alone": (
        joint.alone,
        lambda case: joint.alone(case.language.vocabulary, case.length, case.delta, case.between),
    ),
    "joint-least": (
        joint.least,
        lambda case, moves=joint.MOVES, slip=joint.SLIP: joint.least(
            case.language.vocabulary, case.length, case.delta, moves, slip
        ),
    ),
    "joint-written": (
        joint.written,
        lambda case, moves=joint.MOVES, slip=joint.SLIP: joint.written(
            case.language.vocabulary, case.length, case.delta, moves, slip
        ),
    ),
    "joint-many-steps": (
        joint.many_steps,
        lambda case: joint.many_steps(case.language, case.length, case.delta),
    ),
    "joint-mixture": (joint.mixture, lambda case: joint.mixture(case.delta)),
    "joint-forest": (joint.forest, lambda case: joint.forest(case.language)),
    "joint-pairs": (joint.pairs, lambda case: joint.pairs(case.language, case.length)),
    "joint-order": (
        joint_orders.best_order,
        lambda case: joint_orders.best_order(case.language, case.length, case.delta),
    ),
    "joint-given": (joint.given, lambda case: joint.given(case.language, case.length, case.delta)),
}


def _register(name: str, of: Callable[..., object], maker: Callable[..., Said]) -> None:
    @wraps(maker)
    def statements(*args: Any, **options: Any) -> list[Statement]:
        return several(maker(*args, **options))

    statements.__doc__ = of.__doc__
    STATEMENTS.register(name)(statements)


for name, (of, maker) in TABLE.items():
    _register(name, of, maker)


def shown(names: Sequence[str], case: Case) -> list[tuple[str, Statement | str]]:
    """The statements of these names for a case, each with its name. (default: all)

    If no names are given, a statement that does not apply is replaced by the reason.
    """
    statements: list[tuple[str, Statement | str]] = []
    for name in names or STATEMENTS.makers:
        try:
            statements += [(name, statement) for statement in STATEMENTS.make(name, case)]
        except UnmaskError as reason:
            if names:
                raise
            statements.append((name, str(reason)))
    return statements
