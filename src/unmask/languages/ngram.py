"""n-gram languages of any order: the first n-1 tokens from an initial distribution, each later one from its context."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.memory import counted
from unmask.languages.base import LANGUAGES, UNKNOWN, codes
from unmask.languages.hmm import table
from unmask.languages.kernels.local import Chain, chain
from unmask.languages.kernels.machine import Ints, Machine, from_edges
from unmask.languages.machine import ROWS, MachineLanguage

MAX_TRANSITIONS, MOST_ORDER = 2**24, 64
MAX_SMOOTHING = 1e12  # far above any count of a text


@LANGUAGES.register("ngram")
class NGram(MachineLanguage):
    """q(x) = initial(x_1..x_m) prod_{t>m} transition(x_{t-m}..x_{t-1}, x_t),  m = order - 1            (theory.md 3)

    initial: V^m probabilities, flat; transition: (V^m, V). The oldest token of a context is the most significant digit.
    Contexts that no sequence reaches may be in the table; they have no state.
    """

    kind: ClassVar[str] = "ngram"

    def __init__(
        self,
        order: int,
        initial: ArrayLike,
        transition: ArrayLike,
        *,
        normalise: bool = False,
    ) -> None:
        self.order = order
        self.transition = table("transition", transition, (None, None), normalise)
        self.vocabulary = self.transition.shape[1]
        check_size(order, self.vocabulary)
        contexts = self.vocabulary ** (order - 1)
        if len(self.transition) != contexts:
            raise UnmaskError(
                f"transition has shape {self.transition.shape}",
                f"expected ({contexts}, {self.vocabulary}) for order {order}: one row for each of V^(n-1) contexts",
            )
        self.initial = table("initial", initial, (contexts,), normalise)

    @cached_property
    def reachable(self) -> Ints:
        """The contexts that some sequence visits, ascending."""
        contexts, v = self.transition.shape
        visited = self.initial > 0
        frontier = np.flatnonzero(visited)
        while len(frontier):
            row, token = np.nonzero(self.transition[frontier])
            following = np.unique((frontier[row] * v + token) % contexts)
            frontier = following[~visited[following]]
            visited[frontier] = True
        return np.flatnonzero(visited)

    def build(self) -> Machine:
        """States: the prefixes of length 1..m-1, then the reachable contexts; each emits its newest token."""
        contexts, v = self.transition.shape
        memory = self.order - 1
        beginnings = [self.initial.reshape(v**size, -1).sum(1) for size in range(1, memory)]

        # the prefixes of each length, those that occur, and where their states begin
        codes = [*map(np.flatnonzero, beginnings), self.reachable]
        masses = [*beginnings, self.initial]
        offset = np.concatenate([[0], np.cumsum(list(map(len, codes)))])

        source, target, weight = [], [], []
        for level in range(memory - 1):
            row, token = np.nonzero(masses[level + 1].reshape(-1, v)[codes[level]])
            code = codes[level][row]
            grown = code * v + token
            source.append(offset[level] + row)
            target.append(offset[level + 1] + np.searchsorted(codes[level + 1], grown))
            weight.append(masses[level + 1][grown] / masses[level][code])

        row, token = np.nonzero(self.transition[self.reachable])
        following = (self.reachable[row] * v + token) % contexts
        source.append(offset[memory - 1] + row)
        target.append(offset[memory - 1] + np.searchsorted(self.reachable, following))
        weight.append(self.transition[self.reachable[row], token])

        initial = np.zeros(offset[-1])
        initial[: len(codes[0])] = masses[0][codes[0]]
        symbols = np.concatenate(codes) % v
        joined = (np.concatenate(source), np.concatenate(target), np.concatenate(weight))
        return from_edges(initial, *joined, symbols, v, np.ones(offset[-1]))

    def local_form(self, length: int) -> tuple[Chain, None] | None:
        """The tables of a first-order chain, in which only the nearest revealed neighbours matter.

        A token that no sequence reaches has no state. Messages restart as ones after it, so its row in these tables is
        uniform.
        """
        if self.order != 2:
            return None
        if length not in self._chains:
            followed = self.transition.copy()
            never = np.setdiff1d(np.arange(len(followed)), self.reachable)
            followed[never] = np.bincount(self.reachable, minlength=self.vocabulary) / len(self.reachable)
            self._chains[length] = chain(self.initial, followed, length)
        tables = self._chains[length]
        return None if tables is None else (tables, None)

    @cached_property
    def _chains(self) -> dict[int, Chain | None]:
        return {}

    def impossible(self, tokens: Tensor) -> Tensor:
        """From the tables where no token is hidden: a first generation then waits for one compilation less."""
        if tokens.shape[1] < self.order or bool((tokens == self.vocabulary).any()):
            return super().impossible(tokens)
        begins = torch.from_numpy(self.initial > 0)
        follows = torch.from_numpy(self.transition.reshape(-1) > 0)
        first = codes(tokens[:, : self.order - 1], self.vocabulary, self.order - 1).squeeze(1)
        later = [follows[codes(rows, self.vocabulary, self.order)].all(1) for rows in tokens.split(ROWS)]
        return ~(begins[first] & torch.cat(later))

    def parameters(self) -> dict[str, Any]:
        return {"order": self.order, "initial": self.initial.tolist(), "transition": self.transition.tolist()}

    @classmethod
    def fit(
        cls,
        text: str,
        order: int,
        tokens: Literal["characters", "whitespace"] = "characters",
        smoothing: float = 0.0,
        max_vocabulary: int | None = None,
    ) -> NGram:
        """The n-gram of a text by counting, (count + smoothing) / (total + V smoothing).

        The text is circular, so that each of its contexts has a successor. Without smoothing only windows of the text
        are possible, and SER is meaningful; with smoothing every sequence is possible. Contexts outside the text cannot
        be reached from contexts of the text; they get the frequencies of single tokens. With `max_vocabulary` the
        rarest tokens become one unknown token.
        """
        arguments.of_kind("text", text, str, "a string; open a file and read it")
        arguments.word("tokens", tokens, ("characters", "whitespace"))
        arguments.number("smoothing", smoothing, 0, MAX_SMOOTHING)
        if max_vocabulary is not None:
            arguments.whole("max_vocabulary", max_vocabulary, 2)

        pieces, separator = list(text), ""
        if tokens == "whitespace":
            pieces, separator = text.split(), " "
        check_size(order, min(len(set(pieces)), max_vocabulary or len(pieces)))
        if len(pieces) < order:
            raise UnmaskError(f"the text has {len(pieces)} tokens; order {order} needs at least {order}")
        names, sequence = _encode(pieces, max_vocabulary)

        v = len(names)
        memory = order - 1
        circle = np.concatenate([sequence, sequence[:memory]])
        windows = np.lib.stride_tricks.sliding_window_view(circle[:-1], memory)
        codes = windows @ (v ** np.arange(memory)[::-1])
        counts = np.bincount(codes * v + circle[memory:], minlength=v**order).reshape(-1, v) + smoothing

        singles = np.bincount(sequence, minlength=v).astype(np.float64)
        counts[counts.sum(1) == 0] = singles

        language = cls(order, np.bincount(codes, minlength=v**memory) + smoothing, counts, normalise=True)
        return language.named([name + separator for name in names])


def check_size(order: int, vocabulary: int) -> None:
    arguments.whole("order", order, 2, MOST_ORDER, ": each token depends on the last")
    size = vocabulary**order
    if size > MAX_TRANSITIONS:
        raise UnmaskError(
            f"an n-gram of order {order} over {vocabulary} tokens has {counted(size)} transitions",
            f"expected at most {MAX_TRANSITIONS:,}",
            "Lower the order or max_vocabulary.",
        )


def _encode(pieces: list[str], max_vocabulary: int | None) -> tuple[list[str], Ints]:
    """(sorted names of the tokens, the text as tokens); the rarest tokens become one unknown token."""
    frequent = Counter(pieces).most_common()
    names = sorted(name for name, _ in frequent)
    if max_vocabulary is not None and len(frequent) > max_vocabulary:
        names = [*sorted(name for name, _ in frequent[: max_vocabulary - 1]), UNKNOWN]
    index = {name: i for i, name in enumerate(names)}
    rest = len(names) - 1
    return names, np.array([index.get(piece, rest) for piece in pieces], dtype=np.int64)
