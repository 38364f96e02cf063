"""Regular expressions over the text of tokens, as automata over tokens.

Python's own parser reads a pattern, which must match a whole text. A character is the bytes of its UTF-8 form, because
a token may hold a part of one. Counts are written out as copies, so that the pattern becomes a graph of nodes with
moves by bytes (Thompson 1968). A state of the automaton is the set of nodes that a text can lead to. Bytes that the
pattern never distinguishes are one symbol. A token moves by all bytes of its text.

Both the nodes and the work are limited: a short pattern, such as (a{1,1000}){1,1000}, can need any amount of either.
"""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from re import _compiler, _parser  # type: ignore[attr-defined, unused-ignore]  # as hypothesis does
from typing import Any, NoReturn

import numpy as np

from unmask.core.entries import perhaps
from unmask.core.errors import UnmaskError, cut, shown
from unmask.languages.automata import MOST_MOVES, Automaton, Moves, Nothing, explored, smallest
from unmask.languages.kernels.machine import Flags, Ints

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"  # the text of tokens without names
AT_ONCE = 2**22  # moves of tokens that are compared at once
EXPECTED = "expected characters, classes, groups, | and counts; it always matches the whole text"
LONGEST = 2**20  # characters of a pattern
MOST_NODES = 2**18  # of a pattern, its counts written out
MOST_WORK = 2**21  # nodes and characters that its states look up: at most two seconds
MOST_LOOKUPS = 2**30  # moves of all characters of all tokens: at most ten seconds
LAST = 0x10FFFF  # the largest code of a character
SURROGATES = range(0xD800, 0xE000)  # codes that are no characters
OF_SET = 2**11  # work: the codes of a set of characters are looked up in some 10 ms
Bytes = frozenset[int]
Nodes = frozenset[int]
Text = str | bytes
END = 0  # the node behind the pattern


def utf8(low: int, high: int) -> list[tuple[range, ...]]:
    """The bytes of the characters from one code to another, as ranges of the first byte, the second, and so on."""
    for last in (0x7F, 0x7FF, 0xFFFF):  # of one, two and three bytes
        if low <= last < high:
            return utf8(low, last) + utf8(last + 1, high)

    if high < 0x80:
        return [(range(low, high + 1),)]
    for bits in (6, 12, 18):  # of the last bytes, which must take all of their values or have the same ones before
        mask = (1 << bits) - 1
        if low >> bits != high >> bits:
            if low & mask:
                return utf8(low, low | mask) + utf8((low | mask) + 1, high)
            if high & mask != mask:
                return utf8(low, (high & ~mask) - 1) + utf8(high & ~mask, high)
    first, last_one = chr(low).encode(), chr(high).encode()
    return [tuple(range(a, b + 1) for a, b in zip(first, last_one, strict=True))]


@lru_cache(maxsize=1)
def characters() -> str:
    """Every character, at the index of its code."""
    return "".join(map(chr, range(LAST + 1)))


class Graph:
    """The nodes of a pattern over an alphabet of bytes. From each one a set of bytes leads on, or the empty text."""

    def __init__(self, pattern: str, alphabet: Bytes) -> None:
        self.pattern = pattern
        self.alphabet = alphabet
        self.work = 0
        self.sets: dict[Bytes, int] = {}  # the different sets of bytes, with their numbers
        self.known: dict[str, list[tuple[int, ...]]] = {}  # the sets of each byte in turn, by the parts of the pattern
        self.by_set: list[tuple[int, int] | None] = [None]  # of each node: the set that leads on, and the next node
        self.by_empty: list[Sequence[int]] = [()]  # of each node: those to which the empty text leads

        if len(pattern) > LONGEST:
            self.refuse(f"has {len(pattern)} characters; expected at most {LONGEST}")
        try:
            with warnings.catch_warnings(action="ignore", category=FutureWarning):  # of a bracket within brackets
                self.whole = _parser.parse(pattern, re.DOTALL | re.ASCII)
            self.start = self.sequence(self.whole, END)
        except (re.error, RecursionError, OverflowError, ValueError) as error:  # ValueError: of flags
            where = f"breaks at character {error.pos}" if isinstance(error, re.error) else "cannot be read"
            raise UnmaskError(f"the pattern {shown(pattern)} {where}: {error}; {EXPECTED}") from error
        self.closed: dict[int, Nodes] = {}
        self.symbols, self.symbol = self.distinguished()

    def refuse(self, problem: str) -> NoReturn:
        raise UnmaskError(f"the pattern {shown(self.pattern)} {problem}. Pass a simpler one, or a machine.")

    def spend(self, work: int) -> None:
        """Count the work, or refuse the pattern."""
        self.work += work
        if self.work > MOST_WORK:
            self.refuse(f"needs over {MOST_WORK} steps to become an automaton; expected fewer counts or choices")

    def node(self, by_set: tuple[int, int] | None, by_empty: Sequence[int] = ()) -> int:
        if len(self.by_set) >= MOST_NODES:
            self.refuse(f"has over {MOST_NODES} characters, with its counts written out; expected fewer")
        self.by_set.append(by_set)
        self.by_empty.append(by_empty)
        return len(self.by_set) - 1

    def sequence(self, items: Any, then: int) -> int:
        """The node from which these items lead to another one."""
        for part in reversed(items):
            then = self.item(part, then)
        return then

    def item(self, part: Any, then: int) -> int:
        operation, value = part
        match str(operation):
            case "BRANCH":
                return self.node(None, [self.sequence(part, then) for part in value[1]])
            case "SUBPATTERN" if not value[1] and not value[2]:  # without flags of its own
                return self.sequence(value[3], then)
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, part = value
                return self.repeat(least, most, part, then)
            case "LITERAL" | "NOT_LITERAL" | "IN" | "ANY":
                forms = self.forms(part)
                if len(forms) == 1:
                    return self.chain(forms[0], then)
                return self.node(None, [self.chain(form, then) for form in forms])
        raise UnmaskError(f"the pattern {shown(self.pattern)} has {str(operation).lower()}; {EXPECTED}")

    def repeat(self, least: int, most: Any, part: Any, then: int) -> int:
        """Copies of a part. Each that may be missing is within the one before it, so that it has only two exits."""
        after = then
        if most is _parser.MAXREPEAT:
            then = self.node(None)
            self.by_empty[then] = (self.sequence(part, then), after)
        else:
            for _ in range(most - least):
                then = self.node(None, (self.sequence(part, then), after))
        for _ in range(least):
            self.spend(1)  # a part without characters has no nodes to count
            then = self.sequence(part, then)
        return then

    def chain(self, form: tuple[int, ...], then: int) -> int:
        """The node from which these sets of bytes, one after another, lead to another one."""
        for number in reversed(form):
            then = self.node((number, then))
        return then

    def forms(self, part: Any) -> list[tuple[int, ...]]:
        """The sets of the bytes of the characters that a part of the pattern stands for."""
        name = repr(part)
        if name not in self.known:
            by_tail = defaultdict[tuple[Bytes, ...], set[int]](set)  # the first bytes, by the bytes behind them
            for low, high in self.codes(part):
                for first, *rest in utf8(low, high):
                    by_tail[tuple(map(self.alphabet.intersection, rest))].update(first)
            forms = [(self.alphabet.intersection(first), *rest) for rest, first in by_tail.items()]
            written = [form for form in forms if all(form)] or [(frozenset(),)]
            self.known[name] = [tuple(self.sets.setdefault(one, len(self.sets)) for one in form) for form in written]
        return self.known[name]

    def codes(self, part: Any) -> Iterator[tuple[int, int]]:
        """The ranges of the codes of characters that a part of the pattern stands for."""
        operation, value = part
        flags = self.whole.state.flags
        ranges = [(value, value)]
        if str(operation) != "LITERAL" or flags & re.IGNORECASE:
            self.spend(OF_SET)
            one = _parser.SubPattern(self.whole.state, [part])
            several = _parser.SubPattern(self.whole.state, [(_parser.MAX_REPEAT, (1, _parser.MAXREPEAT, one))])
            runs = _compiler.compile(several, flags).finditer(characters())
            ranges = [(run.start(), run.end() - 1) for run in runs]

        for low, high in ranges:
            if low < SURROGATES.start:
                yield low, min(high, SURROGATES.start - 1)
            if high >= SURROGATES.stop:
                yield max(low, SURROGATES.stop), high

    def distinguished(self) -> tuple[list[list[int]], dict[int, int]]:
        """(the symbols of each set, the symbol of each byte): bytes in the same sets are one symbol."""
        kinds: dict[int, list[int]] = {sign: [] for sign in sorted(self.alphabet)}
        for signs, number in self.sets.items():
            for sign in signs:
                kinds[sign].append(number)

        symbols: list[list[int]] = [[] for _ in self.sets]
        numbers: dict[tuple[int, ...], int] = {}
        for kind in map(tuple, kinds.values()):
            if kind not in numbers:
                numbers[kind] = len(numbers)
                for number in kind:
                    symbols[number].append(numbers[kind])
        return symbols, {sign: numbers[tuple(kind)] for sign, kind in kinds.items()}

    def closure(self, node: int) -> Nodes:
        """The nodes with a set, and the end, to which the empty text leads from a node."""
        if node not in self.closed:
            seen, stack = {node}, [node]
            while stack:
                new = [one for one in self.by_empty[stack.pop()] if one not in seen]
                seen.update(new)
                stack += new
            self.spend(len(seen))
            self.closed[node] = frozenset(one for one in seen if one == END or self.by_set[one] is not None)
        return self.closed[node]

    def follow(self, nodes: Nodes) -> Moves:
        """The nodes behind each symbol."""
        closed = defaultdict[int, list[Nodes]](list)  # nodes behind each set
        for move in map(self.by_set.__getitem__, nodes):
            if move is not None:
                number, then = move
                closed[number].append(self.closure(then))
        self.spend(sum(len(one) for some in closed.values() for one in some))

        behind = {number: frozenset().union(*some) for number, some in closed.items()}
        sets = defaultdict[int, list[int]](list)  # those with each symbol
        for number in behind:
            for symbol in self.symbols[number]:
                sets[symbol].append(number)

        union = {some: frozenset().union(*map(behind.__getitem__, some)) for some in set(map(tuple, sets.values()))}
        self.spend(len(nodes) + len(sets) + sum(map(len, union.values())))
        return [(symbol, union[tuple(some)]) for symbol, some in sets.items()]


def regex(
    pattern: str, vocabulary: int, names: Sequence[Text] | None = None, begins: Sequence[Text] | None = None
) -> Automaton:
    """The automaton of the token strings whose joined text matches the pattern.

    names: the text of each token, or its bytes; one without text is never allowed. (default: 0 to 9, then a to z)
    begins: the texts of the first token of a string, where a tokenizer writes no space. (default: the same)
    """
    return _regex(pattern, vocabulary, perhaps(tuple, names), perhaps(tuple, begins))


@lru_cache(maxsize=16)
def _regex(pattern: str, vocabulary: int, names: tuple[Text, ...] | None, begins: tuple[Text, ...] | None) -> Automaton:
    texts = _bytes(names or DIGITS[:vocabulary])
    if len(texts) != vocabulary:
        raise UnmaskError(
            f"{vocabulary} tokens have no names for a pattern", f"expected names, or at most {len(DIGITS)} tokens"
        )

    first = _bytes(begins or texts)
    every = texts if first == texts else texts + first
    try:
        letters, column = _letters(Graph(pattern, frozenset(b"".join(every))))
        moves, classes = _by_tokens(letters, [tuple(map(column.__getitem__, text)) for text in every])
        if first == texts:
            return smallest(moves, letters.final, classes)
        quiet = np.array([bool(text) and not start for text, start in zip(texts, first, strict=True)])
        return _beginning(moves, letters.final, classes[:vocabulary], classes[vocabulary:], quiet)
    except Nothing as error:
        raise _unwritable(pattern, every) from error


def _bytes(texts: Sequence[Text]) -> tuple[bytes, ...]:
    return tuple(text.encode() if isinstance(text, str) else text for text in texts)


def _letters(graph: Graph) -> tuple[Automaton, dict[int, int]]:
    """(the automaton over bytes, the class of each byte)."""
    size = max(graph.symbol.values(), default=0) + 1
    letters = explored(graph.closure(graph.start), graph.follow, lambda nodes: END in nodes, size)
    return letters, {sign: int(letters.classes[symbol]) for sign, symbol in graph.symbol.items()}


def _unwritable(pattern: str, texts: Sequence[bytes]) -> UnmaskError:
    """The error of a pattern that no tokens write: how far they come, and the rest."""
    letters, column = _letters(Graph(pattern, frozenset(range(256))))
    sign = {kind: bytes([sign]) for sign, kind in reversed(column.items())}
    moves, _ = _by_tokens(letters, [tuple(map(column.__getitem__, text)) for text in texts])

    reached = [0]
    for state in reached:  # grows while it is read
        reached += sorted(set(moves[state][moves[state] >= 0].tolist()).difference(reached))

    by_text = {0: b""}  # the shortest text to each state
    for state in (queue := [0]):
        for kind, target in enumerate(letters.moves[state].tolist()):
            if target >= 0 and target not in by_text:
                by_text[target] = by_text[state] + sign[kind]
                queue.append(target)

    furthest = max(reached, key=lambda state: len(by_text[state]))
    then = {furthest: b""}  # the shortest text from there
    for state in (queue := [furthest]):
        if letters.final[state]:
            break
        for kind, target in enumerate(letters.moves[state].tolist()):
            if target >= 0 and target not in then:
                then[target] = then[state] + sign[kind]
                queue.append(target)

    before = shown(cut(by_text[furthest].decode(errors="replace")))
    rest = shown(cut(then[state].decode(errors="replace")))
    problem = f"no tokens write a text of the constraint: after {before} none goes on with {rest}"
    return UnmaskError(f"{problem}. Expected a text of these tokens. Change the constraint, or the tokenizer.")


def _beginning(moves: Ints, final: Flags, inside: Ints, first: Ints, quiet: Flags) -> Automaton:
    """The automaton whose first token moves by its first class (V); moves (S, C) of the others.

    quiet (V): tokens that write nothing at the start, such as a space that a tokenizer leaves out there."""
    kinds, which = np.unique(np.stack([inside, first, quiet]), axis=1, return_inverse=True)
    shifted = np.where(moves < 0, -1, moves + 1)  # the new start is state 0, and the old one state 1
    start = np.where(kinds[2] > 0, 1, shifted[0, kinds[1]])
    return smallest(np.vstack([start, shifted[:, kinds[0]]]), np.append(final[:1], final), which.reshape(-1))


def _by_tokens(letters: Automaton, texts: list[tuple[int, ...]]) -> tuple[Ints, Ints]:
    """(moves by classes of tokens (S, C), the class of each token) of tokens, each a text of classes of characters.

    Only states from which the first character goes on are followed, which are few: most states are within a literal.
    """
    states, stay = letters.moves.shape
    table = np.full((states + 1, stay + 1), states)  # a state without a future, and a class that stays
    table[:states, :stay] = np.where(letters.moves < 0, states, letters.moves)
    table[:, stay] = np.arange(states + 1)

    begins = defaultdict[int, list[tuple[int, ...]]](list)  # texts by their first character, short ones first
    for text in sorted(set(texts), key=len):
        if text:
            begins[text[0]].append(text)

    sources = {first: np.flatnonzero(table[:states, first] < states) for first in begins}
    if sum(len(sources[first]) * sum(map(len, some)) for first, some in begins.items()) > MOST_LOOKUPS:
        raise UnmaskError(
            f"{states} states of the constraint and {len(texts)} tokens are too many to combine",
            f"expected at most {MOST_LOOKUPS} moves",
            "Pass a simpler constraint.",
        )

    rows: dict[bytes, int] = {b"": 0}  # the class of each set of moves; class 0 has none
    moves = [np.full(states, -1)]
    classes: dict[tuple[int, ...], int] = {(): 0}
    for first, some in begins.items():
        source = sources[first]
        size = max(AT_ONCE // max(len(source), 1), 1)
        for part in (some[at : at + size] for at in range(0, len(some), size)):
            padded = np.array([text + (stay,) * (len(part[-1]) - len(text)) for text in part])
            which, begun = (axis.reshape(-1) for axis in np.indices((len(part), len(source))))
            state = table[source[begun], first]
            for column in padded.T[1:]:
                state = table[state, column[which]]
                going = state < states
                which, begun, state = which[going], begun[going], state[going]

            ends = np.searchsorted(which, np.arange(len(part) + 1))
            for text, (low, high) in zip(part, pairwise(ends), strict=True):
                whole = np.stack([source[begun[low:high]], state[low:high]])
                classes[text] = rows.setdefault(whole.tobytes(), len(rows))
                if classes[text] == len(moves):
                    moves.append(np.full(states, -1))
                    moves[-1][whole[0]] = whole[1]

            if len(moves) * states > MOST_MOVES:
                raise UnmaskError(
                    f"{states} states separate over {len(moves) - 1} classes of tokens",
                    f"expected at most {MOST_MOVES // states}",
                    "Pass a simpler constraint.",
                )

    used, begin, which = np.unique(list(map(classes.__getitem__, texts)), return_index=True, return_inverse=True)
    order = begin.argsort()  # a class is numbered by its first token
    return np.stack([moves[row] for row in used[order]], 1), order.argsort()[which]
