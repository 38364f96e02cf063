"""Balanced brackets of several kinds up to a depth, all equally likely at each length."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.languages.base import LANGUAGES
from unmask.languages.grammar import Grammar, Moves

SHAPES = "()[]{}<>"
MAX_STACKS, MAX_DEPTH = 2**14, 2**9  # a state contains the stack of open brackets


@LANGUAGES.register("brackets")
class Brackets(Grammar):
    """All balanced strings of a length, equally likely; the state is the last token and the stack of open brackets.

    Let o_d be the probability of opening another bracket at depth d, and c_d = 1 - o_d that of closing one. All strings
    of a length are equally likely if o_d c_(d+1) = r at every depth, because each pair of brackets then weighs
    r / kinds. c_depth = 1 determines the others, and o_0 = 1 determines r (o_0 = 1 - stop if the length varies).
    """

    kind: ClassVar[str] = "brackets"

    def __init__(self, kinds: int = 2, depth: int = 4, stop: float | None = None) -> None:
        kinds = arguments.whole("kinds", kinds, 1, len(SHAPES) // 2)
        depth = arguments.whole("depth", depth, 1, MAX_DEPTH)
        if sum(kinds**d for d in range(depth + 1)) > MAX_STACKS:
            raise UnmaskError(f"{kinds} kinds to depth {depth} have too many stacks; expected at most {MAX_STACKS}")
        self.kinds, self.depth = kinds, depth
        super().__init__(tuple(SHAPES[: 2 * kinds]), stop)
        self._open = _open_probabilities(depth, 1 - (stop or 0))

    def parameters(self) -> dict[str, Any]:
        return {"kinds": self.kinds, "depth": self.depth} | self._options()

    def starts(self) -> Moves:
        return self.moves((None, ()))

    def moves(self, state: Any) -> Moves:
        """Token 2k opens kind k and token 2k+1 closes it."""
        _, stack = state
        opens = self._open[len(stack)] if stack else 1.0  # at depth 0: given that the string continues
        moves = [(opens / self.kinds, (2 * kind, (*stack, kind))) for kind in range(self.kinds)] if opens else []
        return [*moves, (1 - opens, (2 * stack[-1] + 1, stack[:-1]))] if stack else moves

    def complete(self, state: Any) -> bool:
        return not state[1]


def _open_probabilities(depth: int, continues: float) -> list[float]:
    """o_0..o_depth with o_depth = 0, o_d = r / (1 - o_(d+1)) and o_0 = continues, by bisection over r.

    For o_0 = 1, with a = pi / (depth + 2) and n = depth - d, it is o_d = sin(a n) / (2 cos(a) sin(a (n + 1))).
    """
    if continues == 1:
        a = math.pi / (depth + 2)
        return [math.sin(a * n) / (2 * math.cos(a) * math.sin(a * (n + 1))) for n in range(depth, -1, -1)]
    low, high = 0.0, 1.0
    for _ in range(100):
        from_below, r = [0.0], (low + high) / 2
        while len(from_below) <= depth and from_below[-1] < 1:
            from_below.append(r / (1 - from_below[-1]))
        low, high = (r, high) if len(from_below) > depth and from_below[-1] < continues else (low, r)
    return from_below[::-1]
