"""Uniform noise: ancestral sampling exactly, on tiny languages (theory.md 13).

At level a a position shows its token with probability a, else one of V symbols: E_a = a I + (1 - a)/V. The levels rise,
0 = a_0 < .. < a_N = 1. From t to s > t every position is drawn again, independently of the others, from

    mu_i(v | x_t) = q(X_s^i = v | x_t)  prop.  E_{t/s}(v, x_t^i) (s r_i(v) + (1 - s)/V)
    r_i(v) = q(X^i = v | x_t^{-i})

so KL(q || p) <= path KL = sum over steps of the total correlation of X_s given x_t. An imperfect denoiser mixes every
r_i with eps of the uniform distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.denoisers.contracts import reverse
from unmask.languages import LanguageLike, load
from unmask.metrics.exact import sequences


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
