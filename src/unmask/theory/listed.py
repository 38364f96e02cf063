"""Statements by name, for a case: a language at a length, a schedule, and a learning error.

    STATEMENTS.make("lemma-c6(width=5)", Case(language, 510, deltas("linear", 100)))

Options are free choices in a statement; a statement about one step is about the step with the strongest bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from unmask.core.chance import Randomness
from unmask.core.errors import UnmaskError
from unmask.core.registry import Registry
from unmask.languages import Arrangement, Language, NGram
from unmask.schedules import Schedule, deltas, orders
from unmask.theory import best_orders, ceilings, correctness, crossover, fluency, optimal, repair, separators, uniform
from unmask.theory.blocks import of_blocks
from unmask.theory.certified import certified
from unmask.theory.correctness import INDEPENDENT
from unmask.theory.known import curve, exact, exact_curve, exact_error_curve
from unmask.theory.speculation import turns
from unmask.theory.statements import Origin, Statement

STATEMENTS: Registry[list[Statement]] = Registry("statement")
Maker = Callable[..., list[Statement]]
MEASURE = "theory.sampled.information_curve"


@dataclass(frozen=True)
class Facts:
    """The properties that the statements of a name have in every case."""

    kind: str  # of each of its statements
    origin: Origin
    assumption: str


FACTS: dict[str, Facts] = {}


def statement(name: str, kind: str, origin: Origin, assumption: str) -> Callable[[Maker], Maker]:
    """Register a name with the common properties of its statements."""
    FACTS[name] = Facts(kind, origin, assumption)
    return STATEMENTS.register(name)


def catalogue() -> dict[str, dict[str, str]]:
    """Each name with its kind, assumption, origin and description."""
    return {name: asdict(FACTS[name]) | {"about": about} for name, about in STATEMENTS.about().items()}


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
    def ngram(self) -> tuple[int, int]:
        """(n, |V|) of an n-gram."""
        if not isinstance(self.language, NGram):
            raise UnmaskError(f"the language is {self.language.kind}; expected an n-gram for this statement")
        return self.language.order, self.language.vocabulary

    def eps(self, eps: float | None) -> float:
        """The eps of theorem 4.2. (default: the first step of its schedule with N steps)"""
        return eps or float(deltas(f"theorem-4.2(order={self.ngram[0]})", len(self.delta))[0])

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


@statement("lemma-a1", "upper", "reconstructed", "tokens drawn in one step")
def lemma_a1(case: Case, tokens: int = 0) -> list[Statement]:
    """Drawing k tokens independently costs KL <= (k-1) log|V| + k eps. (default: k = length)"""
    return [fluency.lemma_a1(case.language.vocabulary, tokens or case.length, case.learning)]


@statement("theorem-4.2", "upper", "paper", "n-grams; some schedule of O((n-1)/eps^n) steps; L > O((n-1)/eps^(n+1/2))")
def theorem_4_2(case: Case, eps: float | None = None) -> list[Statement]:
    """n-grams: log TER(p) <= log TER(q) + eps_learning + 4 eps log|V|, as in the paper."""
    return [fluency.theorem_4_2(*case.ngram, case.length, case.eps(eps), case.learning)]


@statement("theorem-4.2-explicit", "upper", "ours", "n-grams; schedule theorem-4.2")
def explicit(case: Case, eps: float | None = None) -> list[Statement]:
    """Theorem 4.2 without unknown constants, for every length."""
    return [fluency.explicit(*case.ngram, case.length, case.eps(eps), case.learning)]


@statement("theorem-4.2-proportional", "upper", "ours", "n-grams; schedule theorem-4.2-proportional")
def proportional(case: Case, eps: float | None = None) -> list[Statement]:
    """Theorem 4.2 in far fewer steps, delta_k in proportion to p_k^(n-1)."""
    return [fluency.proportional(*case.ngram, case.length, case.eps(eps), case.learning)]


@statement("universal", "upper", "ours", "any language, length and schedule")
def universal(case: Case) -> list[Statement]:
    """KL(q || p) <= max_k delta_k (TC + DTC) + L eps, for any language."""
    between = fluency.interaction(case.language, case.length).value
    return [fluency.universal(case.language.vocabulary, case.length, case.delta, between, case.learning)]


@statement("geometric", "upper", "ours", "any language of these TC and DTC; a geometric schedule; ideal denoiser")
def geometric(case: Case, rising: bool = False) -> list[Statement]:
    """The bound of the geometric schedules from TC and DTC alone, with N steps."""
    known = curve(case.language, case.length)
    ends = known.total_correlation, known.dual_total_correlation
    return [optimal.geometric(*ends, len(case.delta), rising)[1]]


@statement("mean-over-orders", "upper", "ours", f"{INDEPENDENT}; ideal denoiser")
def mean_over_orders(case: Case) -> list[Statement]:
    """E KL(q || p_order) as the area between the curve and its steps, or an upper bound on it."""
    how = f"{INDEPENDENT}; ideal denoiser"
    if (known := exact_curve(case.language, case.length)) is not None:
        value = known.divergence(case.delta).value
        return [Statement(value, "upper", "divergence", how, "ours", "theory.md 7.2")]
    if not isinstance(case.language, NGram):
        problem = f"the curve of {case.language.kind} at length {case.length} is not known exactly"
        raise UnmaskError(f"{problem}; expected a closed form, a tiny language or an n-gram. Measure it: {MEASURE}.")
    bounds = certified(case.language, case.length).divergence(case.delta)
    return [Statement(bounds.high, "upper", "divergence", f"{how}; {bounds.method}", "ours", "theory.md 7.7")]


@statement("excess-bound", "upper", "ours", f"n-grams; {INDEPENDENT}")
def excess_bound(case: Case) -> list[Statement]:
    """At most sum_k L delta_k min(1, (n-1) delta_k / p_k^(n-1)) positions depend on another one of their step."""
    return [separators.excess_bound(case.ngram[0], case.length, case.delta)]


@statement("lemma-b8", "upper", "reconstructed", "n-grams; one order")
def lemma_b8(case: Case, seed: int = 0) -> list[Statement]:
    """KL(q || p_order) <= log|V| sum_k (|M_k| - dep_n) + L eps of one order, drawn from the schedule."""
    hidden = torch.ones((1, case.length), dtype=torch.bool)
    order = orders.independent(case.delta, hidden, Randomness(seed, torch.arange(1)))[0]
    return [separators.lemma_b8(*case.ngram, order, case.learning)]


@statement("lemma-b9", "upper", "reconstructed", f"n-grams; {INDEPENDENT}")
def lemma_b9(case: Case) -> list[Statement]:
    """KL(q || p) <= log|V| sum_k E[|M_k| - dep_n] + L eps, with the exact expectation."""
    return [separators.lemma_b9(*case.ngram, case.length, case.delta, case.learning)]


@statement("lemma-b10", "upper", "reconstructed", f"n-grams; {INDEPENDENT}")
def lemma_b10(case: Case) -> list[Statement]:
    """Probability of few separators, and of many new positions (Chernoff)."""
    return list(separators.lemma_b10(case.ngram[0], case.length, *case.widest))


@statement("lemma-b11", "upper", "reconstructed", "n-grams; L delta > 1; a step of its proof is heuristic")
def lemma_b11(case: Case) -> list[Statement]:
    """E[|M_k| - dep_n] <= (9 + 24 (n-1) L delta^2) / p^(n-1) where L delta > 1."""
    return [separators.lemma_b11(case.ngram[0], case.length, *case.widest)]


@statement("all-distinct", "exact", "ours", INDEPENDENT)
def all_distinct(case: Case) -> list[Statement]:
    """P(no two positions share a step), exactly."""
    return [correctness.all_distinct(case.length, case.delta)]


@statement("lemma-c1", "upper", "reconstructed", INDEPENDENT)
def lemma_c1(case: Case) -> list[Statement]:
    """P(two positions share a step) <= C(L,2) sum_k delta_k^2."""
    return [correctness.lemma_c1(case.length, case.delta)]


@statement("lemma-c2", "lower", "reconstructed", "any language; no two positions in one step")
def lemma_c2(case: Case) -> list[Statement]:
    """With one position per step P(valid) >= exp(-L eps)."""
    return [correctness.lemma_c2(case.length, case.learning)]


@statement("theorem-4.3", "upper", "reconstructed", f"any language; {INDEPENDENT}")
def theorem_4_3(case: Case, ser: float | None = None) -> list[Statement]:
    """SER <= 1 - P(distinct) exp(-L eps); with option `ser` also the steps that keep SER at most `ser`."""
    bound = [correctness.theorem_4_3(case.length, case.delta, case.learning)]
    return bound if ser is None else [*bound, correctness.theorem_4_3_steps(case.length, ser)]


@statement("linear-steps", "upper", "ours", "any language; linear schedule")
def linear_steps(case: Case, ser: float = 0.5) -> list[Statement]:
    """(TC + DTC) / -log(1 - SER) equal steps are enough: linear in the length."""
    between = fluency.interaction(case.language, case.length).value
    return [correctness.linear_steps(case.length, ser, between, case.learning)]


@statement("lemma-c5", "upper", "reconstructed", "any schedule; the proof, by Maclaurin's inequality, is ours")
def lemma_c5(case: Case, width: int = correctness.WIDTH) -> list[Statement]:
    """P(l positions in different steps) <= (1 - 1/N)^(l-1) for every schedule of N steps."""
    return [correctness.lemma_c5(_width(case, width), case.delta)]


@statement("lemma-c6", "lower", "reconstructed", "interval language; any schedule")
def lemma_c6(case: Case, width: int = correctness.WIDTH, coarse: bool = False) -> list[Statement]:
    """The interval language's SER >= 1 - (1 - p_e (1 - (1-1/N)^(l-1)))^(L/l), p_e = 1/2 - eps or coarser."""
    wrong = correctness.error_chance(case.learning, coarse)
    return [correctness.lemma_c6(case.length, len(case.delta), _width(case, width), wrong)]


@statement("theorem-4.4", "lower, exact", "reconstructed", "interval language; any schedule")
def theorem_4_4(case: Case, width: int = correctness.WIDTH, coarse: bool = False, ser: float = 0.5) -> list[Statement]:
    """Up to C L steps the interval language's SER is at least 1/2: the number, and C as L grows."""
    l, wrong = _width(case, width), correctness.error_chance(case.learning, coarse)
    grows = correctness.constant_4_4(l, wrong, ser)
    return [correctness.theorem_4_4(case.length, l, wrong, ser), grows]


@statement("best-order", "exact", "ours", "first-order chains, intervals; ideal denoiser; N steps")
def best_order(case: Case) -> list[Statement]:
    """The least KL(q || p_order) of all orders of N steps, by a shortest path over gaps."""
    value = float(best_orders.of_orders(case.language, case.length, len(case.delta))[-1])
    assumption = f"the best of all orders of {len(case.delta)} steps, ideal denoiser"
    return [Statement(value, "exact", "divergence of one order", assumption, "ours", "theory.md 7.6")]


@statement("best-choice", "lower", "ours", "first-order chains, intervals; ideal denoiser; at most N model calls")
def best_choice(case: Case) -> list[Statement]:
    """Lower bound on E KL(q || p_r), r random numbers, for samplers that choose positions, then draw tokens."""
    value = float(best_orders.of_choices(case.language, case.length, len(case.delta))[-1])
    assumption = (
        f"any choose-then-sample rule of at most {len(case.delta)} model calls per sequence, given its randomness"
    )
    return [Statement(value, "lower", "divergence given the randomness", assumption, "ours", "theory.md 7.6")]


@statement("derandomised", "upper", "ours", "any language; randomness independent of the tokens")
def derandomised_orders(case: Case) -> list[Statement]:
    """Some fixed order of N steps has at most the SER, and some at most the divergence, of random orders on average.

    Orders tau are independent of the tokens, p = E_tau p_tau. SER is linear in p, so min SER(p_tau) <= SER(p). For the
    divergence min KL(q || p_tau) <= E_tau KL(q || p_tau), but KL(q || .) is convex: the mixture may be closer to q than
    each of its orders.
    """
    assumption = f"the best of all orders of {len(case.delta)} steps, ideal denoiser"
    known = exact(case.language, case.length, case.delta)
    bounds = {"divergence of one order": known.expected_plan_divergence_nats, "ser of one order": known.ser}
    where = "the least is at most the mean"
    statements = [Statement(v, "upper", of, assumption, "ours", where) for of, v in bounds.items() if v is not None]
    if not statements:
        problem = f"SER and divergence of random orders of {case.language.kind} are not known exactly"
        raise UnmaskError(f"{problem} at length {case.length}")
    return statements


@statement("block-diffusion", "exact", "ours", "n-grams; blocks from left to right, N random steps in each")
def block_diffusion(case: Case, block_length: int = 4) -> list[Statement]:
    """SER = 1 - u M^k v over the contexts between blocks, and the divergence of the mixture itself."""
    blocks = of_blocks(case.language, block_length, case.delta)
    how = f"blocks of {block_length}, {len(case.delta)} steps in each, ideal denoiser"
    values = {"ser": blocks.ser(case.length), "divergence": blocks.divergence(case.length)}
    return [Statement(value, "exact", of, how, "ours", "theory.md 7.7") for of, value in values.items()]


@statement("speculation", "exact", "ours", "first-order chains; the ideal denoiser drafts and verifies")
def speculation(case: Case, draft_length: int = 8) -> list[Statement]:
    """The expected number of steps of speculative decoding, for any N."""
    value = float(turns(case.language, case.length, draft_length)[-1])
    how = f"drafts of {draft_length}, verified by the exact causal reader"
    return [Statement(value, "exact", "speculative steps", how, "ours", "theory.md 10")]


@statement("uniform-path", "upper", "ours", "tiny languages; uniform noise with the schedule's levels; ideal denoiser")
def uniform_path(case: Case) -> list[Statement]:
    """KL(q || p) of uniform-noise sampling is at most the sum over steps of the TC of the next canvas given this."""
    value = uniform.path_divergence(case.language, case.length, case.levels)
    how = "uniform noise with the schedule's levels, ideal denoiser"
    return [Statement(value, "upper", "divergence of uniform noise", how, "ours", "theory.md 13")]


@statement("uniform-pairs", "exact", "ours", "pairs of equal tokens; a denoiser mixed with eps of the uniform one")
def uniform_pairs(case: Case, vocabulary: int = 2, eps: float = 0.0) -> list[Statement]:
    """P(a pair differs): uniform noise with the schedule's levels, its limit, masks, the best blind remasking."""
    steps, mixed = len(case.delta), f"{vocabulary} symbols, denoiser mixed with {eps:g} of the uniform distribution"
    values = {
        f"uniform noise with the schedule's levels, {mixed}": repair.pair_error(
            vocabulary, [1 - level for level in case.levels], eps
        ),
        f"{steps} steps of rapidly decreasing uniform noise, {vocabulary} symbols": repair.pair_limit(
            vocabulary, steps
        ),
        f"masks, the schedule, {mixed}": repair.masked_pair_error(vocabulary, case.delta, eps),
        f"masks, blind remasking, {vocabulary} symbols": repair.blind_remasking(vocabulary, steps),
    }
    return [Statement(value, "exact", "pair error", how, "ours", "theory.md 13") for how, value in values.items()]


@statement("repair", "upper", "ours", "independent blocks, or tiny; rapidly decreasing uniform noise; ideal denoiser")
def repaired(case: Case) -> list[Statement]:
    """SER of uniform noise <= 1 - (1 - e_1 (1 - c)^(N-1))^(L / l): steps grow with log L, not with L."""
    return [repair.repair(case.language, case.length, len(case.delta))]


@statement("crossover", "exact", "ours", "linear schedule; to first order in the errors of a step, as L grows")
def crossover_prediction(case: Case, ser: float = 0.5) -> list[Statement]:
    """Model calls per token for an SER, (c/lambda)(1 - e^(-lambda/c)), independent of the length."""
    if (errors := exact_error_curve(case.language, case.length)) is None:
        problem = f"c(q) of {case.language.kind} is not known exactly at length {case.length}"
        raise UnmaskError(f"{problem}. Measure it: theory.known.error_curve.")
    constant = errors.constant.value / case.length
    value = crossover.model_calls_per_token(constant, ser)
    assumption = f"linear schedule, SER {ser:g}, c(q) = {constant:.4g}; to first order in the errors, as L grows"
    return [Statement(value, "exact", "model calls / L", assumption, "ours", "theory.md 7.4", proven=False)]


@statement("arrangement", "exact", "ours", f"arrangements; {INDEPENDENT}; ideal denoiser")
def arrangement(case: Case) -> list[Statement]:
    """The SER of a shuffled list: the probability that some step draws a name twice, or the excluded order remains."""
    if not isinstance(case.language, Arrangement):
        raise UnmaskError(f"the language is {case.language.kind}; expected an arrangement for this statement")
    return [ceilings.arrangement(case.language.size, case.language.orders, case.delta)]


def _width(case: Case, width: int) -> int:
    """The width of an interval language; for others the option, as the statement is about the paper's language."""
    return width if case.language.width is None else case.language.width


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
