"""The toys of the tests: a chain of three symbols, and an inconsistent denoiser whose tables are seeded by context."""

from __future__ import annotations

from functools import cache
from itertools import permutations

import numpy as np
import torch
from torch import Tensor

from unmask.denoisers import Denoiser

ROWS = np.array([[0.70, 0.25, 0.05], [0.10, 0.60, 0.30], [0.35, 0.05, 0.60]])
V = 3


@cache
def chain(length: int) -> np.ndarray:
    """q of all strings, as an array of `length` axes."""
    values, vectors = np.linalg.eig(ROWS.T)
    start = np.real(vectors[:, np.argmax(np.real(values))])
    q = start / start.sum()
    for _ in range(length - 1):
        q = q[..., None] * ROWS.reshape((1,) * (q.ndim - 1) + ROWS.shape)
    return q


@cache
def table(length: int, noise: float, context: tuple[int, ...]) -> np.ndarray:
    """(length, V): c(. | context) at hidden positions; noise is added to the logits."""
    code = 0
    for token in context:
        code = code * (V + 1) + token
    rng = np.random.default_rng([1, code])
    q = chain(length)[tuple(slice(None) if token == V else slice(token, token + 1) for token in context)]
    out = np.zeros((length, V))
    for i in range(length):
        if context[i] == V:
            p = q.sum(axis=tuple(j for j in range(length) if j != i))
            logits = np.log(p / p.sum()) + (noise * rng.standard_normal(V) if noise else 0)
            out[i] = np.exp(logits - logits.max())
            out[i] /= out[i].sum()
    return out


class Toy(Denoiser):
    """The ideal denoiser of the chain, or an inconsistent one."""

    vocabulary = V

    def __init__(self, length: int, noise: float = 0.0) -> None:
        self.length, self.noise = length, noise

    def posterior(self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        every = np.stack([table(self.length, self.noise, tuple(row)) for row in tokens.tolist()])
        positions = torch.arange(tokens.shape[1]) if positions is None else positions
        return torch.from_numpy(every)[torch.arange(len(tokens))[:, None], positions.expand(len(tokens), -1)]


def chained(length: int, noise: float, context: tuple[int, ...], tokens: tuple[int, ...], order: tuple[int, ...]) -> float:
    """log c of the tokens at these positions, one after another."""
    now, total = list(context), 0.0
    for position in order:
        total += float(np.log(table(length, noise, tuple(now))[position][tokens[position]]))
        now[position] = tokens[position]
    return total


def orders(positions: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(permutations(positions))
