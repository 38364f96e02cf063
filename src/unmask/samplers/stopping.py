"""The cost of rows, and rules that end a row before all of it is decided; the rest is filled at no cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from unmask.core.arguments import refuse, whole
from unmask.denoisers import Cost


@dataclass
class Account:
    """The cost of B rows."""

    impossible: Tensor  # (B): the model call at which a row's context first had probability zero, or 0
    probes: Tensor  # (B): model calls whose input is not the row itself
    positions: Tensor  # (B): computed positions of all model calls
    revised: Tensor  # (B): number of re-masked tokens
    model_calls_of: dict[str, Tensor] = field(default_factory=dict)  # (B) for each model: "denoiser", "causal"
    spent: Cost = field(default_factory=Cost)

    @property
    def model_calls(self) -> Tensor:
        """(B): model calls of all denoisers together."""
        return sum(self.model_calls_of.values(), torch.zeros_like(self.impossible))

    def add(self, rows: Tensor, account: Account) -> None:
        """Add another attempt at these rows (K); its impossible contexts replace the earlier ones."""
        for name, model_calls in account.model_calls_of.items():
            self.model_calls_of.setdefault(name, torch.zeros_like(self.impossible))[rows] += model_calls
        self.spent = self.spent + account.spent
        self.impossible[rows] = account.impossible
        self.probes[rows] += account.probes
        self.positions[rows] += account.positions


class Progress(NamedTuple):
    """Rows after a step."""

    tokens: Tensor  # (B, L), V where hidden
    hidden: Tensor  # Bool (B, L), including the padding after a row
    generated: Tensor  # Bool (B, L): positions that were not given
    blocks: Tensor  # (B, L): index of the block of each position, -1 if not filled
    probability: Tensor  # (B, L): of each token when it was revealed
    account: Account  # the cost so far

    @property
    def model_calls(self) -> Tensor:
        """(B): model calls so far."""
        return self.account.model_calls


class StopRule(Protocol):
    """Called after each step of every sampler."""

    @property
    def fill(self) -> int:
        """The token that fills the positions after the end."""

    def ended(self, progress: Progress) -> Tensor:
        """(B): number of tokens of each row that has ended, given tokens included; -1 otherwise."""


@dataclass(frozen=True)
class AtToken:
    """A row ends with the first of these tokens that was not given, once all before it is decided."""

    tokens: int | Sequence[int]
    filler: int | None = None  # None: the first of `tokens`

    @property
    def fill(self) -> int:
        return self._tokens[0] if self.filler is None else self.filler

    @property
    def _tokens(self) -> tuple[int, ...]:
        return (self.tokens,) if isinstance(self.tokens, int) else tuple(self.tokens)

    def __post_init__(self) -> None:
        fillers = () if self.filler is None else (self.filler,)
        if not self._tokens:
            refuse("tokens of AtToken", self.tokens, "at least one token")
        for token in (*self._tokens, *fillers):
            whole("a token of AtToken", token, 0)

    def ended(self, progress: Progress) -> Tensor:
        ends = torch.isin(progress.tokens, torch.tensor(self._tokens)) & progress.generated
        first = ends.int().argmax(1)
        before = torch.arange(ends.shape[1]) < first.unsqueeze(1)
        return torch.where(ends.any(1) & ~(progress.hidden & before).any(1), first + 1, -1)


@dataclass(frozen=True)
class Until:
    """A row ends where its text first contains one of these strings, with nothing hidden before."""

    strings: Sequence[str]
    decode: Callable[[list[int]], str]
    fill: int

    def ended(self, progress: Progress) -> Tensor:
        lengths = torch.full((len(progress.tokens),), -1)
        for row, (tokens, hidden, generated) in enumerate(zip(*progress[:3], strict=True)):
            decided = int((hidden.int().cumsum(0) == 0).sum())
            start = int(generated.int().argmax()) if bool(generated.any()) else len(generated)
            text = tokens[start:decided].tolist()
            if self._in(text):
                lengths[row] = start + self._least(text)

        return lengths

    def _least(self, tokens: list[int]) -> int:
        """The least number of tokens whose text has such a string, by bisection."""
        low, high = 1, len(tokens)
        while low < high:
            middle = (low + high) // 2
            if self._in(tokens[:middle]):
                high = middle
            else:
                low = middle + 1
        return low

    def _in(self, tokens: list[int]) -> bool:
        text = self.decode(tokens)
        return any(string in text for string in self.strings)


@dataclass(frozen=True)
class Budget:
    """A row ends after this number of model calls, even with hidden positions."""

    model_calls: int
    fill: int

    def __post_init__(self) -> None:
        whole("model_calls of Budget", self.model_calls, 0)

    def ended(self, progress: Progress) -> Tensor:
        return torch.where(progress.model_calls >= self.model_calls, progress.tokens.shape[1], -1)


@dataclass(frozen=True)
class Either:
    """A row ends where the first of these rules ends it."""

    rules: Sequence[StopRule]

    @property
    def fill(self) -> int:
        return self.rules[0].fill

    def __post_init__(self) -> None:
        if not self.rules:
            refuse("rules of Either", self.rules, "at least one rule")

    def ended(self, progress: Progress) -> Tensor:
        never = progress.tokens.shape[1] + 1
        lengths = torch.stack([rule.ended(progress) for rule in self.rules])
        first = torch.where(lengths < 0, never, lengths).amin(0)
        return torch.where(first < never, first, -1)


def stop_rule(stop: int | StopRule | None, vocabulary: int) -> StopRule | None:
    """Turn a token into a rule, and check that the rule's `fill` is a token."""
    if stop is None:
        return None
    if isinstance(stop, Integral) and not isinstance(stop, bool):
        return AtToken(whole("stop", stop, 0, vocabulary - 1, ", a token"))
    if isinstance(stop, int) or not (hasattr(stop, "fill") and callable(getattr(stop, "ended", None))):
        refuse("stop", stop, "a token, or a rule with `fill` and `ended`: samplers.AtToken, Until or Budget")
    rule: StopRule = stop
    whole("fill of the stop rule", rule.fill, 0, vocabulary - 1, ", a token")
    return rule
