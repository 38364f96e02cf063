"""Whether correctness needs steps in proportion to the length: masks against uniform noise (theory.md 13).

Let d_k = 1 - a_k be the noise after step k, and d_{k+1} / d_k -> 0. Given x, the posterior tends to q on the possible
sequences that differ from x in the fewest positions, pi_x. A possible x stays. An impossible one is drawn again from
the product of the marginals of pi_x, and by data processing on the event that a sequence of pi_x results,

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
from unmask.languages import Language, LanguageLike
from unmask.metrics.enumeration import sequences
from unmask.theory.statements import Statement, checked
from unmask.theory.uniform import enumerated, moved, redraws


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


def half_length(pair: float) -> float:
    """The length at which half of the sequences of independent pairs are impossible."""
    return -2 * math.log(2) / math.log1p(-pair)


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


def repair_rate(language: LanguageLike, length: int) -> float:
    """The least exp(-TC(pi_x)): a lower bound on the probability that a step repairs an impossible sequence."""
    return float(torch.exp(-nearest(enumerated(language, length))[1].max()))


def limiting_output(language: LanguageLike, length: int, steps: int) -> Tensor:
    """(V^L) the limit of `uniform_output` for N steps as d_1 and every d_{k+1} / d_k tend to 0."""
    q = enumerated(language, length)
    p, mu = moved(q.flatten() * 0 + 1 / q.numel(), redraws(q, 0, 1)), nearest(q)[0]
    for _ in range(arguments.steps(steps) - 1):
        p = moved(p, mu)
    return p


def valid_block(language: LanguageLike, length: int, steps: int) -> float:
    """1 - e_1 (1 - c)^(N-1): a lower bound on the limit of P(valid) of a block."""
    first = limiting_output(language, length, 1)[enumerated(language, length).flatten() == 0]
    return 1 - float(first.sum()) * (1 - repair_rate(language, length)) ** (steps - 1)


@checked
def repair(language: Language, length: int, steps: int) -> Statement:
    """SER <= 1 - prod over independent blocks of (1 - e_1 (1 - c)^(N-1)); intervals, or the sequence as one block."""
    width = min(language.width or length, length)
    blocks, rest = divmod(length, width)
    valid = valid_block(language, width, steps) ** blocks * (valid_block(language, rest, steps) if rest else 1.0)
    how = f"{blocks} independent blocks of {width}, {steps} steps of rapidly decreasing noise, ideal denoiser"
    return Statement(1 - valid, "upper", "ser of uniform noise", how, "ours", "theory.md 13")
