"""The registry of the checks of lemmas, and the random cases that they use.

A check is a generator of (truth, Statement), under the paper's name of the lemma; a name that ends in a step of a proof
is about that step. Cases are random laws, languages of three symbols, all of their orders, and schedules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unmask.languages import random_ngram
from unmask.languages.ngram import NGram
from unmask.theory.statements import Statement

Case = tuple[float, Statement]
Check = Callable[[int, np.random.Generator], Iterator[Case]]
CHECKS: dict[str, Check] = {}


def checks(name: str) -> Callable[[Check], Check]:
    def add(check: Check) -> Check:
        CHECKS[name] = check
        return check

    return add


def says(value: float, kind: Any = "upper") -> Statement:
    return Statement(float(value), kind, "", "", "reconstructed", "")


def law(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Random laws over the last axis, some of them very uneven."""
    drawn = random.dirichlet([0.4] * math.prod(shape[-1:]), size=shape[:-1] or None)
    return (drawn + 1e-9) / (drawn + 1e-9).sum(-1, keepdims=True)


def shares(random: np.random.Generator, rounds: int) -> Tensor:
    return torch.from_numpy(random.dirichlet([random.choice([0.3, 1.0, 10.0])] * rounds))


def small(random: np.random.Generator) -> NGram:
    """Three symbols, of which about half may follow each other; n = 2 or 3."""
    order, seed = int(random.integers(2, 4)), int(random.integers(2**31))
    return random_ngram(order, 3, temperature=2.0, threshold=0.15 * int(random.integers(2)), seed=seed)


def divergence(p: np.ndarray, q: np.ndarray) -> float:
    """KL(p || q) in nats."""
    there = p > 0
    return float((p[there] * np.log(p[there] / q[there])).sum())
