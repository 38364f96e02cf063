"""The toys of the tests: a chain of three symbols, and an inconsistent denoiser whose tables are seeded by context."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import combinations, product

import numpy as np
import torch
from torch import Tensor

from unmask.denoisers import Denoiser
from unmask.diagnosis.gap.estimators import Subsets
from unmask.diagnosis.gap.path import NEVER, Path
from unmask.samplers.session import Taken

ROWS = np.array([[0.70, 0.25, 0.05], [0.10, 0.60, 0.30], [0.35, 0.05, 0.60]])
V = 3
Rule = Callable[[np.ndarray, list[int]], list[int]]  # marginals and hidden positions to the positions of a step


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


def chained(toy: Toy, context: tuple[int, ...], tokens: tuple[int, ...], order: tuple[int, ...]) -> float:
    """log c of the tokens at these positions, one after another."""
    now, total = list(context), 0.0
    for position in order:
        total += float(np.log(table(toy.length, toy.noise, tuple(now))[position][tokens[position]]))
        now[position] = tokens[position]
    return total


def fixed(*steps: list[int]) -> Rule:
    """A rule that reveals these positions, step by step."""
    return lambda marginals, hidden: next(step for step in steps if step[0] in hidden)


def surest(count: int) -> Rule:
    """The `count` positions with the lowest entropy."""

    def rule(marginals: np.ndarray, hidden: list[int]) -> list[int]:
        nats = {i: -(marginals[i] * np.log(marginals[i])).sum() for i in hidden}
        return sorted(sorted(hidden, key=lambda i: round(nats[i], 9))[:count])

    return rule


def confident(threshold: float) -> Rule:
    """All positions with at least this confidence, or the most confident one."""

    def rule(marginals: np.ndarray, hidden: list[int]) -> list[int]:
        sure = [i for i in hidden if marginals[i].max() >= threshold]
        return sure or [max(hidden, key=lambda i: round(marginals[i].max(), 9))]

    return rule


def walked(toy: Toy, rule: Rule) -> tuple[Path, Tensor]:
    """The paths of all texts under a rule, and their probabilities (V^L)."""
    texts = list(product(range(V), repeat=toy.length))
    order = torch.zeros((len(texts), toy.length), dtype=torch.int64)
    probability = torch.zeros((len(texts), toy.length), dtype=torch.float64)
    for row, text in enumerate(texts):
        now, step = [V] * toy.length, 0
        while V in now:
            step += 1
            marginals = table(toy.length, toy.noise, tuple(now))
            for i in rule(marginals, [i for i, token in enumerate(now) if token == V]):
                order[row, i], probability[row, i], now[i] = step, marginals[i][text[i]], text[i]
    path = path_of(torch.tensor(texts), order, probability)
    return path, probability.prod(1)


def path_of(tokens: Tensor, order: Tensor, probability: Tensor) -> Path:
    """The path of an order (B, L) without given tokens."""
    rows, positions = (order > 0).nonzero(as_tuple=True)
    columns = (part[rows, positions] for part in (order, tokens, probability))
    spells = Taken(rows, positions, *columns, torch.full_like(rows, NEVER))
    every = torch.ones(len(rows), dtype=torch.bool)
    return Path.of(torch.full_like(tokens, V), torch.ones_like(tokens, dtype=torch.bool), V, spells, every)


def all_subsets(path: Path) -> Subsets:
    """All proper subsets of the tokens of each step: their sum is the mean over all orders."""
    step, weight, entries, inside = [], [], [], []
    for k, (first, size) in enumerate(zip(path.first.tolist(), path.size.tolist(), strict=True)):
        for a in range(1, size):
            chosen = list(combinations(range(size), a))
            for some in chosen:
                step.append(k)
                weight.append(1 / len(chosen))
                entries.append(range(first, first + size))
                inside.append([i in some for i in range(size)])
    return subsets_of(step, weight, entries, inside, [[False] * len(one) for one in inside])


def prefixes(path: Path) -> Subsets:
    """The chain from left to right of each step."""
    step, entries, inside, following = [], [], [], []
    for k, (first, size) in enumerate(zip(path.first.tolist(), path.size.tolist(), strict=True)):
        for a in range(1, size):
            step.append(k)
            entries.append(range(first, first + size))
            inside.append([i < a for i in range(size)])
            following.append([i == a for i in range(size)])
    return subsets_of(step, [1.0] * len(step), entries, inside, following)


def subsets_of(step, weight, entries, inside, following) -> Subsets:
    sizes = torch.tensor([len(one) for one in inside], dtype=torch.int64)
    return Subsets(
        torch.tensor(step),
        torch.tensor(weight, dtype=torch.float64),
        torch.arange(len(sizes)).repeat_interleave(sizes),
        torch.tensor([entry for part in entries for entry in part]),
        torch.tensor([token for part in inside for token in part]),
        torch.tensor([token for part in following for token in part]),
    )


def summed(path: Path, subsets: Subsets, values: Tensor) -> Tensor:
    """(B): the weighted sum of the values of the subsets (E) of each row."""
    return torch.zeros(len(path.given), dtype=torch.float64).index_add_(
        0, path.row[subsets.step], subsets.weight * values
    )


class Families(Denoiser):
    """Six families of sequences; two of three positions are conserved, most of all in the first family.

    With a power above 1 each prediction is too sure. Conserved positions are then always conserved, which speaks for
    the first family: an order that begins with them collapses to it."""

    vocabulary = 5

    def __init__(self, power: float, length: int = 24) -> None:
        own = torch.randint(1, 5, (6, length), generator=torch.Generator().manual_seed(1))
        own[:, torch.arange(length) % 3 > 0] = 0
        sure = torch.full((6, length), 0.75, dtype=torch.float64)
        sure[0], sure[:, ::3] = 0.97, 0.9
        profile = ((1 - sure) / 4).unsqueeze(2).repeat(1, 1, 5)
        self.profile = profile.scatter(2, own.unsqueeze(2), sure.unsqueeze(2))
        self.power = power

    def posterior(self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        seen = self.profile.log()[:, torch.arange(tokens.shape[1]), tokens.clamp(max=4)]  # families, rows, positions
        families = (seen * (tokens < 5)).sum(2).softmax(0)
        p = torch.einsum("fb,flv->blv", families, self.profile) ** self.power
        p /= p.sum(2, keepdim=True)
        return p if positions is None else p[torch.arange(len(p)).unsqueeze(1), positions.expand(len(p), -1)]


class Bits(Denoiser):
    """The ideal denoiser of a distribution over strings of bits (2^L)."""

    vocabulary = 2

    def __init__(self, q: np.ndarray) -> None:
        self.q = q
        self.texts = torch.tensor(list(product(range(2), repeat=int(np.log2(len(q))))))
        self.known: dict[tuple[int, ...], Tensor] = {}

    def table(self, context: tuple[int, ...]) -> Tensor:
        """(L, 2)."""
        if context not in self.known:
            now = torch.tensor(context)
            weight = torch.from_numpy(self.q) * ((self.texts == now) | (now == 2)).all(1)
            one = (weight.unsqueeze(1) * self.texts).sum(0) / weight.sum()
            self.known[context] = torch.stack([1 - one, one], 1).nan_to_num(0.5)
        return self.known[context]

    def posterior(self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        different, which = tokens.unique(dim=0, return_inverse=True)
        every = torch.stack([self.table(tuple(row)) for row in different.tolist()])[which]
        positions = torch.arange(tokens.shape[1]) if positions is None else positions
        return every[torch.arange(len(tokens)).unsqueeze(1), positions.expand(len(tokens), -1)]


def peaked(mass: float, seed: int = 0, length: int = 8) -> Bits:
    """One string of this mass; the others have random probabilities."""
    rng = np.random.default_rng(seed)
    rest = rng.dirichlet(np.ones(2**length))
    top = rng.integers(2**length)
    rest[top] = 0
    q = rest / rest.sum() * (1 - mass)
    q[top] = mass
    return Bits(q)
