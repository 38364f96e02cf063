"""The ideal denoiser of a language: its posterior, kept up to date while a canvas is filled."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unmask.denoisers.canvas import over_hidden
from unmask.denoisers.contracts import Causal, Engine
from unmask.denoisers.stateless import PrefixCausal
from unmask.exact import chain, interval, messages, paths
from unmask.exact.chain import Chain
from unmask.exact.machine import Floats
from unmask.languages import Interval, Language, NGram
from unmask.languages.base import MachineLanguage


class Exact:
    """p(x_j | x_R) = q(x_j | x_R) for a language of ours (theory.md 7.1)."""

    time_free = True

    def __init__(self, language: Language) -> None:
        self.language = language
        self.vocabulary = language.vocabulary

    def engine(self, tokens: Tensor) -> Engine:
        if isinstance(self.language, Interval):
            return IntervalEngine(self.language, tokens)
        if isinstance(self.language, NGram) and (tables := _chain(self.language, tokens.shape[1])) is not None:
            return ChainEngine(self.language, tokens, tables)
        assert isinstance(self.language, MachineLanguage)
        return MessageEngine(self.language, tokens)

    def causal(self, rows: int, length: int) -> Causal:
        if isinstance(self.language, MachineLanguage):
            return FilterCausal(self.language, rows, length)
        return PrefixCausal(self, rows, length)

    def posterior(self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        return self.language.posterior(tokens, positions)

    def row_bytes(self, length: int) -> int:
        if isinstance(self.language, Interval) or (isinstance(self.language, NGram) and _chain(self.language, length)):
            return LOCAL_BYTES * length
        assert isinstance(self.language, MachineLanguage)
        return 16 * length * (self.language.machine.states + self.vocabulary)


LOCAL_BYTES = 64  # a position, where only tokens are kept


@lru_cache(maxsize=8)
def _chain(language: NGram, length: int) -> Chain | None:
    return chain.chain(language.initial, language.transition, length) if language.order == 2 else None


@lru_cache(maxsize=8)
def _blank_messages(language: MachineLanguage, length: int) -> tuple[Floats, Floats]:
    """The messages (1, L, S) of a canvas that hides everything: the same for every row."""
    forward = np.empty((1, length, language.machine.states))
    backward = np.empty_like(forward)
    free = language.blank(1, length).numpy()
    messages.fill_rows(language.machine, free, forward, backward, np.empty((1, length), bool))
    return forward, backward


class MessageEngine:
    """Forward and backward messages (B, L, S), swept outwards from what changes (exact/messages.py)."""

    def __init__(self, language: MachineLanguage, tokens: Tensor) -> None:
        language.check_length(tokens.shape[1])
        self.machine = language.machine
        self.vocabulary = language.vocabulary
        self.tokens = tokens
        shape = (*tokens.shape, self.machine.states)
        self.restarts = np.zeros(tokens.shape, bool)
        if bool((tokens == self.vocabulary).all()):
            self.forward, self.backward = (np.tile(m, (len(tokens), 1, 1)) for m in _blank_messages(language, shape[1]))
        else:
            self.forward, self.backward = np.empty(shape), np.empty(shape)
            messages.fill_rows(self.machine, tokens.numpy(), self.forward, self.backward, self.restarts)
        self._dead = torch.from_numpy(self.restarts.any(1))

    def renew(self, rows: Tensor, positions: Tensor) -> None:
        keys = rows * self.tokens.shape[1] + positions
        if len(keys) > 1 and not bool((keys[1:] > keys[:-1]).all()):
            keys = keys.unique()
            rows, positions = keys // self.tokens.shape[1], keys % self.tokens.shape[1]
        which, counts = rows.unique_consecutive(return_counts=True)
        starts = np.concatenate([[0], np.cumsum(counts.numpy())])
        touched = which.numpy()
        arrays = self.forward, self.backward, self.restarts
        messages.sweep_rows(self.machine, self.tokens.numpy(), *arrays, touched, starts, positions.numpy())
        self._dead[which] = torch.from_numpy(self.restarts[touched].any(1))

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Tensor:
        out = torch.empty((len(rows), self.vocabulary), dtype=torch.float64)
        messages.marginals_at(self.machine, self.forward, self.backward, rows.numpy(), positions.numpy(), out.numpy())
        return out

    def over(self, window: slice, time: Tensor | None) -> Tensor:
        return over_hidden(self, window)

    def dead(self) -> Tensor:
        return self._dead


class LocalEngine(ABC):
    """A closed form over the tokens themselves: nothing to keep but which rows contradict themselves."""

    def __init__(self, language: Language, tokens: Tensor) -> None:
        language.check_length(tokens.shape[1])
        self.language = language
        self.vocabulary = language.vocabulary
        self.tokens = tokens
        self._dead = torch.zeros(len(tokens), dtype=torch.bool)
        if not bool((tokens == self.vocabulary).all()):
            self._dead = language.log_evidence(tokens) == -torch.inf

    @abstractmethod
    def _marginals(self, *arrays: Any) -> None:
        """tokens, rows, positions, out: fill in the marginals of hidden places."""

    @abstractmethod
    def _contradictions(self, *arrays: Any) -> None:
        """tokens, rows, positions, dead: mark the rows whose newly revealed places disagree with others."""

    def renew(self, rows: Tensor, positions: Tensor) -> None:
        if bool((self.tokens[rows, positions] == self.vocabulary).any()):  # hiding may undo a contradiction
            which = rows.unique()
            self._dead[which] = self.language.log_evidence(self.tokens[which]) == -torch.inf
        else:
            self._contradictions(self.tokens.numpy(), rows.numpy(), positions.numpy(), self._dead.numpy())

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Tensor:
        out = torch.empty((len(rows), self.vocabulary), dtype=torch.float64)
        self._marginals(self.tokens.numpy(), rows.numpy(), positions.numpy(), out.numpy())
        return out

    def over(self, window: slice, time: Tensor | None) -> Tensor:
        return over_hidden(self, window)

    def dead(self) -> Tensor:
        return self._dead


class IntervalEngine(LocalEngine):
    """Every bit that a revealed partner shows is copied (exact/interval.py)."""

    def __init__(self, language: Interval, tokens: Tensor) -> None:
        super().__init__(language, tokens)
        self.width = language.width

    def _marginals(self, *arrays: Any) -> None:
        interval.marginals_at(self.width, *arrays)

    def _contradictions(self, *arrays: Any) -> None:
        interval.contradictions(self.width, *arrays)


class ChainEngine(LocalEngine):
    """The nearest revealed neighbours of a first-order chain (exact/chain.py)."""

    def __init__(self, language: NGram, tokens: Tensor, tables: Chain) -> None:
        super().__init__(language, tokens)
        self.tables = tables

    def _marginals(self, *arrays: Any) -> None:
        chain.marginals_at(self.tables, *arrays)

    def _contradictions(self, *arrays: Any) -> None:
        chain.contradictions(self.tables, *arrays)


class FilterCausal:
    """The exact AR model of a machine: forward messages alone, kept for every length so that it can rewind.

    q(x_j = v | x_<j) ~ sum_s predicted_j(s) E(s, v) ahead_j(s), ahead being the backward message of a blank canvas.
    """

    def __init__(self, language: MachineLanguage, rows: int, length: int) -> None:
        language.check_length(length)
        self.machine = language.machine
        self.ahead = _blank_messages(language, length)[1][0]  # (L, S)
        self.predicted = np.empty((rows, length, self.machine.states))
        self.lengths = torch.full((rows,), -1)
        self.evaluations = torch.zeros(rows, dtype=torch.int64)
        self.forwards = 0

    def extend(self, tokens: Tensor, counts: Tensor | None = None) -> Tensor:
        counts = torch.full((len(tokens),), tokens.shape[1]) if counts is None else counts
        out = torch.zeros((*tokens.shape, self.machine.vocabulary), dtype=torch.float64)
        arrays = (t.numpy() for t in (self.lengths, tokens.contiguous(), counts, out))
        paths.filter_rows(self.machine, self.ahead, self.predicted, *arrays)
        self.lengths += counts
        self.evaluations += counts > 0
        self.forwards += 1
        return out

    def rewind(self, lengths: Tensor) -> None:
        self.lengths = torch.minimum(self.lengths, lengths)
