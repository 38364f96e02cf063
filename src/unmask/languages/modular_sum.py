"""Sums modulo m, evaluated step by step: a model of reasoning in which every intermediate result matters."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.memory import counted
from unmask.languages.base import LANGUAGES, Steps, Tokens
from unmask.languages.grammar import Grammar, Moves

MAX_TRANSITIONS = 2**16  # which take a few seconds to enumerate


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
            problem = f"modulus {modulus} with {terms} terms needs about {counted(transitions)} transitions"
            raise UnmaskError(f"{problem}; expected at most {MAX_TRANSITIONS:,}. Lower one of them.")
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
        """One step per sum, k-1 per equation.

        A step includes the signs and copies next to its sum. The first step of an equation also includes its operands,
        and in a chain that it starts with the last result. The question is the sum of all new operands of a chain, or
        else the sum of each equation.
        """
        tokens = self.check_tokens(tokens)
        ends, long = self.sizes(tokens), self.terms**2 + self.terms  # an equation with the sign after it
        if self.end is not None:
            ends = torch.where((tokens == self.end).any(1), ends - 1, 0)  # no text without an end
        most = (tokens.shape[1] + 1) // long * (self.terms - 1)
        wrong = torch.zeros((len(tokens), max(most, 1)), dtype=torch.bool)
        count, answer = torch.ones(len(tokens), dtype=torch.int64), torch.zeros(len(tokens), dtype=torch.bool)
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
        operands, signs = [part[..., ::2] for part in parts], [part[..., 1::2] for part in parts]
        sums = torch.tensor([self.plus] * (k - 1) + [self.equals])
        formed = [(sign == sums[-sign.shape[2] :]).all(2) for sign in signs[:-1]]
        formed.append((signs[-1] == self.separator).all(2))
        follows = []
        for before, now, good in zip(operands, operands[1:], formed[1:], strict=False):
            summed = (before < m).all(2) & (now[..., 0] == before[..., :2].sum(2) % m)
            follows.append(good & summed & (now[..., 1:] == before[..., 2:]).all(2))
        follows[0] &= formed[0]
        results, question = texts[..., -2], operands[0].clone()
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
