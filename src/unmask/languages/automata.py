"""Deterministic automata over tokens: the strings that a language allows, as the smallest table of moves.

The support of a machine is a regular language. The subset construction makes it deterministic: the state after a prefix
is the set of machine states that can have emitted it. Then states with the same future are merged (refinement.py). Both
use sets of states only, so the result does not depend on probabilities.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any

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
from unmask.languages.refinement import futures

Moves = Iterable[tuple[int, Hashable]]
MOST_STATES = 2**16
MOST_MOVES = 2**22  # states times symbols


class Nothing(UnmaskError):
    """A constraint allows no string."""


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
        mass = (np.arange(self.states) == 0).astype(float)
        log = 0.0
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

    image: list[list[set[int]]] = []  # of each state: the next states by each class, then by any
    for row in automaton.moves.tolist():
        sets = [{one} - {-1} for one in row]
        image.append([*sets, set().union(*sets)])
    final = frozenset(np.flatnonzero(automaton.final).tolist())

    def follow(states: frozenset[int]) -> Moves:
        for symbol in range(count + 1):
            if following := frozenset().union(*(image[state][symbol] for state in states)):
                yield symbol, following

    try:
        machine = explored(frozenset([0]), follow, lambda states: not states.isdisjoint(final), count + 1)
    except UnmaskError as error:
        raise UnmaskError(
            f"draw 'alone' follows sets of the constraint's {automaton.states} states, and these are too many",
            f"expected at most {MOST_STATES}",
            "Use draw 'given' or 'fitted'.",
        ) from error
    return Automaton(machine.moves[:, machine.classes], machine.final, None, automaton.classes)


def explored(start: Hashable, follow: Callable[[Any], Moves], final: Callable[[Any], bool], symbols: int) -> Automaton:
    """The smallest automaton of all states that can be reached; follow(state): each symbol with its next state."""
    most = min(MOST_STATES, MOST_MOVES // symbols)
    number: dict[Any, int] = {start: 0}
    queue: list[Any] = [start]
    edges: list[tuple[int, int, int]] = []
    for source, state in enumerate(queue):  # grows while it is read
        for symbol, following in follow(state):
            target = number.setdefault(following, len(queue))
            if target == len(queue):
                queue.append(following)
            edges.append((source, symbol, target))

        if len(queue) > most:
            raise UnmaskError(
                f"the automaton has more than {most} states",
                "expected fewer",
                "Use soft(order=2), or a simpler constraint.",
            )

    moves = np.full((len(queue), symbols), -1)
    tail, label, head = np.array(edges, np.int64).reshape(-1, 3).T
    moves[tail, label] = head
    return smallest(moves, np.array(list(map(final, queue))))


def smallest(moves: Ints, final: Flags, classes: Ints | None = None) -> Automaton:
    """Merge states with the same future, then tokens with the same moves; drop states without a future.

    classes: the column of each token (default: each its own).
    """
    states, groups = futures(moves, final)
    if groups[0] < 0:
        raise Nothing("the constraint allows no string; expected at least one")
    table = np.append(groups, -1)[moves[states]]
    merged, which = distinct_columns(table)
    return Automaton(merged, final[states], None, which if classes is None else which[classes])


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
    emitting = [frozenset(some.tolist()) for some in np.split(machine.column_state, machine.column_start[1:-1])]
    first = frozenset(np.flatnonzero(machine.initial > 0).tolist())
    last = frozenset(np.flatnonzero(machine.final > 0).tolist())

    def follow(states: frozenset[int] | None) -> Moves:
        every = first
        if states is not None:
            every = frozenset().union(*map(following.__getitem__, states))
        for symbol, emitted in enumerate(emitting):
            if some := every & emitted:
                yield symbol, some

    return explored(None, follow, lambda states: states is not None and not states.isdisjoint(last), machine.vocabulary)


def _listed(language: Answers) -> Automaton:
    """The prefixes of the listed sequences."""
    full = set(map(tuple, language.answers.tolist()))
    longer: dict[tuple[int, ...], dict[int, tuple[int, ...]]] = defaultdict(dict)
    for row in full:
        for end, symbol in enumerate(row):
            longer[row[:end]][symbol] = row[: end + 1]
    return explored((), lambda prefix: longer[prefix].items(), full.__contains__, language.vocabulary)


def windows(language: Language, order: int, length: int) -> Automaton:
    """The n-gram of a language's pooled windows, as weights."""
    return of_windows(language.window_distribution(order, length).view(-1, language.vocabulary).numpy())


def of_windows(joint: Floats) -> Automaton:
    """Weights P(x_1 .. x_n) / (P(x_1 .. x_(n-1)) P(x_n)) of n-grams with probabilities (V^(n-1), V).

    A state is the last n - 1 tokens, or fewer at the start, with the weights of shorter windows; the first weighs 1."""
    size = joint.shape[1]
    levels = [joint]
    while len(levels[0]) > 1:
        levels.insert(0, levels[0].sum(1).reshape(-1, size))  # without the newest: short windows begin a string

    ratios = [np.ones((1, size))]
    for level in levels[1:]:
        apart = level.sum(1, keepdims=True) * level.sum(0)
        ratios.append(np.divide(level, apart, out=np.zeros_like(level), where=apart > 0))
    every = np.vstack(ratios)

    # states of fewer tokens come first, as a trie: the children of a state follow each other
    short = len(every) - len(joint)
    index = np.arange(len(every))[:, None]
    symbol = np.arange(size)
    deeper = index * size + 1 + symbol
    shifted = short + (index - short) * size % len(joint) + symbol
    moves = np.where(index < short, deeper, shifted)
    return Automaton(np.where(every > 0, moves, -1), np.ones(len(every), bool), every)


class _Written(msgspec.Struct, forbid_unknown_fields=True):
    """An automaton in a file: moves[state] maps names of tokens, or their numbers, to states."""

    moves: list[dict[str, int]]
    final: list[int]
    vocabulary: Annotated[int, msgspec.Meta(ge=1, le=MOST_MOVES)]


def read(path: str | Path, names: tuple[str, ...] | None = None) -> Automaton:
    """The automaton of a JSON file: {"vocabulary": 3, "moves": [{"0": 1}, {"1": 0, "2": 1}], "final": [1]}."""
    form = read_json(path, _Written)
    size = form.vocabulary
    states = range(len(form.moves))
    most = min(MOST_STATES, MOST_MOVES // max(size, 1))
    if not 0 < len(states) <= most:  # before a list of tokens is built
        raise UnmaskError(f"{path} has {len(states)} states of {size} tokens; expected 1 to {most} states")
    if names is not None and len(names) != size:
        raise UnmaskError(f"{path} has a vocabulary of {size}; expected {len(names)}, as many as there are names")

    known = {name: token for token, name in enumerate(names or map(str, range(size)))}
    for state, row in enumerate(form.moves):
        for name, target in row.items():
            if name not in known or target not in states:
                raise UnmaskError(f"{path}: state {state} moves by {name!r} to {target}; expected a token and a state")
    if not set(form.final) <= set(states):
        raise UnmaskError(f"{path}: final is {form.final}; expected states from 0 to {len(states) - 1}")

    def follow(state: int) -> Moves:
        return ((known[name], target) for name, target in form.moves[state].items())

    return explored(0, follow, set(form.final).__contains__, size)
