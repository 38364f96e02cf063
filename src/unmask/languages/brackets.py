"""Balanced brackets of several kinds up to a depth, all equally likely at each length."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.languages.grammar import Grammar, Moves
from unmask.languages.registry import LANGUAGES

SHAPES = "()[]{}<>"
MAX_STACKS, MAX_DEPTH = 2**14, 2**9  # a state knows all that is open


@LANGUAGES.register("brackets")
class Brackets(Grammar):
    """All balanced strings of a length, equally likely; the state is the last token and the stack of open brackets.

    Let o_d be the probability of opening another bracket at depth d, and c_d = 1 - o_d that of closing one. Every
    string of a length is equally likely if o_d c_(d+1) = r at every depth, for then each pair of brackets weighs
    r / kinds wherever it stands. c_depth = 1 fixes the others, and o_0 = 1 fixes r (o_0 = 1 - stop where the length
    varies).
    """

    kind: ClassVar[str] = "brackets"

    def __init__(self, kinds: int = 2, depth: int = 4, stop: float | None = None) -> None:
        kinds = arguments.whole("kinds", kinds, 1, len(SHAPES) // 2)
        depth = arguments.whole("depth", depth, 1, MAX_DEPTH)
        if sum(kinds**d for d in range(depth + 1)) > MAX_STACKS:
            raise UnmaskError(f"{kinds} kinds to depth {depth} have over {MAX_STACKS} stacks; lower one of them")
        self.kinds, self.depth = kinds, depth
        super().__init__(tuple(SHAPES[: 2 * kinds]), stop)
        self._open = _open_shares(depth, 1 - (stop or 0))

    def parameters(self) -> dict[str, Any]:
        return {"kinds": self.kinds, "depth": self.depth} | self._options()

    def starts(self) -> Moves:
        return self.moves((None, ()))

    def moves(self, state: Any) -> Moves:
        """Token 2k opens kind k and token 2k+1 closes it."""
        _, stack = state
        share = self._open[len(stack)] if stack else 1.0  # at depth 0 given that the string goes on
        moves = [(share / self.kinds, (2 * kind, (*stack, kind))) for kind in range(self.kinds)] if share else []
        return [*moves, (1 - share, (2 * stack[-1] + 1, stack[:-1]))] if stack else moves

    def complete(self, state: Any) -> bool:
        return not state[1]


def _open_shares(depth: int, goes_on: float) -> list[float]:
    """o_0..o_depth with o_depth = 0, o_d = r / (1 - o_(d+1)) and o_0 = goes_on, by bisection over r.

    For o_0 = 1, with a = pi / (depth + 2) and n = depth - d, it is o_d = sin(a n) / (2 cos(a) sin(a (n + 1))).
    """
    if goes_on == 1:
        a = math.pi / (depth + 2)
        return [math.sin(a * n) / (2 * math.cos(a) * math.sin(a * (n + 1))) for n in range(depth, -1, -1)]
    low, high = 0.0, 1.0
    for _ in range(100):
        from_below, r = [0.0], (low + high) / 2
        while len(from_below) <= depth and from_below[-1] < 1:
            from_below.append(r / (1 - from_below[-1]))
        low, high = (r, high) if len(from_below) > depth and from_below[-1] < goes_on else (low, r)
    return from_below[::-1]
