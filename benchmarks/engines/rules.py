"""Decoders as rules of a few lines, and their exact distributions on a tiny language, by enumeration.

A rule maps a view of one canvas to (probability, {position: token}) pairs. `written` follows all canvases, draws and
choices. It is slow, short, and shares no code with the samplers of this package.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, count, product
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.engines.networks import Network

Change = dict[int, int]  # position -> token


class View(NamedTuple):
    step: int  # from 0, within a block
    hidden: list[int]  # positions of the block
    drawn: Change  # a token for each of them
    p: np.ndarray  # (L, V)
    memory: Any  # of the rule

    def of(self, position: int) -> float:
        """The model's probability of the drawn token."""
        return float(self.p[position, self.drawn[position]])

    def top(self, position: int) -> float:
        return float(self.p[position].max())

    def entropy(self, position: int) -> float:
        p = self.p[position][self.p[position] > 0]
        return float(-(p * np.log(p)).sum())

    def reveal(self, positions: Sequence[int]) -> Change:
        return {i: self.drawn[i] for i in positions}


Rule = Callable[[View], Iterator[tuple[float, Change]]]
Score = Callable[[View, int], float]


def written(
    network: Network,
    length: int,
    rule: Rule,
    greedy: Callable[[int], bool] | bool = False,
    block: int = 0,
    steps: int | None = None,
) -> Tensor:
    """The probability (V^L) of every sequence, in lexicographic order.

    greedy: whether the candidate at a position is the most likely token, not a draw. block: blocks are filled from left
    to right. steps: of a rule that also changes complete canvases; otherwise it ends with the last hidden position. A
    rule with a memory yields it with its change: (probability, change, memory).
    """
    vocabulary, mask = network.vocabulary, network.vocabulary
    states: dict[tuple[tuple[int, ...], Any], float] = {((mask,) * length, None): 1.0}
    for first in range(0, length, block or length):
        inside = range(first, min(first + (block or length), length))
        states = {(canvas, None): mass for canvas, mass in _merged(states).items()}
        for step in count() if steps is None else range(steps):
            if steps is None and all(canvas[i] != mask for canvas, _ in states for i in inside):
                break
            following: dict[tuple[tuple[int, ...], Any], float] = defaultdict(float)
            for (canvas, memory), mass in states.items():
                hidden = [i for i in inside if canvas[i] == mask]
                if not hidden and steps is None:
                    following[canvas, memory] += mass
                    continue
                p = network.answers(torch.tensor([canvas]), None)[0].numpy()
                for weight, drawn in _draws(p, hidden, greedy):
                    for chance, change, *kept in rule(View(step, hidden, drawn, p, memory)):
                        after = tuple(change.get(i, token) for i, token in enumerate(canvas))
                        following[after, kept[0] if kept else None] += mass * weight * chance
            states = following
    return _vector(_merged(states), vocabulary, length)


Kernel = Callable[[int, np.ndarray, np.ndarray], np.ndarray]


def renoised(network: Network, length: int, steps: int, kernel: Kernel, level: bool) -> Tensor:
    """The same for uniform noise, if a step draws each position independently given the canvas.

    kernel(step, canvas (L), p (L, V)) has the distributions (L, V) of the tokens after the step.
    """
    vocabulary = network.vocabulary
    canvases = torch.cartesian_prod(*[torch.arange(vocabulary)] * length)
    mass = torch.full((len(canvases),), 1 / len(canvases), dtype=torch.float64)
    for step in range(steps):
        answers = network.answers(canvases, step / steps if level else None).numpy()
        moves = np.stack([kernel(step, c, p) for c, p in zip(canvases.numpy(), answers, strict=True)])
        after = torch.from_numpy(moves)[:, torch.arange(length), canvases]  # (from, to, L)
        mass = mass @ after.prod(-1)
    return mass


def _draws(p: np.ndarray, hidden: list[int], greedy: Callable[[int], bool] | bool) -> Iterator[tuple[float, Change]]:
    options = []
    for i in hidden:
        best = int(p[i].argmax())
        fixed = greedy(i) if callable(greedy) else greedy
        options.append([(best, 1.0)] if fixed else [(v, float(q)) for v, q in enumerate(p[i]) if q > 0])
    for draw in product(*options):
        yield math.prod(q for _, q in draw), {i: v for i, (v, _) in zip(hidden, draw, strict=True)}


def _merged(states: dict[tuple[tuple[int, ...], Any], float]) -> dict[tuple[int, ...], float]:
    merged: dict[tuple[int, ...], float] = defaultdict(float)
    for (canvas, _), mass in states.items():
        merged[canvas] += mass
    return merged


def _vector(mass: dict[tuple[int, ...], float], vocabulary: int, length: int) -> Tensor:
    vector = torch.zeros(vocabulary**length, dtype=torch.float64)
    for canvas, p in mass.items():
        vector[sum(v * vocabulary**k for k, v in enumerate(reversed(canvas)))] += p
    return vector


# scores of positions, of which a rule reveals those with the largest


def drawn(view: View, i: int) -> float:
    """The probability of the drawn token: LLaDA, SDAR, LLaDA2, Fast-dLLM."""
    return view.of(i)


def likeliest(view: View, i: int) -> float:
    """The probability of the most likely token, whatever was drawn."""
    return view.top(i)


def certain(view: View, i: int) -> float:
    return -view.entropy(i)


def plausible(view: View, i: int) -> float:
    """SGLang: at most 1 / relative probability of the draw, and at most the largest probability."""
    return min(view.top(i), view.of(i) / view.top(i))


# rules


def best(counts: Sequence[int], score: Score = drawn) -> Rule:
    """In step k, the counts[k] positions with the largest scores."""

    def rule(view: View) -> Iterator[tuple[float, Change]]:
        ranked = sorted(view.hidden, key=lambda i: -score(view, i))
        yield 1.0, view.reveal(ranked[: counts[view.step]])

    return rule


def above(threshold: float, counts: Sequence[int] | None = None, score: Score = drawn, slack: float = 0) -> Rule:
    """All positions above the threshold; the counts[k] best (default: one) if they are fewer.

    slack: and those that are as good as the best up to this difference.
    """

    def rule(view: View) -> Iterator[tuple[float, Change]]:
        ranked = sorted(view.hidden, key=lambda i: -score(view, i))
        enough = min(threshold, score(view, ranked[0]) - slack) if slack else threshold
        sure = [i for i in ranked if score(view, i) > enough]
        least = 1 if counts is None else counts[view.step]
        yield 1.0, view.reveal(sure if len(sure) >= least else ranked[:least])

    return rule


def anywhere(counts: Sequence[int]) -> Rule:
    """In step k, counts[k] positions at random."""

    def rule(view: View) -> Iterator[tuple[float, Change]]:
        sets = list(combinations(view.hidden, min(counts[view.step], len(view.hidden))))
        for chosen in sets:
            yield 1 / len(sets), view.reveal(chosen)

    return rule


def each(rates: Sequence[float], last: str = "draw") -> Rule:
    """In step k, each position independently with probability rates[k]; last="argmax": tokens of the last step."""

    def rule(view: View) -> Iterator[tuple[float, Change]]:
        rate = rates[view.step]
        if last == "argmax" and view.step == len(rates) - 1:
            yield 1.0, {i: int(view.p[i].argmax()) for i in view.hidden}
            return
        for flags in product([False, True], repeat=len(view.hidden)):
            chosen = [i for i, flag in zip(view.hidden, flags, strict=True) if flag]
            chance = rate ** len(chosen) * (1 - rate) ** (len(view.hidden) - len(chosen))
            if chance:
                yield chance, view.reveal(chosen)

    return rule
