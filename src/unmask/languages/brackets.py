"""Balanced brackets of several kinds up to a depth, all equally likely at each length."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from unmask.errors import UnmaskError
from unmask.languages.grammar import Grammar, Moves

SHAPES = "()[]{}<>"
MAX_STACKS = 2**14


class Brackets(Grammar):
    """Uniform over the balanced strings of a length; state: (token, stack), the stack being what is still open.

    Each step is one way, so a walk from the empty stack to the empty stack must have the same probability whatever its
    steps. Doob's transform with the Perron vector h of the walk on depths does that with proper transition rows:
        open a kind: h(d+1) / (lambda h(d)),   close: h(d-1) / (lambda h(d)),
        h(d) = kinds^(-d/2) sin(pi (d+1)/(depth+2)),   lambda = 2 sqrt(kinds) cos(pi/(depth+2)).
    With `stop`, strings of one length are equally likely.
    """

    kind: ClassVar[str] = "brackets"

    def __init__(self, kinds: int = 2, depth: int = 4, stop: float | None = None) -> None:
        if not 1 <= kinds <= len(SHAPES) // 2:
            raise UnmaskError(f"kinds is {kinds}; expected 1 to {len(SHAPES) // 2}")
        if depth < 1:
            raise UnmaskError(f"depth is {depth}; expected at least 1")
        if sum(kinds**d for d in range(depth + 1)) > MAX_STACKS:
            raise UnmaskError(f"{kinds} kinds to depth {depth} have over {MAX_STACKS} stacks; lower one of them")
        self.kinds, self.depth = kinds, depth
        super().__init__(tuple(SHAPES[: 2 * kinds]), stop)

    def parameters(self) -> dict[str, Any]:
        return {"kinds": self.kinds, "depth": self.depth} | self._options()

    def starts(self) -> Moves:
        return self.moves((None, ()))

    def moves(self, state: Any) -> Moves:
        """Token 2k opens kind k and token 2k+1 closes it."""
        _, stack = state
        here = self._height(len(stack))
        moves = []
        if len(stack) < self.depth:
            share = self._height(len(stack) + 1) / (self._growth * here)
            moves += [(share, (2 * kind, (*stack, kind))) for kind in range(self.kinds)]
        if stack:
            share = self._height(len(stack) - 1) / (self._growth * here)
            moves.append((share, (2 * stack[-1] + 1, stack[:-1])))
        return moves

    def complete(self, state: Any) -> bool:
        return not state[1]

    @property
    def _growth(self) -> float:
        return 2 * math.sqrt(self.kinds) * math.cos(math.pi / (self.depth + 2))

    def _height(self, depth: int) -> float:
        return float(self.kinds ** (-depth / 2) * math.sin(math.pi * (depth + 1) / (self.depth + 2)))
