"""Languages defined by rules: states that determine their token, and states that may be last."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable
from typing import Any

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.languages.kernels.machine import Machine, explore
from unmask.languages.machine import MachineLanguage
from unmask.languages.tables import SMALLEST

END, PAD = "$", "~"
Moves = Iterable[tuple[float, Any]]


class Grammar(MachineLanguage):
    """A machine explored from rules; a state is (token, memory).

    At a fixed length, sequences end in a complete state. With `stop`, a complete sequence ends with this probability in
    an end token followed by padding, so the length varies up to that of the canvas.
    """

    def __init__(self, symbols: tuple[str, ...], stop: float | None) -> None:
        if stop is not None and arguments.share("stop", stop) < SMALLEST:
            raise UnmaskError(f"stop is {stop}; expected a probability from {SMALLEST:g} to below 1, or none")
        self.stop = stop
        self.names = symbols if stop is None else (*symbols, END, PAD)
        self.vocabulary = len(self.names)
        self.end = None if stop is None else len(symbols)

    @abstractmethod
    def starts(self) -> Moves:
        """(probability, state) of the first position."""

    @abstractmethod
    def moves(self, state: Any) -> Moves:
        """(probability, next state)."""

    @abstractmethod
    def complete(self, state: Any) -> bool:
        """Whether a sequence may end here."""

    def build(self) -> Machine:
        return explore(self.starts(), self._moves, lambda state: int(state[0]), self._final, self.vocabulary)

    def _moves(self, state: Hashable) -> Moves:
        if self.end is None:
            return self.moves(state)
        assert self.stop is not None
        if state[0] >= self.end:  # type: ignore[index]
            return [(1.0, (self.end + 1, None))]
        if not self.complete(state):
            return self.moves(state)
        going = [(weight * (1 - self.stop), following) for weight, following in self.moves(state)]
        return [*going, (self.stop, (self.end, None))]

    def _final(self, state: Hashable) -> bool:
        return self.complete(state) if self.end is None else state[0] >= self.end  # type: ignore[index]

    def _options(self) -> dict[str, Any]:
        return {} if self.stop is None else {"stop": self.stop}
