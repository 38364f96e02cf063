"""Deterministic automata over tokens: the strings that a language allows, as the smallest table of moves.

The support of a machine is a regular language. The subset construction makes it deterministic: the state after a prefix
is the set of machine states that can have emitted it. Moore's refinement then merges states with the same future. Both
use sets of states only, so the result does not depend on probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.core.reading import read_json
from unmask.languages.answers import Answers
from unmask.languages.base import Language
from unmask.languages.interval import Interval
from unmask.languages.kernels.machine import Flags, Floats, Ints, Machine

MOST_STATES = 2**16
MOST_MOVES = 2**22  # states times symbols


@dataclass(frozen=True, eq=False)
class Automaton:
    """A deterministic automaton that starts in state 0; weights, if any, multiply along a path.

    Tokens that move alike in every state are one class: moves are of classes, so that vocabularies can be large.
    """

    moves: Ints  # (S, C): the next state, -1 if no accepted string goes on like this
    final: Flags  # (S): whether a string may end here
    weights: Floats | None = None  # (S, C)
    merged: Ints | None = None  # (V): the class of each token (default: each its own)

    def __repr__(self) -> str:
        return f"<Automaton of {self.states} states and {self.edges} edges over {self.vocabulary} symbols>"

    @cached_property
    def classes(self) -> Ints:
        return np.arange(self.moves.shape[1]) if self.merged is None else self.merged

    @property
    def states(self) -> int:
        return len(self.moves)

    @property
    def vocabulary(self) -> int:
        return len(self.classes)

    @property
    def edges(self) -> int:
        return int((self.moves >= 0)[:, self.classes].sum())

    def accepts(self, tokens: Tensor) -> Tensor:
        """Bool (B): whether each row of tokens (B, L) is accepted."""
        state = np.zeros(len(tokens), np.int64)
        for column in tokens.numpy().T:
            state = np.where(state >= 0, self.moves[state, self.classes[column]], -1)
        return torch.from_numpy((state >= 0) & self.final[state])

    def first_dead(self, given: Tensor) -> int | None:
        """The first position of given (L), V where hidden, up to which no string has a completion; None if one has."""
        ends: list[Flags] = [self.final]  # (S): whether a string can end exactly n tokens after each state
        for _ in range(len(given)):
            ends.append(np.any(np.append(ends[-1], False)[self.moves], axis=1))
        here = np.array([0])
        for position, token in enumerate(given.tolist()):
            here = here[ends[len(given) - position][here]]
            moves = self.moves[here] if token == self.vocabulary else self.moves[here, self.classes[token]]
            here = np.unique(moves[moves >= 0])
            if not ends[len(given) - position - 1][here].any():
                return position
        return None

    def log_count(self, length: int) -> float:
        """log of the number of accepted strings."""
        source, symbol = (self.moves[:, self.classes] >= 0).nonzero()
        target = self.moves[source, self.classes[symbol]]
        mass, log = (np.arange(self.states) == 0).astype(float), 0.0
        for _ in range(length):
            mass = np.bincount(target, mass[source], self.states)
            log += math.log(mass.sum())
            mass = mass / mass.sum()
        return log + math.log(mass[self.final].sum())


@lru_cache(maxsize=16)
def erased(automaton: Automaton) -> Automaton:
    """The automaton over C + 1 classes that also accepts a string with class C at some positions, if tokens fit there.

    A state is the set of states that some tokens at those positions can reach."""
    count = automaton.moves.shape[1]
    image = [[{one} - {-1} for one in row] for row in automaton.moves.tolist()]
    image = [[*row, set().union(*row)] for row in image]
    final = frozenset(np.flatnonzero(automaton.final).tolist())

    def step(states: frozenset[int], symbol: int) -> frozenset[int] | None:
        return frozenset().union(*(image[state][symbol] for state in states)) or None

    machine = explored(frozenset([0]), step, lambda states: not states.isdisjoint(final), count + 1)
    return Automaton(machine.moves[:, machine.classes], machine.final, None, automaton.classes)


def explored(
    start: Hashable,
    step: Callable[[Any, int], Hashable],
    final: Callable[[Any], bool],
    symbols: int,
    classes: Ints | None = None,
) -> Automaton:
    """The smallest automaton of all states that can be reached; step(state, symbol): the next state, or None.

    States are numbered in the order of their discovery, so equal automata get equal tables. classes: of tokens."""
    number: dict[Any, int] = {start: 0}
    queue: list[Any] = [start]
    rows = []
    for state in queue:  # grows while it is read
        row = []
        for symbol in range(symbols):
            following = step(state, symbol)
            if following is not None and following not in number:
                number[following] = len(queue)
                queue.append(following)
            row.append(-1 if following is None else number[following])
        rows.append(row)
        if len(queue) > MOST_STATES or len(queue) * symbols > MOST_MOVES:
            most = min(MOST_STATES, MOST_MOVES // symbols)
            problem = f"the automaton has more than {most} states"
            raise UnmaskError(f"{problem}; expected fewer. Use soft(order=2), or a simpler constraint.")
    return _minimal(np.array(rows), np.array([final(state) for state in queue]), classes)


def _minimal(moves: Ints, final: Flags, classes: Ints | None) -> Automaton:
    """Merge states with the same future (Moore 1956), then symbols with the same moves; drop states without future."""
    dead = len(moves)
    table = np.vstack([np.where(moves < 0, dead, moves), np.full((1, moves.shape[1]), dead)])
    group, count = np.append(final, False).astype(np.int64), 0
    while int(group.max()) + 1 > count:
        count = int(group.max()) + 1
        _, group = np.unique(np.column_stack([group, group[table]]), axis=0, return_inverse=True)
        group = group.reshape(-1)
    if group[0] == group[dead]:
        raise UnmaskError("the constraint allows no string; expected at least one")
    _, first = np.unique(group, return_index=True)
    firsts = np.sort(first[group[first] != group[dead]])  # the first state of each group
    number = np.full(len(first), -1)
    number[group[firsts]] = np.arange(len(firsts))
    merged, which = distinct_columns(number[group[table[firsts]]])
    return Automaton(merged, final[firsts], None, which if classes is None else which[classes])


def distinct_columns(table: Ints) -> tuple[Ints, Ints]:
    """(the distinct columns of a table (S, V) in the order of their first appearance, the number of each column)."""
    _, first, which = np.unique(table, axis=1, return_index=True, return_inverse=True)
    order = first.argsort()
    return np.ascontiguousarray(table[:, first[order]]), order.argsort()[which.reshape(-1)]


@lru_cache(maxsize=16)
def support(language: Language) -> Automaton:
    """The smallest automaton that accepts exactly the strings with q(x) > 0, of every length."""
    if isinstance(language, Answers):
        return _listed(language)
    machine = language.as_machine() if isinstance(language, Interval) else language.machine
    if machine is None:
        raise UnmaskError(f"{language.kind} has no automaton; expected a language that is a machine, or a list")
    return _support(machine)


def _support(machine: Machine) -> Automaton:
    """The subset construction; a state is a set of the machine's states, None before the first token."""
    following: list[set[int]] = [set() for _ in range(machine.states)]
    for source, target in zip(machine.edge_source.tolist(), machine.edge_target.tolist(), strict=True):
        following[source].add(target)
    ends = machine.column_start.tolist()
    emitting = [frozenset(machine.column_state[begin:end].tolist()) for begin, end in pairwise(ends)]
    first, last = (frozenset(np.flatnonzero(some > 0).tolist()) for some in (machine.initial, machine.final))

    @lru_cache(maxsize=1)
    def reached(states: frozenset[int] | None) -> frozenset[int]:
        return first if states is None else frozenset().union(*(following[state] for state in states))

    def step(states: frozenset[int] | None, symbol: int) -> frozenset[int] | None:
        return reached(states) & emitting[symbol] or None

    return explored(None, step, lambda states: states is not None and not states.isdisjoint(last), machine.vocabulary)


def _listed(language: Answers) -> Automaton:
    """The prefixes of the listed sequences."""
    full = set(map(tuple, language.answers.tolist()))
    known = {row[:end] for row in full for end in range(len(row) + 1)}

    def step(prefix: tuple[int, ...], symbol: int) -> tuple[int, ...] | None:
        return longer if (longer := (*prefix, symbol)) in known else None

    return explored((), step, full.__contains__, language.vocabulary)


def windows(language: Language, order: int, length: int) -> Automaton:
    """The n-gram of a language's pooled windows, as weights."""
    return of_windows(language.window_distribution(order, length).view(-1, language.vocabulary).numpy())


def of_windows(joint: Floats) -> Automaton:
    """Weights P(x_1 .. x_n) / (P(x_1 .. x_(n-1)) P(x_n)) of n-grams with probabilities (V^(n-1), V).

    A state is the last n - 1 tokens, or fewer at the start, with the weights of shorter windows; the first weighs 1."""
    size, levels = joint.shape[1], [joint]
    while len(levels[0]) > 1:
        levels.insert(0, levels[0].reshape(size, -1, size).sum(0))  # without the oldest token
    apart = [level.sum(1, keepdims=True) * level.sum(0) for level in levels[1:]]
    ratios = [
        np.divide(level, q, out=np.zeros_like(level), where=q > 0) for level, q in zip(levels[1:], apart, strict=True)
    ]
    every = np.vstack([np.ones((1, size)), *ratios])
    short = len(every) - len(joint)  # states of fewer tokens come first
    index, symbol = np.arange(len(every))[:, None], np.arange(size)
    deeper = index * size + 1 + symbol  # a trie: the children of a state
    shifted = short + (index - short) * size % len(joint) + symbol
    moves = np.where(index < short, deeper, shifted)
    return Automaton(np.where(every > 0, moves, -1), np.ones(len(every), bool), every)


class _Written(msgspec.Struct, forbid_unknown_fields=True):
    """An automaton in a file: moves[state] maps names of tokens, or their numbers, to states."""

    moves: list[dict[str, int]]
    final: list[int]
    vocabulary: int


def read(path: str | Path, names: tuple[str, ...] | None = None) -> Automaton:
    """The automaton of a JSON file: {"vocabulary": 3, "moves": [{"0": 1}, {"1": 0, "2": 1}], "final": [1]}."""
    form = read_json(path, _Written)
    states = range(len(form.moves))
    known = {name: token for token, name in enumerate(names or map(str, range(form.vocabulary)))}
    moves = {}
    for state, row in enumerate(form.moves):
        for name, target in row.items():
            if name not in known or target not in states:
                raise UnmaskError(f"{path}: state {state} moves by {name!r} to {target}; expected a token and a state")
            moves[state, known[name]] = target
    if not set(form.final) <= set(states):
        raise UnmaskError(f"{path}: final is {form.final}; expected states from 0 to {len(states) - 1}")
    return explored(0, lambda state, token: moves.get((state, token)), set(form.final).__contains__, form.vocabulary)
