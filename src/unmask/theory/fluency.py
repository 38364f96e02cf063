"""Fluency: the number of steps needed does not grow with the length (Theorem 4.2 and stronger bounds; theory.md 4).

Everything bounds KL(q || p) in nats per sequence; `statements.ter_ratio` makes it a bound on TER. The paper uses
separators, and needs an n-gram and O((n-1)/eps^n) steps. The universal bound needs neither:

    E KL(q || p_order) = sum_k int_{p_k}^{p_{k+1}} (h(p_k) - h(u)) du  <=  max_k delta_k (h(0) - h(1)),
    h(0) - h(1) = TC + DTC = sum_i I(X_i; X_-i)  <=  L log|V|,

so 1/eps equal steps are enough for any language at any length.

Joint draws: a step whose tokens are drawn together has no product, and Theorem 4.4 is about products. J is the joint
nearest to the product p of the marginals, among those on A that have them. q has these marginals too, so by Pythagoras
for I-projections (Csiszar 1975)

    KL(q || p) = KL(q || J) + KL(J || p),   KL(J || p) >= -log P(A),   P(A) = sum_(x in A) prod_i p_i(x_i)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, exactly
from unmask.denoisers import Ideal
from unmask.languages import Language, NGram
from unmask.languages.automata import support
from unmask.metrics.exact import MAX_LENGTH, MAX_SEQUENCES, sequences
from unmask.samplers.joint import Joint, log_paths
from unmask.samplers.schedules import Schedule
from unmask.theory import known
from unmask.theory.statements import Statement, checked

UNIFORM = 1e-9  # nats per sequence between log |A| and H(q)


@checked
def theorem_4_2(n: int, vocabulary: int, length: int, eps: float, learning: float = 0.0) -> Statement:
    """Theorem 4.2: log TER(p) <= log TER(q) + eps_learning + 4 eps log|V|, in O((n-1)/eps^n) steps of some schedule.

    As on the poster, for L > O((n-1)/eps^(n+1/2)). The schedule is in an illegible part of our copy; schedule
    "theorem-4.2" is reconstructed from lemma B.12.
    """
    value = length * (learning + 4 * eps * math.log(vocabulary))
    assumption = f"{n}-gram language, some schedule of O((n-1)/eps^n) steps, L > O((n-1)/eps^(n+1/2))"
    return Statement(value, "upper", "divergence", assumption, "paper", "theorem 4.2")


def interaction(language: Language, length: int) -> Estimate:
    """TC + DTC = sum_i I(X_i; X_-i) = h(0) - h(1) in nats if the curve is exact, else the upper bound sum_i H(X_i)."""
    if (curve := known.exact_curve(language, length)) is not None:
        return exactly(length * float(curve.f[0] - curve.f[-1]), f"exact: {curve.method}")
    blank = language.posterior(language.blank(1, length))[0]
    return exactly(-float(torch.xlogy(blank, blank).sum()), "upper bound: sum of H(X_i)")


@checked
def universal(
    vocabulary: int,
    length: int,
    delta: Tensor,
    between: float | None = None,
    learning: float = 0.0,
    fixed: bool = False,
) -> Statement:
    """KL(q || p) <= max_k delta_k (TC + DTC) + L eps, for any language, length and schedule; `between` is TC + DTC.

    (default: L log|V|) With fixed sizes s_k the same sum, over counts, gives (max s_k - 1) / L (TC + DTC).
    """
    largest = (int(Schedule(delta).sizes(length).max()) - 1) / length if fixed else float(delta.max())
    total = length * math.log(vocabulary) if between is None else between
    how = "steps of fixed size" if fixed else "each position draws its step from the schedule"
    assumption = f"any language, {how}"
    return Statement(largest * total + length * learning, "upper", "divergence", assumption, "ours", "theory.md 4")


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
        problem = f"{language.kind} is not uniform on its support: log |A| - H is {spread:.3g} nats"
        raise UnmaskError(f"{problem}; expected 0, as for interval-5")
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
