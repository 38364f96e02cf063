"""Limits of joint draws, which draw the tokens of a step together, by marginals and support (theory.md 14).

A step whose tokens are drawn together has no product, and Theorem 4.4 is about products. J is the joint nearest to the
product p of the marginals, among those on A that have them. q has these marginals too, so by Pythagoras for
I-projections (Csiszar 1975)

    KL(q || p) = KL(q || J) + KL(J || p),   KL(J || p) >= -log P(A),   P(A) = sum_(x in A) prod_i p_i(x_i)

Limits: a draw cannot distinguish languages with equal marginals and support. Take L/2 independent pairs over V
symbols, the second token of each m moves above the first (mod V) with probability 1 - slip, or one of d - 1 other
moves. The marginals are uniform and the support is one, for each of the d^(L/2) choices of m. While both tokens of a
pair are hidden, no model call shows its m. So with m uniform, and whatever the draw is,

    the mean over m of KL(q || p_order)  >=  I(m; pair) (pairs in one step),   I = log d - H(move)
    the mean over m of p(all moves are m)  <=  E d^-(pairs in one step) = (1 - (1 - 1/d) sum_k delta_k^2)^(L/2)

The first is redundancy and capacity (Gallager 1979; Merhav and Feder 1995), the second bounds KL(q || p) by data
processing. For some m the loss is at least the mean.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, exactly
from unmask.denoisers import Ideal
from unmask.languages import Language, NGram
from unmask.languages.automata import support
from unmask.metrics.exact import MAX_LENGTH, MAX_SEQUENCES, sequences
from unmask.samplers.joint import Joint, log_paths
from unmask.theory import known
from unmask.theory.chains import entropy as entropy_of
from unmask.theory.chains import first_order
from unmask.theory.correctness import INDEPENDENT, all_distinct
from unmask.theory.fluency import universal
from unmask.theory.partitions import tiny
from unmask.theory.statements import Statement

WHERE = "theory.md 14"
UNIFORM = 1e-9  # nats per sequence between log |A| and H(q)
CONVERGED = 1000  # sweeps
MOVES, SLIP = 2, 1e-6
PAIRS = ((0, 100, 1), (100, 0, 1), (1, 1, 800))  # weights of two tokens, in 1004


def entropy(language: Language, length: int) -> Estimate:
    """H(q) in nats: exact if a sequence determines its path, or if all sequences can be listed; else estimated."""
    usual = language.entropy(length)
    if usual.exact or length > MAX_LENGTH or language.vocabulary**length > MAX_SEQUENCES:
        return usual
    q = language.log_prob(sequences(language.vocabulary, length)).exp()
    return exactly(float(torch.special.entr(q).sum()), "exact: all sequences")


def joint_step(language: Language, length: int) -> Statement:
    """One fitted step for all positions: KL(q || J) <= KL(q || product) + log P(A), with the ideal denoiser."""
    string, order = language.sample(1, length, seed=0), torch.ones((1, length), dtype=torch.int64)
    cut = Joint(support(language), 0, single=False)  # p / P(A) on A
    apart, inside = (log_paths(Ideal(language), string, order, joint) for joint in (None, cut))
    marginals = language.posterior(language.blank(1, length))
    least = entropy(language, length)
    value = float(torch.special.entr(marginals).sum() + apart - inside) - least.low
    how = "draw='fitted', one step, ideal denoiser"
    if not least.exact:
        how += f", H(q) at the lower end of its {least.level:.0%} interval [{least.low:.4g}, {least.high:.4g}]"
    return Statement(round(value, 12), "upper", "divergence", how, "ours", "docs/joint-draws.md")


def alone(vocabulary: int, length: int, delta: Tensor, between: float) -> Statement:
    """Alone: in every step KL(q_S || J_S) <= KL(q_S || product), so a bound of the product's divergence holds for it.

    J_S is fitted on A_S, the tokens with a completion, and q_S has the marginals: Pythagoras on S. Each update of the
    fitting is a projection onto marginals that q_S has, so this holds after any number of sweeps.
    """
    how = "draw='alone', any schedule, ideal denoiser"
    value = universal(vocabulary, length, delta, between).value
    return Statement(value, "upper", "divergence", how, "ours", "docs/joint-draws.md")


def joint_uniform(language: Language, length: int) -> Statement:
    """One fitted step writes a language exactly that is uniform on its support, as that of Theorem 4.4 is.

    The uniform distribution has the marginals and is already on A, so it is its own projection. The theorem's C L steps
    are needed by draws from products only. A uniform draw from A without a model does the same.
    """
    nats = entropy(language, length)
    if not nats.exact:
        raise UnmaskError(f"the entropy of {language.kind} at length {length} is estimated; expected an exact one")

    spread = abs(support(language).log_count(length) - nats.value)
    if spread > UNIFORM * length:
        raise UnmaskError(
            f"{language.kind} is not uniform on its support: log |A| - H is {spread:.3g} nats",
            "expected 0, as for interval-5",
        )

    how = "draw='fitted', one step, ideal denoiser"
    return Statement(0.0, "exact", "divergence", how, "ours", "docs/joint-draws.md")


def joint_loss() -> Statement:
    """A counterexample: fitted on all hidden positions, then cut to the step's, can be worse than the product.

    The chain 0 -> 0, 1; 1 -> 0, 1, 2 by 1/6, 1/6, 2/3; 2 -> any, with a uniform start and L = 3: its ends are
    independent, and `fitted` makes them dependent when they are drawn first.
    """
    chain = NGram(2, [1 / 3] * 3, [[1 / 2, 1 / 2, 0], [1 / 6, 1 / 6, 2 / 3], [1 / 3] * 3])
    strings = torch.cartesian_prod(*[torch.arange(3)] * 3)
    strings = strings[chain.supports(strings)]

    log = chain.log_prob(strings)
    order = torch.tensor([[1, 2, 1]]).expand(len(strings), -1)
    apart, together = (
        float(log.exp() @ (log - log_paths(Ideal(chain), strings, order, joint)))
        for joint in (None, Joint(support(chain), 100))
    )

    how = "one chain, its ends first; fitted minus product"
    return Statement(together - apart, "exact", "divergence", how, "ours", "docs/joint-draws.md")


def met(delta: Tensor) -> float:
    """P(two positions draw the same step)."""
    return float(delta @ delta)


def _pairs(vocabulary: int, moves: int, slip: float) -> str:
    """The family of languages that the lower bounds are about, in words."""
    arguments.whole("moves", moves, 2, vocabulary)
    arguments.number("slip", slip, 0, 1 - 1 / moves, above=True)
    return f"any draw; pairs, {moves} moves, slip {slip:g}"


def least(vocabulary: int, length: int, delta: Tensor, moves: int = MOVES, slip: float = SLIP) -> Statement:
    """Every joint draw that sees marginals and support loses c L / N on some language of pairs, on average over orders.

    The languages have equal marginals and support, so an unseen pair stays unknown. In one step it is c L, and c is
    log(moves) / 2 for small slips.
    """
    about = _pairs(vocabulary, moves, slip)
    uncertain = -(1 - slip) * math.log1p(-slip) - slip * math.log(slip / (moves - 1))
    value = length // 2 * met(delta) * (math.log(moves) - uncertain)
    return Statement(value, "lower", "divergence", f"{about}, mean over orders", "ours", WHERE)


def written(vocabulary: int, length: int, delta: Tensor, moves: int = MOVES, slip: float = SLIP) -> Statement:
    """The same for the written distribution: KL(q || p) >= kl(a || b), the divergence of the event "no pair slips".

    q gives it a = (1 - slip)^(L/2), and p at most b = (1 - (1 - 1/moves) sum_k delta_k^2)^(L/2). For slips far below
    1/L this is (1 - 1/moves) L / 2N and more, so some languages need steps in proportion to L.
    """
    about = _pairs(vocabulary, moves, slip)
    log_a = length // 2 * math.log1p(-slip)
    log_b = length // 2 * math.log1p(-(1 - 1 / moves) * met(delta))
    value = 0.0
    if log_b < log_a < 0:
        value = math.exp(log_a) * (log_a - log_b)
        value += -math.expm1(log_a) * math.log(math.expm1(log_a) / math.expm1(log_b))
    return Statement(value, "lower", "divergence", about, "ours", WHERE)


def many_steps(language: Language, length: int, delta: Tensor) -> Statement:
    """A draw that keeps the support, and is exact for single tokens, has KL(q || p) <= D^2 (1/q_min - 1) / 2(1-D)^2.

    D is the probability that two positions share a step, about L^2 / 2N, and q_min that of the rarest sequence. Without
    a shared step p is q. So p = (1 - D) q + D r with r on the support, and -log(1 + D t) <= -D t + (D t)^2 / 2(1-D)^2
    for t = r/q - 1, of mean 0. With independent tokens r leaves the support: KL(q || p) >= -log(1 - SER) ~ 1/N.
    """
    if not tiny(language, length):
        raise UnmaskError(
            f"the rarest of {language.vocabulary}^{length} sequences is unknown",
            f"expected at most {MAX_SEQUENCES:,}, and a length up to {MAX_LENGTH}",
        )

    log = language.log_prob(sequences(language.vocabulary, length))
    rarest = float(log[log.isfinite()].exp().min())
    apart = all_distinct(length, delta).value
    value = (1 / apart - 1) ** 2 * (1 / rarest - 1) / 2 if apart > 0 else math.inf

    how = f"draw='fitted' or 'alone', ideal denoiser, {INDEPENDENT}"
    return Statement(value, "upper", "divergence", how, "ours", WHERE)


def mixture(delta: Tensor) -> Statement:
    """A counterexample: the distribution that `fitted` writes in random order can be further from q than the product's.

    Two tokens: 01 and 10 by 100/1004, 22 by 800/1004, 02, 20, 12, 21 by 1/1004. Where it keeps off 00, the fitted joint
    gives more to the rare pairs, and few steps do not dilute that. From 64 equal steps on it is the better one.
    """
    weights = torch.tensor(PAIRS).double() / sum(map(sum, PAIRS))
    start = weights.sum(1)
    chain = NGram(2, start.tolist(), (weights / start[:, None]).tolist())

    strings = sequences(chain.vocabulary, 2)
    strings = strings[chain.supports(strings)]
    q, order = chain.log_prob(strings).exp(), torch.ones_like(strings)
    losses = []
    for joint in (None, Joint(support(chain), CONVERGED)):
        together = log_paths(Ideal(chain), strings, order, joint).exp()
        p = (1 - met(delta)) * q + met(delta) * together
        losses.append(float(q @ (q / p).log()))

    how = "one chain of two tokens, random order; fitted minus product"
    return Statement(losses[1] - losses[0], "exact", "divergence", how, "ours", WHERE)


def forest(language: Language) -> Statement:
    """Chains whose moves have no cycle, such as those of two symbols with a forbidden one: fitted is exact in one step.

    Draw a line from each symbol to those that may follow. Without a cycle some symbol has one line; its marginal is the
    probability of that move. Take both away, and so on: the marginals determine every pair. The fitted joint is a
    chain, on the moves of q and with its marginals, so it has the pairs of q. Given tokens only remove lines.
    """
    chain = first_order(language)
    if chain is None:
        raise UnmaskError(f"{language.kind} is not a first-order chain; expected one for this statement")

    if not acyclic(chain.transition > 0):
        raise UnmaskError(
            "the moves of the chain have a cycle; expected none, as with two symbols and a forbidden move"
        )

    how = "draw='fitted', any order, ideal denoiser"
    return Statement(0.0, "exact", "divergence", how, "ours", WHERE)


def acyclic(moves: NDArray[np.bool_]) -> bool:
    """Whether a table, Bool (S, S), joins its rows and columns without a cycle: lines with a free end go first."""
    left = np.zeros_like(moves)
    while (left != moves).any():
        left = moves
        moves = moves & (moves.sum(1, keepdims=True) > 1) & (moves.sum(0) > 1)
    return not moves.any()


def pairs(language: Language, length: int) -> Statement:
    """Exact pairs of neighbors do not pay: two steps with independent tokens lose at most as much, in two calls.

    Let a step draw pairs (a_j, b_j) from their true joints, independent of each other. It loses sum_j H(a_j, b_j) - H.
    Draw all a_j in one step, then all b_j: sum_j H(a_j) + H(b_j | all a) - H, which is at most that. To learn the
    joints by probing each value of a_j takes V further calls. Windows of k are the same: k calls, and V^(k-1).
    """
    chain = first_order(language)
    if chain is None:
        raise UnmaskError(f"{language.kind} is not a first-order chain; expected one for this statement")
    marginals = chain.marginals(length)
    between = entropy_of(marginals[1:]) - marginals[:-1] @ entropy_of(chain.transition)  # I(X_i; X_(i+1))
    how = "independent tokens, odd positions and then even ones; the value is that of one step with exact pairs"
    return Statement(float(between[1::2].sum()), "upper", "divergence of one order", how, "ours", WHERE)


def given(language: Language, length: int, delta: Tensor) -> Statement:
    """Given, with many particles: independent draws cut to A, for each order. Here A is the language's own support.

    A row is drawn from prod_i p_i look / Z and weighed by Z_new / look in the next step, so along an order all factors
    but prod_i p_i cancel. Large groups write the distribution of rejection, p_order cut to A:
    KL(q || cut) = KL(q || p_order) + log p_order(A). Its mean over orders is at most the product's plus log(1 - SER),
    as the logarithm is concave.
    """
    if language.closed_form is None and not tiny(language, length):
        raise UnmaskError(
            f"the SER of {language.kind} at length {length} takes long to compute",
            f"expected intervals, or at most {MAX_SEQUENCES:,} sequences",
        )
    values = known.exact(language, length, delta)
    assert values.expected_plan_divergence_nats is not None
    assert values.ser is not None
    value = values.expected_plan_divergence_nats + math.log1p(-values.ser) if values.ser < 1 else 0.0

    how = "draw='given' with many particles, constraint=support, ideal denoiser"
    return Statement(value, "upper", "divergence", how, "ours", WHERE)
