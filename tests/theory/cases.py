"""300 random languages with a random schedule each, and the truth about them by enumeration."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from unmask.languages import Interval, Language, random_hmm, random_ngram
from unmask.samplers.schedules import deltas
from unmask.theory.partitions import Partitions, partitions

COUNT = 300
LENGTH = 4
KINDS = ("2-gram", "3-gram", "hmm", "interval")


@dataclass(frozen=True, eq=False)
class Case:
    kind: str
    language: Language
    delta: torch.Tensor
    every: Partitions

    @property
    def n(self) -> int:
        """The order of an n-gram, 0 of what is none."""
        return {"2-gram": 2, "3-gram": 3}.get(self.kind, 0)

    def cost(self, order: torch.Tensor) -> float:
        """KL(q || p_order) = sum_j H(X_j | X of earlier steps) - H, by the sums over all sequences."""
        paid = 0.0
        for j, mine in enumerate(order.tolist()):
            earlier = sum(1 << i for i, other in enumerate(order.tolist()) if other < mine)
            paid += float(self.every.q @ np.log(self.every.shown[earlier] / self.every.shown[earlier | 1 << j]))
        return paid + float(self.every.q @ np.log(self.every.q))


def schedule(generator: np.random.Generator) -> torch.Tensor:
    """1 to 8 steps, flat or peaked, some of them empty."""
    shares = generator.dirichlet(np.full(generator.integers(1, 9), generator.choice([0.2, 1.0, 10.0])))
    shares[shares < 1e-3] = 0.0
    return deltas((shares / shares.sum()).tolist())


def language(kind: str, seed: int, generator: np.random.Generator) -> Language:
    vocabulary, threshold = int(generator.integers(2, 4)), float(generator.choice([0.0, 0.15, 0.3]))
    temperature = float(generator.uniform(0.5, 3))
    if kind == "interval":
        return Interval(int(generator.integers(2, 4)))
    if kind == "hmm":
        return random_hmm(3, vocabulary, temperature, threshold, seed=seed)
    return random_ngram(int(kind[0]), vocabulary, temperature, threshold, seed=seed)


@cache
def cases() -> list[Case]:
    made = []
    for seed in range(COUNT):
        generator = np.random.default_rng(seed)
        kind = KINDS[seed % len(KINDS)]
        q = language(kind, seed, generator)
        made.append(Case(kind, q, schedule(generator), partitions(q, LENGTH)))
    return made
