"""The interval language as other languages: hidden Markov chains of three sizes, and n-grams (paper, note C.8).

As a hidden Markov chain. The printed states are (a, A), where in the interval and all of its bits: l 2^C(l,2) of them,
5120 at l = 5. Only 2704 can be reached, for rows of A beyond a stay zero; and 544 remain if bits are forgotten once
both of their positions are past, which is `Interval.machine`. All have the law of `Interval`.

As an n-gram. What may follow depends on the last l-1 tokens *and on where they stand*. Tokens do not say where they
stand: after n-1 tokens of zero bits the next is free if an interval begins there, and else it is not. So:
  - over its own tokens it is no n-gram for any n < L, with one transition for all places;
  - with places it is: the next token depends on the l-1 before it and on its place, and no fewer will do;
  - a mark on the first token of each interval is enough to know the place from l-1 tokens, none of them marked
    meaning that an interval begins: an l-gram over 2 |V| tokens, `marked_ngram`; `Interval.as_ngram` marks each place.
A mark is no choice, so the ideal denoiser knows it from the start: curves, SER and KL are those of `Interval`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Literal

import numpy as np
import torch

from unmask.errors import UnmaskError
from unmask.exact.machine import Machine, explore
from unmask.languages import Interval, NGram
from unmask.languages.ngram import check_size

Rows = tuple[tuple[int, ...], ...]  # row a: the bits that position a shares with the positions after it
State = tuple[int, Rows]
WIDEST = 6  # at 7 there are 14 million printed states


def hmm_form(width: int, states: Literal["printed", "reachable", "minimal"] = "printed") -> Machine:
    """Note C.8: the printed states (a, A), those that can be reached, or the fewest."""
    language = Interval(width)
    if states == "minimal":
        return language.machine()
    if width > WIDEST:
        raise UnmaskError(f"width {width} has too many states to write down; up to {WIDEST}, or the minimal form")
    starts = [(2.0 ** -(width - 1), (0, A)) for A in _drawn(width, (), 0)]
    if states == "printed":
        starts += [(0.0, (a, A)) for A in _all(width) for a in range(width)]

    def successors(state: State) -> Iterator[tuple[float, State]]:
        a, A = state
        following = (a + 1) % width
        weight = 2.0 ** -(width - 1 - following)
        return ((weight, (following, B)) for B in _drawn(width, A[:following], following))

    def symbol(state: State) -> int:
        """Component b-1 of the token is shared with the b-th position after the first, b > a, else component b."""
        a, A = state
        before = sum(A[b][a - b - 1] << b for b in range(a))
        return before + sum(bit << (a + i) for i, bit in enumerate(A[a]))

    return explore(starts, successors, symbol, lambda state: True, language.vocabulary)


def marked_ngram(width: int) -> NGram:
    """The l-gram over tokens v and, for the first of an interval, |V| + v: the interval language, with marks."""
    language, v = Interval(width), 2 ** (width - 1)
    check_size(width, 2 * v)
    initial, transition = np.zeros((2 * v) ** (width - 1)), np.full(((2 * v) ** (width - 1), 2 * v), 1 / (2 * v))
    for code, context in enumerate(product(range(2 * v), repeat=width - 1)):
        marks = [i for i, token in enumerate(context) if token >= v]
        if len(marks) > 1:
            continue  # no sequence shows two marks so near each other
        shown = [token % v for token in context[marks[0] :]] if marks else []
        row = np.zeros(2 * v)
        if marks:
            interval = torch.tensor([[*shown, *[v] * (width - len(shown))]])
            row[:v] = language.posterior(interval, torch.tensor([len(shown)]))[0, 0].numpy()
        else:
            row[v:] = 1 / v
        transition[code] = row
        if marks == [0]:
            initial[code] = math.exp(language.log_evidence(torch.tensor([[*shown, v]]))[0])
    return NGram(width, initial, transition)


def _drawn(width: int, kept: Rows, a: int) -> Iterator[Rows]:
    """`kept` with any row a, and zeros after it."""
    zeros = tuple((0,) * (width - 1 - b) for b in range(a + 1, width))
    return ((*kept, row, *zeros) for row in product((0, 1), repeat=width - 1 - a))


def _all(width: int) -> Iterator[Rows]:
    return product(*(product((0, 1), repeat=width - 1 - a) for a in range(width)))
