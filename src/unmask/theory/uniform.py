"""Uniform noise: ancestral sampling exactly, on tiny languages and on pairs (theory.md 13).

At level a a position shows its token with probability a, else one of V symbols: E_a = a I + (1 - a)/V. The levels rise,
0 = a_0 < .. < a_N = 1. From t to s > t every position is drawn again, independently of the others, from

    mu_i(v | x_t) = q(X_s^i = v | x_t)  prop.  E_{t/s}(v, x_t^i) (s r_i(v) + (1 - s)/V)
    r_i(v) = q(X^i = v | x_t^{-i})

so KL(q || p) <= path KL = sum over steps of the total correlation of X_s given x_t. An imperfect denoiser mixes every
r_i with eps of the uniform distribution.

Steps and length: let d_k = 1 - a_k be the noise after step k, and d_{k+1} / d_k -> 0. Given x, the posterior tends to
q on the possible sequences that differ from x in the fewest positions, pi_x. A possible x stays. An impossible one is
drawn again from the product of the marginals of pi_x, and by data processing on the event that a sequence of pi_x
results,

    P(repair | x) >= exp(-KL(pi_x || product of its marginals)) = exp(-TC(pi_x))

Let c > 0 be the least of these values over a block of l positions, e_1 the probability that the first step leaves it
impossible. For independent blocks P(a block is impossible) <= e_1 (1 - c)^(N-1): N grows with log(L / SER), not with L.
A small fixed ratio of noise is enough: a possible block becomes impossible with probability O(d_k), an impossible one
is repaired with probability c - O(ratio).

Two tokens that are always equal, uniform over V symbols: pi_x gives each of x_1 and x_2 probability 1/2, so exactly one
changes with probability 1/2. Under masks a pair is impossible if both positions are in one step:

    uniform noise -> (1 - 1/V) 2^-(N-1)          masks: (1 - 1/V) / N, linear schedule
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.denoisers.contracts import reverse
from unmask.languages import Language, LanguageLike, load
from unmask.metrics.exact import sequences
from unmask.theory.statements import Statement, checked


def checked_levels(levels: Sequence[float] | Tensor) -> list[float]:
    """The levels a_0..a_N, which rise from 0 to 1."""
    a = [float(level) for level in levels]
    if len(a) < 2 or a[0] != 0 or a[-1] != 1 or any(t >= s for t, s in pairwise(a)):
        arguments.refuse("levels", a, "numbers that rise from 0 to 1")
    return a


def noise(level: float, vocabulary: int) -> Tensor:
    """(V, V) E_a."""
    return level * torch.eye(vocabulary, dtype=torch.float64) + (1 - level) / vocabulary


def leave_one_out(q: Tensor, level: float, eps: float = 0.0) -> Tensor:
    """(V^L, L, V) r_i(v) of every noisy sequence, from q with one axis of V per position."""
    length, vocabulary = q.dim(), q.shape[0]
    channel, rows = noise(level, vocabulary), []
    for i in range(length):
        joint = q
        for j in range(length):
            if j != i:
                joint = torch.tensordot(joint, channel, ([j], [0])).movedim(-1, j)
        weights = joint.movedim(i, -1).unsqueeze(i).expand(*q.shape, vocabulary).reshape(-1, vocabulary)
        rows.append(weights / weights.sum(1, keepdim=True))
    return (1 - eps) * torch.stack(rows, 1) + eps / vocabulary


def redraws(q: Tensor, t: float, s: float, eps: float = 0.0) -> Tensor:
    """(V^L, L, V) mu_i(v | x_t): the distribution of every position of the next canvas, given the whole one."""
    alone, every = leave_one_out(q, t, eps), sequences(q.shape[0], q.dim())
    return reverse(alone.flatten(0, 1), every.flatten(), t, s).view_as(alone)


def moved(p: Tensor, mu: Tensor) -> Tensor:
    """(V^L) the distribution after one step: sum_x p(x) prod_i mu_i(. | x), as a product of two halves."""
    left, right = p.unsqueeze(1), torch.ones((len(p), 1), dtype=p.dtype)
    for i in range(mu.shape[1]):
        if i < mu.shape[1] // 2:
            left = (left.unsqueeze(2) * mu[:, i].unsqueeze(1)).flatten(1)
        else:
            right = (right.unsqueeze(2) * mu[:, i].unsqueeze(1)).flatten(1)
    return (left.T @ right).flatten()


def enumerated(language: LanguageLike, length: int) -> Tensor:
    """q of every sequence, with one axis of V per position."""
    language = load(language)
    language.check_length(length)
    every = sequences(language.vocabulary, length)
    return language.log_prob(every).exp().view((language.vocabulary,) * length)


def uniform_output(
    language: LanguageLike, length: int, levels: Sequence[float] | Tensor, *, eps: float = 0.0
) -> Tensor:
    """p(x) of uniform-noise ancestral sampling for every x of `sequences`, float64 (V^L)."""
    q = enumerated(language, length)
    p = torch.full((q.numel(),), 1 / q.numel(), dtype=torch.float64)
    for t, s in pairwise(checked_levels(levels)):
        p = moved(p, redraws(q, t, s, arguments.share("eps", eps)))
    return p


def path_divergence(language: LanguageLike, length: int, levels: Sequence[float] | Tensor) -> float:
    """Path KL in nats, an upper bound on KL(q || p): sum_k U(s, t) - H(X_s | X_t), by the two-time curve.

    U(s, t) = sum_i H(X_s^i | X_t); the other terms sum to H(q) - L log V + sum_k L H(a row of E_{t/s}).
    """
    q, steps = enumerated(language, length), list(pairwise(checked_levels(levels)))
    vocabulary = q.shape[0]
    channels = sum(float(_entropy(noise(t / s, vocabulary)[0])) for t, s in steps)
    path = float(_entropy(q.flatten())) + length * (channels - math.log(vocabulary))
    upper = 0.0
    for t, s in steps:
        noisy = q
        for _ in range(length):
            noisy = torch.tensordot(noisy, noise(t, vocabulary), ([0], [0]))
        upper += float(noisy.flatten() @ _entropy(redraws(q, t, s)).sum(1))
    return upper - path


def _entropy(p: Tensor) -> Tensor:
    """Nats, over the last axis."""
    return torch.special.entr(p).sum(-1)


def pair_error(vocabulary: int, noise: Sequence[float], eps: float = 0.0) -> float:
    """P(two tokens that are always equal differ) after uniform-noise sampling with noise 1 = d_0 > .. > d_N = 0.

    Given x_t = (u, v), position 1 is drawn from E_{t/s}(., u) E_{(1-eps) t s}(., v), normalized.
    """
    error = 1 - 1 / vocabulary
    for d, less in pairwise(noise):
        own = (d - less) / (1 - less) / vocabulary  # of each other symbol
        mate = (d + less - d * less + eps * (1 - d) * (1 - less)) / vocabulary
        first, second = (1 - (vocabulary - 1) * own) * mate, own * (1 - (vocabulary - 1) * mate)  # of the two symbols
        third = own * mate
        total = first + second + (vocabulary - 2) * third
        repaired = 2 * (first / total) * (second / total) + (vocabulary - 2) * (third / total) ** 2
        left = (vocabulary - 1) * third  # from a pair that agrees
        left /= left + (1 - (vocabulary - 1) * own) * (1 - (vocabulary - 1) * mate)
        spoilt = 2 * left - left**2 * vocabulary / (vocabulary - 1)
        error = error * (1 - repaired) + (1 - error) * spoilt
    return error


@checked
def pair_limit(vocabulary: int, steps: int) -> float:
    """(1 - 1/V) 2^-(N-1): the limit of `pair_error` for rapidly decreasing noise."""
    return (1 - 1 / vocabulary) * 0.5 ** (steps - 1)


def masked_pair_error(vocabulary: int, delta: Tensor, eps: float = 0.0) -> float:
    """(1 - 1/V) (same + eps (1 - same)), same = sum delta_k^2: (1 - 1/V) / N for equal steps and eps = 0."""
    same = float(delta.square().sum())
    return (1 - 1 / vocabulary) * (same + eps * (1 - same))


def blind_remasking(vocabulary: int, steps: int) -> float:
    """The pair error if each step masks every token again with probability r, whatever the token, the best r each time.

    With c = 1 - 1/V: e' = min_r e (1-r)^2 + r^2 c = e c / (e + c) at r = e / (e + c), so 1/e grows by 1/c in a step.
    From e_1 = c this is (1 - 1/V) / N, exactly the rate of masks: it does not know the suspect tokens.
    """
    error = worst = 1 - 1 / vocabulary
    for _ in range(steps - 1):
        error = error * worst / (error + worst)
    return error


def nearest(q: Tensor) -> tuple[Tensor, Tensor]:
    """(V^L, L, V) the marginals of pi_x for every x, and TC(pi_x) in nats, from q with one axis of V per position."""
    every = sequences(q.shape[0], q.dim())
    possible = q.flatten() > 0
    strings, mass = every[possible], q.flatten()[possible]
    marginals, correlation = [], []
    for some in every.split(max(2**22 // len(strings), 1)):
        apart = (some.unsqueeze(1) != strings).sum(2)  # (x, y)
        pi = torch.where(apart == apart.min(1, keepdim=True).values, mass, 0.0)
        pi /= pi.sum(1, keepdim=True)
        mu = torch.einsum("xy,yiv->xiv", pi, torch.nn.functional.one_hot(strings, q.shape[0]).double())
        marginals.append(mu)
        correlation.append(torch.special.entr(mu).sum((1, 2)) - torch.special.entr(pi).sum(1))
    return torch.cat(marginals), torch.cat(correlation)


def limiting_output(language: LanguageLike, length: int, steps: int) -> Tensor:
    """(V^L) the limit of `uniform_output` for N steps as d_1 and every d_{k+1} / d_k tend to 0."""
    q = enumerated(language, length)
    p, mu = moved(q.flatten() * 0 + 1 / q.numel(), redraws(q, 0, 1)), nearest(q)[0]
    for _ in range(arguments.steps(steps) - 1):
        p = moved(p, mu)
    return p


def valid_block(language: LanguageLike, length: int, steps: int) -> float:
    """1 - e_1 (1 - c)^(N-1): a lower bound on the limit of P(valid) of a block. c: the least exp(-TC(pi_x))."""
    q, first = enumerated(language, length), limiting_output(language, length, 1)
    repaired = float(torch.exp(-nearest(q)[1].max()))
    return 1 - float(first[q.flatten() == 0].sum()) * (1 - repaired) ** (steps - 1)


@checked
def repair(language: Language, length: int, steps: int) -> Statement:
    """SER <= 1 - prod over independent blocks of (1 - e_1 (1 - c)^(N-1)); intervals, or the sequence as one block."""
    width = min(language.width or length, length)
    blocks, rest = divmod(length, width)
    valid = valid_block(language, width, steps) ** blocks * (valid_block(language, rest, steps) if rest else 1.0)
    how = f"{blocks} independent blocks of {width}, {steps} steps of rapidly decreasing noise, ideal denoiser"
    return Statement(1 - valid, "upper", "ser of uniform noise", how, "ours", "theory.md 13")
