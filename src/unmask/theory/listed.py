"""Statements by name, for a case: a language at a length, a schedule, and a learning error.

    STATEMENTS.make("lemma-c6(width=5)", Case(language, 510, deltas("linear", 100)))

The docstring of its function describes a statement. Options are free choices in a statement; a statement about
one step is about the step with the strongest bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core.chance import Randomness
from unmask.core.errors import UnmaskError
from unmask.core.registry import Registry
from unmask.languages import Language, NGram
from unmask.samplers import orders
from unmask.samplers.schedules import Schedule, deltas
from unmask.theory import best_orders, correctness, crossover, fluency, joint, repair, separators, uniform
from unmask.theory.correctness import INDEPENDENT, WIDTH
from unmask.theory.known import exact_curve, exact_error_curve
from unmask.theory.statements import Origin, Statement

STATEMENTS: Registry[list[Statement]] = Registry("statement")
Maker = Callable[..., list[Statement]]
MEASURE = "theory.sampled.information_curve"
ABOUT: dict[str, dict[str, str]] = {}  # by name: what the statements of a name have in every case


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

    def eps(self, eps: float | None) -> float:
        """The eps of theorem 4.2. (default: the first step of its schedule with N steps)"""
        return eps or float(deltas(f"theorem-4.2(order={self.order})", len(self.delta))[0])

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


def statement(
    name: str, of: Callable[..., object], kind: str, origin: Origin, assumption: str
) -> Callable[[Maker], Maker]:
    """Register the maker of a statement; `of`, the function that computes it, describes it by its docstring."""

    def register(maker: Maker) -> Maker:
        maker.__doc__ = of.__doc__
        ABOUT[name] = {"kind": kind, "origin": origin, "assumption": assumption}
        return STATEMENTS.register(name)(maker)

    return register


def catalogue() -> dict[str, dict[str, str]]:
    """Each name with its kind, origin, assumption and description."""
    return {name: ABOUT[name] | {"about": about} for name, about in STATEMENTS.about().items()}


def mean_over_orders(case: Case) -> list[Statement]:
    """E KL(q || p_order), an upper bound on KL(q || p), as the area between the curve and its steps."""
    known = exact_curve(case.language, case.length)
    if known is None:
        problem = f"the curve of {case.language.kind} at length {case.length} is not known exactly"
        raise UnmaskError(f"{problem}; expected a closed form or a tiny language. Measure it: {MEASURE}.")
    how = f"{INDEPENDENT}; ideal denoiser"
    return [Statement(known.divergence(case.delta).value, "upper", "divergence", how, "ours", "theory.md 7.2")]


def drawn_order(case: Case, seed: int) -> Tensor:
    """(L): one order, drawn from the schedule."""
    hidden = torch.ones((1, case.length), dtype=torch.bool)
    return orders.independent(case.delta, hidden, Randomness(seed, torch.arange(1)))[0]


def limit_4_4(case: Case, width: int, coarse: bool, ser: float) -> list[Statement]:
    l, wrong = case.width(width), correctness.error_chance(case.learning, coarse)
    return [correctness.theorem_4_4(case.length, l, wrong, ser), correctness.constant_4_4(l, wrong, ser)]


def best_order(case: Case) -> list[Statement]:
    value = float(best_orders.of_orders(case.language, case.length, len(case.delta))[-1])
    assumption = f"the best of all orders of {len(case.delta)} steps, ideal denoiser"
    return [Statement(value, "exact", "divergence of one order", assumption, "ours", "theory.md 7.6")]


def uniform_path(case: Case) -> list[Statement]:
    value = uniform.path_divergence(case.language, case.length, case.levels)
    how = "uniform noise with the schedule's levels, ideal denoiser"
    return [Statement(value, "upper", "divergence of uniform noise", how, "ours", "theory.md 13")]


def uniform_pairs(case: Case, vocabulary: int, eps: float) -> list[Statement]:
    """P(a pair differs): uniform noise with the schedule's levels, its limit, masks, the best blind remasking."""
    steps, mixed = len(case.delta), f"{vocabulary} symbols, denoiser mixed with {eps:g} of the uniform distribution"
    noise = [1 - level for level in case.levels]
    values = {
        f"uniform noise with the schedule's levels, {mixed}": repair.pair_error(vocabulary, noise, eps),
        f"{steps} steps of rapidly decreasing uniform noise, {vocabulary} symbols": repair.pair_limit(
            vocabulary, steps
        ),
        f"masks, the schedule, {mixed}": repair.masked_pair_error(vocabulary, case.delta, eps),
        f"masks, blind remasking, {vocabulary} symbols": repair.blind_remasking(vocabulary, steps),
    }
    return [Statement(value, "exact", "pair error", how, "ours", "theory.md 13") for how, value in values.items()]


def model_calls(case: Case, ser: float) -> list[Statement]:
    """Model calls per token for an SER, (c/lambda)(1 - e^(-lambda/c)), independent of the length."""
    if (errors := exact_error_curve(case.language, case.length)) is None:
        problem = f"c(q) of {case.language.kind} is not known exactly at length {case.length}"
        raise UnmaskError(f"{problem}. Measure it: theory.known.error_curve.")
    constant = errors.constant.value / case.length
    value = crossover.model_calls_per_token(constant, ser)
    assumption = f"linear schedule, SER {ser:g}, c(q) = {constant:.4g}; to first order in the errors, as L grows"
    return [Statement(value, "exact", "model calls / L", assumption, "ours", "theory.md 7.4", proven=False)]


statement("lemma-a1", fluency.lemma_a1, "upper", "reconstructed", "tokens drawn in one step; default: k = length")(
    lambda case, tokens=0: [fluency.lemma_a1(case.language.vocabulary, tokens or case.length, case.learning)]
)
statement(
    "theorem-4.2",
    fluency.theorem_4_2,
    "upper",
    "paper",
    "n-grams; some schedule of O((n-1)/eps^n) steps; L > O((n-1)/eps^(n+1/2))",
)(
    lambda case, eps=None: [
        fluency.theorem_4_2(case.order, case.language.vocabulary, case.length, case.eps(eps), case.learning)
    ]
)
statement("theorem-4.2-explicit", fluency.explicit, "upper", "ours", "n-grams; schedule theorem-4.2")(
    lambda case, eps=None: [
        fluency.explicit(case.order, case.language.vocabulary, case.length, case.eps(eps), case.learning)
    ]
)
statement(
    "theorem-4.2-proportional", fluency.proportional, "upper", "ours", "n-grams; schedule theorem-4.2-proportional"
)(
    lambda case, eps=None: [
        fluency.proportional(case.order, case.language.vocabulary, case.length, case.eps(eps), case.learning)
    ]
)
statement("universal", fluency.universal, "upper", "ours", "any language, length and schedule")(
    lambda case: [fluency.universal(case.language.vocabulary, case.length, case.delta, case.between, case.learning)]
)
statement("mean-over-orders", mean_over_orders, "upper", "ours", f"{INDEPENDENT}; ideal denoiser")(mean_over_orders)
statement("lemma-b8", separators.lemma_b8, "upper", "reconstructed", "n-grams; one order, drawn from the schedule")(
    lambda case, seed=0: [
        separators.lemma_b8(case.order, case.language.vocabulary, drawn_order(case, seed), case.learning)
    ]
)
statement("lemma-b9", separators.lemma_b9, "upper", "reconstructed", f"n-grams; {INDEPENDENT}")(
    lambda case: [separators.lemma_b9(case.order, case.language.vocabulary, case.length, case.delta, case.learning)]
)
statement("lemma-b10", separators.lemma_b10, "upper", "reconstructed", f"n-grams; {INDEPENDENT}")(
    lambda case: list(separators.lemma_b10(case.order, case.length, *case.widest))
)
statement(
    "lemma-b11",
    separators.lemma_b11,
    "upper",
    "reconstructed",
    "n-grams; L delta > 1; a step of its proof is heuristic",
)(lambda case: [separators.lemma_b11(case.order, case.length, *case.widest)])
statement("lemma-c1", correctness.lemma_c1, "upper", "reconstructed", INDEPENDENT)(
    lambda case: [correctness.lemma_c1(case.length, case.delta)]
)
statement("lemma-c2", correctness.lemma_c2, "lower", "reconstructed", "any language; no two positions in one step")(
    lambda case: [correctness.lemma_c2(case.length, case.learning)]
)
statement(
    "theorem-4.3",
    correctness.theorem_4_3,
    "upper",
    "reconstructed",
    f"any language; {INDEPENDENT}; option ser: also the steps for this SER",
)(
    lambda case, ser=None: [
        correctness.theorem_4_3(case.length, case.delta, case.learning),
        *([] if ser is None else [correctness.theorem_4_3_steps(case.length, ser)]),
    ]
)
statement("linear-steps", correctness.linear_steps, "upper", "ours", "any language; linear schedule")(
    lambda case, ser=0.5: [correctness.linear_steps(case.length, ser, case.between, case.learning)]
)
statement(
    "lemma-c5",
    correctness.lemma_c5,
    "upper",
    "reconstructed",
    "any schedule; the proof, by Maclaurin's inequality, is ours",
)(lambda case, width=WIDTH: [correctness.lemma_c5(case.width(width), case.delta)])
statement("lemma-c6", correctness.lemma_c6, "lower", "reconstructed", "interval language; any schedule")(
    lambda case, width=WIDTH, coarse=False: [
        correctness.lemma_c6(
            case.length, len(case.delta), case.width(width), correctness.error_chance(case.learning, coarse)
        )
    ]
)
statement("theorem-4.4", correctness.theorem_4_4, "lower, exact", "reconstructed", "interval language; any schedule")(
    lambda case, width=WIDTH, coarse=False, ser=0.5: limit_4_4(case, width, coarse, ser)
)
statement("joint-uniform", joint.joint_uniform, "exact", "ours", "uniform on its support; one step, drawn together")(
    lambda case: [joint.joint_uniform(case.language, case.length)]
)
statement("joint-step", joint.joint_step, "upper", "ours", "an automaton; one step, drawn together; ideal denoiser")(
    lambda case: [joint.joint_step(case.language, case.length)]
)
statement("joint-loss", joint.joint_loss, "exact", "ours", "a counterexample: one chain, whatever the case")(
    lambda case: [joint.joint_loss()]
)
statement(
    "alone", joint.alone, "upper", "ours", "an automaton; any schedule; each step drawn together; ideal denoiser"
)(lambda case: [joint.alone(case.language.vocabulary, case.length, case.delta, case.between)])
statement(
    "best-order", best_orders.of_orders, "exact", "ours", "first-order chains, intervals; ideal denoiser; N steps"
)(best_order)
statement(
    "uniform-path",
    uniform.path_divergence,
    "upper",
    "ours",
    "tiny languages; uniform noise with the schedule's levels; ideal denoiser",
)(uniform_path)
statement(
    "uniform-pairs",
    uniform_pairs,
    "exact",
    "ours",
    "pairs of equal tokens; a denoiser mixed with eps of the uniform one",
)(lambda case, vocabulary=2, eps=0.0: uniform_pairs(case, vocabulary, eps))
statement(
    "repair",
    repair.repair,
    "upper",
    "ours",
    "independent blocks, or tiny; rapidly decreasing uniform noise; ideal denoiser",
)(lambda case: [repair.repair(case.language, case.length, len(case.delta))])
statement(
    "crossover", model_calls, "exact", "ours", "linear schedule; to first order in the errors of a step, as L grows"
)(lambda case, ser=0.5: model_calls(case, ser))


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
