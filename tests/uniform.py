"""Uniform noise by enumeration of V^L sequences: the reference for its denoiser and samplers (theory-2026.md, E)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from unmask.languages import HMM, Language

CHAIN3 = [[0.70, 0.25, 0.05], [0.10, 0.60, 0.30], [0.35, 0.05, 0.60]]
ZERO3 = [[0.7, 0.3, 0.0], [0.0, 0.6, 0.4], [0.5, 0.0, 0.5]]


def chain(rows) -> HMM:
    """The stationary first-order chain."""
    transition = np.array(rows)
    values, vectors = np.linalg.eig(transition.T)
    start = np.real(vectors[:, np.argmax(np.real(values))])
    return HMM(start / start.sum(), transition, np.eye(len(rows)))


def every(vocabulary: int, length: int) -> Tensor:
    return torch.cartesian_prod(*[torch.arange(vocabulary)] * length).view(-1, length)


def noise(level: float, vocabulary: int) -> Tensor:
    """E_a."""
    return level * torch.eye(vocabulary, dtype=torch.float64) + (1 - level) / vocabulary


def posteriors(language: Language, y: Tensor, levels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(r (B, L, V), q_i (B, L, V), log q(y) (B)) of tokens (B, L), V where hidden, at levels (B, L)."""
    symbols, length = language.vocabulary, y.shape[1]
    x = every(symbols, length)
    q = language.log_prob(x).exp()
    alone, full = (torch.zeros((*y.shape, symbols), dtype=torch.float64) for _ in range(2))
    mass = torch.zeros(len(y), dtype=torch.float64)
    for b in range(len(y)):
        seen = torch.ones(x.shape, dtype=torch.float64)
        for j in range(length):
            if y[b, j] < symbols:
                seen[:, j] = noise(float(levels[b, j]), symbols)[x[:, j], y[b, j]]
        mass[b] = (q * seen.prod(1)).sum().log()
        for j in range(length):
            others = q * torch.cat([seen[:, :j], seen[:, j + 1 :]], 1).prod(1)
            alone[b, j].index_add_(0, x[:, j], others)
            full[b, j].index_add_(0, x[:, j], others * seen[:, j])
    return alone / alone.sum(2, keepdim=True), full / full.sum(2, keepdim=True), mass


def reversed_step(alone: Tensor, y: Tensor, before: float, after: float) -> Tensor:
    """(B, L, V): q(z_i | y) as the mixture of q(z_i | y_i, x_i = v) over q(x_i = v | y); b, v: symbols."""
    symbols = alone.shape[2]
    first, last = noise(after, symbols), noise(before / after if after else 0.0, symbols)
    joint = first.unsqueeze(0) * last.T.unsqueeze(1)  # (y, v, b): q(z = b | x = v) q(y | z = b)
    given = joint / joint.sum(2, keepdim=True)
    full = alone * noise(before, symbols)[:, y].permute(1, 2, 0)
    full = full / full.sum(2, keepdim=True)
    return (full.unsqueeze(3) * given[y]).sum(2)


def path(language: Language, length: int, levels: list[float], plug: bool = False) -> tuple[Tensor, float]:
    """(p(x) of every sequence, the KL divergence of the whole path in nats) of the sampler with these levels."""
    symbols = language.vocabulary
    x = every(symbols, length)
    p = torch.full((len(x),), 1 / len(x), dtype=torch.float64)
    true, paid = language.log_prob(x).exp(), 0.0
    for before, after in pairwise(levels):
        alone, full, mass = posteriors(language, x, torch.full(x.shape, before, dtype=torch.float64))
        mu = reversed_step(full if plug else alone, x, before, after)
        kernel = torch.stack([mu[:, j, x[:, j]] for j in range(length)]).prod(0)
        # q(z | y) ~ q_after(z) prod E_(before / after)(z_i, y_i)
        e = noise(after, symbols)
        marginal = true @ torch.stack([e[x[:, j]][:, x[:, j]] for j in range(length)]).prod(0)
        back = noise(before / after, symbols)
        exact = marginal.unsqueeze(0) * torch.stack([back[x[:, j]][:, x[:, j]] for j in range(length)]).prod(0)
        exact = exact / exact.sum(1, keepdim=True)
        terms = torch.where(exact > 0, exact * (exact / kernel).log(), 0.0)
        paid += float(mass.exp() @ terms.sum(1))
        p = p @ kernel
    return p, paid


def divergence(q: Tensor, p: Tensor) -> float:
    possible = q > 0
    return float((q[possible] * (q[possible] / p[possible]).log()).sum())
