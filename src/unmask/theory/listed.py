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

import torch
from torch import Tensor

from unmask.core.chance import Randomness
from unmask.core.errors import UnmaskError
from unmask.core.registry import Registry
from unmask.languages import Language, NGram
from unmask.samplers import orders
from unmask.samplers.schedules import Schedule, deltas
from unmask.theory import best_orders, correctness, fluency, joint, separators, uniform
from unmask.theory.correctness import INDEPENDENT, WIDTH
from unmask.theory.known import exact_curve, exact_error_curve
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

    @property
    def levels(self) -> list[float]:
        """The levels of uniform noise: the fractions 0 = a_0 < .. < a_N = 1 of the schedule, without empty steps."""
        return [0.0, *self.delta[self.delta > 0].cumsum(0)[:-1].tolist(), 1.0]

    @property
    def widest(self) -> tuple[float, float]:
        """(delta_k, p_k) of the largest step after the first."""
        if len(self.delta) == 1:
            return 1.0, 0.0
        k = 1 + int(self.delta[1:].argmax())
        return float(self.delta[k]), float(Schedule(self.delta).p[k])

    def width(self, width: int) -> int:
        """The width of an interval language; for others the option, as the statement is about the paper's language."""
        return width if self.language.width is None else self.language.width


def mean_over_orders(case: Case) -> Statement:
    """E KL(q || p_order), an upper bound on KL(q || p), as the area between the curve and its steps."""
    known = exact_curve(case.language, case.length)
    if known is None:
        problem = f"the curve of {case.language.kind} at length {case.length} is not known exactly"
        advice = "Measure it: theory.sampled.information_curve"
        raise UnmaskError(f"{problem}; expected a closed form or a tiny language. {advice}.")
    how = f"{INDEPENDENT}; ideal denoiser"
    return Statement(known.divergence(case.delta).value, "upper", "divergence", how, "ours", "theory.md 7.2")


def lemma_b8(case: Case, seed: int = 0) -> Statement:
    """The bound of one order, drawn from the schedule."""
    hidden = torch.ones((1, case.length), dtype=torch.bool)
    order = orders.independent(case.delta, hidden, Randomness(seed, torch.arange(1)))[0]
    return separators.lemma_b8(case.order, case.language.vocabulary, order, case.learning)


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


def best_order(case: Case) -> Statement:
    value = float(best_orders.of_orders(case.language, case.length, len(case.delta))[-1])
    assumption = f"the best of all orders of {len(case.delta)} steps, ideal denoiser"
    return Statement(value, "exact", "divergence of one order", assumption, "ours", "theory.md 7.6")


def uniform_path(case: Case) -> Statement:
    value = uniform.path_divergence(case.language, case.length, case.levels)
    how = "uniform noise with the schedule's levels, ideal denoiser"
    return Statement(value, "upper", "divergence of uniform noise", how, "ours", "theory.md 13")


def uniform_pairs(case: Case, vocabulary: int = 2, eps: float = 0.0) -> list[Statement]:
    """P(a pair differs): uniform noise with the schedule's levels, its limit, masks, the best blind remasking."""
    steps, mixed = len(case.delta), f"{vocabulary} symbols, denoiser mixed with {eps:g} of the uniform distribution"
    noise = [1 - level for level in case.levels]
    values = {
        f"uniform noise with the schedule's levels, {mixed}": uniform.pair_error(vocabulary, noise, eps),
        f"{steps} steps of rapidly decreasing uniform noise, {vocabulary} symbols": uniform.pair_limit(
            vocabulary, steps
        ),
        f"masks, the schedule, {mixed}": uniform.masked_pair_error(vocabulary, case.delta, eps),
        f"masks, blind remasking, {vocabulary} symbols": uniform.blind_remasking(vocabulary, steps),
    }
    return [Statement(value, "exact", "pair error", how, "ours", "theory.md 13") for how, value in values.items()]


def model_calls(case: Case, ser: float = 0.5) -> Statement:
    """Model calls per token for an SER, (c/lambda)(1 - e^(-lambda/c)), independent of the length."""
    if (errors := exact_error_curve(case.language, case.length)) is None:
        problem = f"c(q) of {case.language.kind} is not known exactly at length {case.length}"
        raise UnmaskError(f"{problem}. Measure it: theory.known.error_curve.")
    constant = errors.constant.value / case.length
    value = correctness.model_calls_per_token(constant, ser)
    assumption = f"linear schedule, SER {ser:g}, c(q) = {constant:.4g}; to first order in the errors, as L grows"
    return Statement(value, "exact", "model calls / L", assumption, "ours", "theory.md 7.4", proven=False)


Said = Statement | Sequence[Statement]
TABLE: dict[str, tuple[Callable[..., object], Callable[..., Said]]] = {  # the function with the words, and the maker
    "lemma-a1": (
        fluency.lemma_a1,
        lambda case, tokens=0: fluency.lemma_a1(case.language.vocabulary, tokens or case.length, case.learning),
    ),
    "theorem-4.2": (fluency.theorem_4_2, lambda case, eps=None: fluency.theorem_4_2(*case.gram(eps))),
    "theorem-4.2-explicit": (fluency.explicit, lambda case, eps=None: fluency.explicit(*case.gram(eps))),
    "theorem-4.2-proportional": (
        fluency.proportional,
        lambda case, eps=None: fluency.proportional(*case.gram(eps)),
    ),
    "universal": (
        fluency.universal,
        lambda case: fluency.universal(case.language.vocabulary, case.length, case.delta, case.between, case.learning),
    ),
    "mean-over-orders": (mean_over_orders, mean_over_orders),
    "lemma-b8": (separators.lemma_b8, lemma_b8),
    "lemma-b9": (
        separators.lemma_b9,
        lambda case: separators.lemma_b9(case.order, case.language.vocabulary, case.length, case.delta, case.learning),
    ),
    "lemma-b10": (separators.lemma_b10, lambda case: separators.lemma_b10(case.order, case.length, *case.widest)),
    "lemma-b11": (separators.lemma_b11, lambda case: separators.lemma_b11(case.order, case.length, *case.widest)),
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
    "best-order": (best_orders.of_orders, best_order),
    "uniform-path": (uniform.path_divergence, uniform_path),
    "uniform-pairs": (uniform_pairs, uniform_pairs),
    "repair": (uniform.repair, lambda case: uniform.repair(case.language, case.length, len(case.delta))),
    "crossover": (model_calls, model_calls),
}


def _register(name: str, of: Callable[..., object], maker: Callable[..., Said]) -> None:
    @wraps(maker)
    def statements(*args: Any, **options: Any) -> list[Statement]:
        one = maker(*args, **options)
        return [one] if isinstance(one, Statement) else list(one)

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
