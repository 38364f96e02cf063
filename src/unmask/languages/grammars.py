"""Languages defined by rules, whose states determine their token: balanced brackets, and sums modulo m step by step."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Iterable
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.memory import counted
from unmask.languages.base import LANGUAGES, Steps, Tokens
from unmask.languages.hmm import SMALLEST
from unmask.languages.kernels.machine import Machine, explore
from unmask.languages.machine import MachineLanguage

END, PAD = "$", "~"
SHAPES = "()[]{}<>"
MAX_STACKS, MAX_DEPTH = 2**14, 2**9  # a state contains the stack of open brackets
MAX_TRANSITIONS = 2**16  # which take a few seconds to enumerate
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
        self.names = symbols
        if stop is not None:
            self.names = (*symbols, END, PAD)
            self.end = len(symbols)
        self.vocabulary = len(self.names)

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
        moves: list[tuple[float, Any]] = []
        if opens:
            moves += [(opens / self.kinds, (2 * kind, (*stack, kind))) for kind in range(self.kinds)]
        if stack:
            moves.append((1 - opens, (2 * stack[-1] + 1, stack[:-1])))
        return moves

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
        r = (low + high) / 2
        from_below = [0.0]
        while len(from_below) <= depth and from_below[-1] < 1:
            from_below.append(r / (1 - from_below[-1]))
        if len(from_below) > depth and from_below[-1] < continues:
            low = r
        else:
            high = r
    return from_below[::-1]


class Draft(NamedTuple):
    """While operands are chosen: those to be written again (the first two as their sum), and the number so far."""

    token: int
    operands: tuple[int, ...]
    chosen: int


class Work(NamedTuple):
    """After the operands are chosen: the remaining tokens up to the result, which are determined."""

    token: int
    rest: tuple[int, ...]


class Joint(NamedTuple):
    """Between two equations: the operand that must come first, if any."""

    token: int
    first: int | None


@LANGUAGES.register("modular-sum")
class ModularSum(Grammar):
    """Equations `1+2+3=3+3=6`, joined by `;`, each with `terms` operands, evaluated from the left one sum at a time.

    Operands are uniform digits 0..m-1. In a chain, each equation starts with the last result: `4+9=3;3+5=8`. A sequence
    ends after a complete equation, so lengths are k^2+k-1 for k terms, and k^2+k more for each further equation.
    """

    kind: ClassVar[str] = "modular-sum"

    def __init__(self, modulus: int = 10, terms: int = 2, chained: bool = True, stop: float | None = None) -> None:
        modulus = arguments.whole("modulus", modulus, 2, MAX_TRANSITIONS)
        terms = arguments.whole("terms", terms, 2, 16)
        arguments.flag("chained", chained)
        transitions = modulus**terms + 2 * terms * modulus ** (terms - 1)
        if transitions > MAX_TRANSITIONS:
            raise UnmaskError(
                f"modulus {modulus} with {terms} terms needs about {counted(transitions)} transitions",
                f"expected at most {MAX_TRANSITIONS:,}",
                "Lower one of them.",
            )
        self.modulus, self.terms, self.chained = modulus, terms, chained
        self.plus, self.equals, self.separator = modulus, modulus + 1, modulus + 2
        super().__init__((*map(str, range(modulus)), "+", "=", ";"), stop)

    def parameters(self) -> dict[str, Any]:
        return {"modulus": self.modulus, "terms": self.terms, "chained": self.chained} | self._options()

    def starts(self) -> Moves:
        return [(1 / self.modulus, Draft(digit, (digit,), 1)) for digit in range(self.modulus)]

    def moves(self, state: Any) -> Moves:
        match state:
            case Draft(token, operands, chosen) if token != self.plus:
                return [(1.0, Draft(self.plus, operands, chosen))]
            case Draft(_, operands, chosen):
                return [(1 / self.modulus, self._operand(operands, chosen, digit)) for digit in range(self.modulus)]
            case Work(_, (token, *rest)):
                return [(1.0, Work(token, tuple(rest)))]
            case Work(result, ()):
                return [(1.0, Joint(self.separator, result if self.chained else None))]
            case Joint(_, None):
                return self.starts()
            case Joint(_, int(first)):
                return [(1.0, Draft(first, (first,), 1))]
        raise AssertionError(state)

    def complete(self, state: Any) -> bool:
        return isinstance(state, Work) and not state.rest

    def steps(self, tokens: Tokens) -> Steps:
        """One step per sum, k-1 per equation.

        A step includes the signs and copies next to its sum. The first step of an equation also includes its operands,
        and in a chain that it starts with the last result. The question is the sum of all new operands of a chain, or
        else the sum of each equation.
        """
        tokens = self.check_tokens(tokens)
        long = self.terms**2 + self.terms  # an equation with the sign after it
        ends = self.sizes(tokens)
        if self.end is not None:
            ends = torch.where((tokens == self.end).any(1), ends - 1, 0)  # no text without an end

        most = (tokens.shape[1] + 1) // long * (self.terms - 1)
        wrong = torch.zeros((len(tokens), max(most, 1)), dtype=torch.bool)
        count = torch.ones(len(tokens), dtype=torch.int64)
        answer = torch.zeros(len(tokens), dtype=torch.bool)

        for end in ends.unique().tolist():
            rows = ends == end
            if end == 0 or (end + 1) % long:  # not a whole number of equations
                wrong[rows, 0] = True
                continue
            follows, answer[rows] = self._read_equations(tokens[rows, :end])
            wrong[rows, : follows.shape[1]] = ~follows
            count[rows] = follows.shape[1]

        return Steps(wrong, count, answer)

    def _read_equations(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Bool (B, steps), whether steps are correct, and Bool (B), whether answers are, in whole equations (B, n)."""
        m, k = self.modulus, self.terms
        texts = pad(tokens, (0, 1), value=self.separator).unflatten(1, (-1, k**2 + k))
        parts = texts.split([2 * count for count in range(k, 0, -1)], 2)  # k operands, k-1, .., 1, each with its sign
        operands, signs = [], []
        for part in parts:
            operands.append(part[..., ::2])
            signs.append(part[..., 1::2])

        # the signs: a sum ends in `=`, the result in a separator
        sums = torch.tensor([self.plus] * (k - 1) + [self.equals])
        formed = [(sign == sums[-sign.shape[2] :]).all(2) for sign in signs[:-1]]
        formed.append((signs[-1] == self.separator).all(2))

        # each sum: its first operand is the sum of two, and the others are copied
        follows = []
        for before, now, good in zip(operands, operands[1:], formed[1:], strict=False):
            summed = (before < m).all(2) & (now[..., 0] == before[..., :2].sum(2) % m)
            follows.append(good & summed & (now[..., 1:] == before[..., 2:]).all(2))
        follows[0] &= formed[0]

        results = texts[..., -2]
        question = operands[0].clone()
        if self.chained:
            follows[0][:, 1:] &= question[:, 1:, 0] == results[:, :-1]
            question[:, 1:, 0] = 0  # not operands of the question
            right = results[:, -1] == question.sum((1, 2)) % m
        else:
            right = (results == question.sum(2) % m).all(1)

        readable = ((question < m).all(2) & formed[0]).all(1)
        return torch.stack(follows, 2).flatten(1), readable & right

    def _operand(self, operands: tuple[int, ...], chosen: int, digit: int) -> Draft | Work:
        """The state after one more operand: a draft, or after the last one, the remaining work."""
        operands = (*operands, digit)
        if chosen == 1:
            operands = (sum(operands) % self.modulus,)
        if chosen + 1 < self.terms:
            return Draft(digit, operands, chosen + 1)

        rest: list[int] = []
        while True:
            signs = [self.equals] + [self.plus] * (len(operands) - 1)
            for sign, operand in zip(signs, operands, strict=True):
                rest += [sign, operand]
            if len(operands) == 1:
                break
            operands = (sum(operands[:2]) % self.modulus, *operands[2:])
        return Work(digit, tuple(rest))
