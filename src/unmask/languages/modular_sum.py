"""Sums evaluated step by step modulo m: it looks like reasoning, and every intermediate result counts."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.memory import counted
from unmask.languages.base import Tokens
from unmask.languages.grammar import Grammar, Moves
from unmask.languages.registry import LANGUAGES
from unmask.languages.steps import Steps

MAX_TRANSITIONS = 2**16  # about which it takes some seconds to find them


class Draft(NamedTuple):
    """While operands are chosen: those that will be written again (the first two as their sum), and how many so far."""

    token: int
    operands: tuple[int, ...]
    chosen: int


class Work(NamedTuple):
    """Once they are chosen everything up to the result is determined: the tokens that must follow."""

    token: int
    rest: tuple[int, ...]


class Joint(NamedTuple):
    """Between two equations: the operand that must come first, if any."""

    token: int
    first: int | None


@LANGUAGES.register("modular-sum")
class ModularSum(Grammar):
    """Equations `1+2+3=3+3=6`, joined by `;`, each with `terms` operands, evaluated from the left one sum at a time.

    Operands are uniform digits 0..m-1; in a chain each equation starts from the last result: `4+9=3;3+5=8`. A sequence
    ends after a complete equation, so its lengths are k^2+k-1 for k terms, and k^2+k more for each further equation.
    """

    kind: ClassVar[str] = "modular-sum"

    def __init__(self, modulus: int = 10, terms: int = 2, chained: bool = True, stop: float | None = None) -> None:
        modulus = arguments.whole("modulus", modulus, 2, MAX_TRANSITIONS)
        terms = arguments.whole("terms", terms, 2, 16)
        arguments.flag("chained", chained)
        transitions = modulus**terms + 2 * terms * modulus ** (terms - 1)
        if transitions > MAX_TRANSITIONS:
            what = f"about {counted(transitions)} transitions, more than the {MAX_TRANSITIONS:,} allowed"
            raise UnmaskError(f"modulus {modulus} with {terms} terms needs {what}; lower one of them")
        self.modulus, self.terms, self.chained = modulus, terms, chained
        self.plus, self.equals, self.separator = modulus, modulus + 1, modulus + 2
        super().__init__((*(str(d) for d in range(modulus)), "+", "=", ";"), stop)

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
        """One step a sum, k-1 an equation, with the signs and the copies beside it; the first of an equation has its
        operands too, and in a chain that it begins with the last result. A chain asks for its first operand plus all
        that are added, equations that are none for the sum of each."""
        tokens = self.check_tokens(tokens)
        ends, long = self.sizes(tokens), self.terms**2 + self.terms  # an equation with the sign behind it
        if self.end is not None:
            ends = torch.where((tokens == self.end).any(1), ends - 1, 0)  # no text without an end
        most = (tokens.shape[1] + 1) // long * (self.terms - 1)
        wrong = torch.zeros((len(tokens), max(most, 1)), dtype=torch.bool)
        count, answer = torch.ones(len(tokens), dtype=torch.int64), torch.zeros(len(tokens), dtype=torch.bool)
        for end in ends.unique().tolist():
            rows = ends == end
            if end == 0 or (end + 1) % long:  # no whole number of equations
                wrong[rows, 0] = True
                continue
            follows, answer[rows] = self._read_equations(tokens[rows, :end])
            wrong[rows, : follows.shape[1]] = ~follows
            count[rows] = follows.shape[1]
        return Steps(wrong, count, answer)

    def _read_equations(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Bool (B, steps): which follow, in texts (B, n) of whole equations; Bool (B): whether the answer is right."""
        m, k = self.modulus, self.terms
        texts = pad(tokens, (0, 1), value=self.separator).unflatten(1, (-1, k**2 + k))
        parts = texts.split([2 * count for count in range(k, 0, -1)], 2)  # k operands, k-1, .., 1, each with its sign
        operands, signs = [part[..., ::2] for part in parts], [part[..., 1::2] for part in parts]
        sums = torch.tensor([self.plus] * (k - 1) + [self.equals])
        formed = [(sign == sums[-sign.shape[2] :]).all(2) for sign in signs[:-1]]
        formed.append((signs[-1] == self.separator).all(2))
        follows = []
        for before, now, good in zip(operands, operands[1:], formed[1:], strict=False):
            summed = (before < m).all(2) & (now[..., 0] == before[..., :2].sum(2) % m)
            follows.append(good & summed & (now[..., 1:] == before[..., 2:]).all(2))
        follows[0] &= formed[0]
        results, asked = texts[..., -2], operands[0].clone()
        if self.chained:
            follows[0][:, 1:] &= asked[:, 1:, 0] == results[:, :-1]
            asked[:, 1:, 0] = 0  # no operands of the question
            right = results[:, -1] == asked.sum((1, 2)) % m
        else:
            right = (results == asked.sum(2) % m).all(1)
        readable = ((asked < m).all(2) & formed[0]).all(1)
        return torch.stack(follows, 2).flatten(1), readable & right

    def _operand(self, operands: tuple[int, ...], chosen: int, digit: int) -> Draft | Work:
        """One more operand: another draft, or, with the last one, everything that follows from them."""
        if chosen == 1:
            operands = ((operands[0] + digit) % self.modulus,)
        else:
            operands = (*operands, digit)
        if chosen + 1 < self.terms:
            return Draft(digit, operands, chosen + 1)
        rest: list[int] = []
        while operands:
            rest.append(self.equals)
            for i, operand in enumerate(operands):
                rest += [self.plus, operand] if i else [operand]
            operands = ((operands[0] + operands[1]) % self.modulus, *operands[2:]) if len(operands) > 1 else ()
        return Work(digit, tuple(rest))
