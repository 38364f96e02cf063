"""What a trace does against a language, exactly: where its nats are lost, and which tokens cannot stand together.

Of a row x of which R stands and S is drawn at once, each token with the probability p_i that the trace tells:

    lost = sum_{i in S} log p_i - log q(x_S | x_R)

They sum to log p(x | luck) - log q(x | given), the row's share of KL(p || q): above 0 where drawn tokens agree
less than chance would have it, infinite from the round on in which no sequence is left, and below 0 where by luck they
agree. Where tokens are hidden again, what they had cost is given back: at any time the meter stands at
sum_{i shown} log p_i - log q(x_shown | given).

Two tokens of a round can only disagree where I(X_i; X_j | x_R) > 0. The first impossible round has a culprit: a token
that no sequence has there by itself, and which a network was wrong about; else two that exclude each other, the nearest
ones; else a smallest set of them, or, where there are too many sets, one of which none can be spared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice
from typing import TypeVar

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError, plain
from unmask.generation.trace import Round, Row, Trace
from unmask.languages import Language, LanguageLike, load

T = TypeVar("T")
AT_ONCE = 2**20  # tokens of contexts that are asked about together
MOST_ASKED = 2**25  # tokens K V L of contexts that are asked about for the pairs of a row; what is beyond tells none
MOST_SETS = 2**26  # tokens of the sets of one size that are looked through for a culprit
MOST_NEEDED = 256  # of what stood, the nearest to the guilty, that are tried one by one for whether they are needed
MOST_SHIFTED = 2**24  # tokens of contexts that are looked through for whether something can stand nowhere
LEAST = 1e-9  # nats; below it rounding is no dependence
MOST_TOLD = 4  # tokens that stood and are told one by one
LONGEST_SYMBOL = 24  # characters of a token within a sentence


@dataclass(frozen=True)
class Step:
    """What one round of a row was worth."""

    number: int
    lost: float  # nats; infinite where it made the row impossible, or left it so
    meter: float  # nats lost so far
    pairs: tuple[tuple[int, int, float], ...]  # positions i < j that it revealed, and their I(X_i; X_j | x_R) in nats


@dataclass(frozen=True)
class Reading:
    """What a row did against a language."""

    steps: tuple[Step, ...]
    impossible: int | None = None  # which of the steps, from 0, was the first after which no sequence was left
    guilty: tuple[int, ...] = ()  # the positions whose tokens cannot stand together there
    because: tuple[int, ...] = ()  # positions of what stood and is needed for that: without any of them they could
    why: str = ""  # the same in words, positions counted from 1

    @property
    def lost(self) -> float:
        """log p(x | luck) - log q(x | given) of what stands in the end, in nats."""
        return self.steps[-1].meter if self.steps else 0.0


def read(language: LanguageLike, trace: Trace, row: int) -> Reading:
    """What a row of a trace did against the language."""
    language = _of_trace(language, trace)
    told = trace.rows[row]
    language.check_length(told.length)
    stands = chain([dict(told.given)], (_tokens(one) for one in told.rounds()))
    evidence = _evidence(language, (_context(language, told, one) for one in stands)).tolist()
    if evidence[0] == -math.inf:
        raise UnmaskError(f"row {row} of the trace was given what no sequence of {language.kind} has")
    steps: list[Step] = []
    case: _Case | None = None
    first, meter, asked = None, 0.0, 0
    for k, one in enumerate(told.rounds()):
        before = meter
        meter = math.fsum(math.log(p) for _, p in one.after.values()) - (evidence[k + 1] - evidence[0])
        lost = math.inf if meter == math.inf else meter - before
        asked += len(one.revealed) * language.vocabulary * told.length if len(one.revealed) > 1 else 0
        pairs = tuple(_pairs(language, told, one)) if before < math.inf and asked <= MOST_ASKED else ()
        steps.append(Step(one.number, lost, meter, pairs))
        if first is None and meter == math.inf:
            first, case = k, _Case(language, trace, told, one)
    if case is None:
        return Reading(tuple(steps))
    guilty = case.culprit()
    because = case.needed(guilty)
    return Reading(tuple(steps), first, guilty, because, case.words(guilty, because))


def impossible(language: LanguageLike, trace: Trace) -> list[bool]:
    """Which rows end as what no sequence of the language has."""
    language = _of_trace(language, trace)
    found = [False] * len(trace.rows)
    for length in {row.length for row in trace.rows}:
        language.check_length(length)
        rows = [number for number, row in enumerate(trace.rows) if row.length == length]
        contexts = (_context(language, trace.rows[row], trace.rows[row].final) for row in rows)
        for row, dead in zip(rows, (_evidence(language, contexts) == -math.inf).tolist(), strict=True):
            found[row] = dead
    return found


def _of_trace(language: LanguageLike, trace: Trace) -> Language:
    """The language; an error where the trace has another vocabulary."""
    language = load(language)
    if trace.vocabulary != language.vocabulary:
        what = f"the trace is over {trace.vocabulary} symbols, and {language.kind} has {language.vocabulary}"
        raise UnmaskError(f"{what}; take the language that it was made on")
    return language


def _tokens(one: Round) -> dict[int, int]:
    return {position: token for position, (token, _) in one.after.items()}


def _context(language: Language, row: Row, stands: dict[int, int]) -> Tensor:
    """(L): what stands, V elsewhere."""
    context = torch.full((row.length,), language.vocabulary)
    context[list(stands)] = torch.tensor(list(stands.values()), dtype=torch.int64)
    return context


def _evidence(language: Language, contexts: Iterable[Tensor]) -> Tensor:
    """(B): log q(x_R) of contexts (L) each, a few of them at once."""
    rest = iter(contexts)
    first = next(rest)
    parts = batched(chain([first], rest), max(AT_ONCE // len(first), 1))
    return torch.cat([language.log_evidence(torch.stack(part)) for part in parts])


def _pairs(language: Language, row: Row, one: Round) -> Iterator[tuple[int, int, float]]:
    """(i, j, I(X_i; X_j | x_R)) of positions i < j that a round reveals, of those that depend on each other:

    q(x_i = a, x_j = b | x_R) = q(x_i = a | x_R) q(x_j = b | x_R, x_i = a), by a context for each i and a.
    """
    places, vocabulary = torch.tensor(sorted(set(one.revealed))), language.vocabulary
    size = len(places)
    if size < 2:
        return
    context = _context(language, row, one.stood)
    alone = language.posterior(context.unsqueeze(0), places)[0]  # (K, V)
    step = max(AT_ONCE // (vocabulary * (row.length + size * vocabulary)), 1)
    for first in range(0, size - 1, step):
        chosen = places[first : min(first + step, size - 1)]
        contexts = context.repeat(len(chosen), vocabulary, 1)
        contexts[torch.arange(len(chosen)), :, chosen] = torch.arange(vocabulary)
        given = language.posterior(contexts.flatten(0, 1), places).view(len(chosen), vocabulary, size, vocabulary)
        law = alone[first : first + len(chosen)]
        possible = (given > 0) & (law > 0)[:, :, None, None]
        ratio = torch.where(possible, given / alone, 1.0)
        nats = (law[:, :, None, None] * torch.where(possible, given, 0.0) * ratio.log()).sum((1, 3))  # (chosen, K)
        for i, row_of in enumerate(nats.tolist(), first):
            for j in range(i + 1, size):
                if row_of[j] > LEAST:
                    yield int(places[i]), int(places[j]), row_of[j]


class _Case:
    """The first round after which no sequence is left."""

    def __init__(self, language: Language, trace: Trace, row: Row, one: Round) -> None:
        self.language, self.trace, self.row, self.round = language, trace, row, one
        stands = _tokens(one)
        self.drawn = {position: stands[position] for position in sorted(set(one.revealed)) if position in stands}
        self.stood = {position: token for position, token in stands.items() if position not in self.drawn}
        self.context = _context(language, row, self.stood)

    def excluded(self, sets: Sequence[Sequence[int]], context: Tensor | None = None) -> list[bool]:
        """Which of these sets of drawn tokens no sequence has, beside what stood, or beside a context (L)."""
        contexts = (self.context if context is None else context).repeat(len(sets), 1)
        for number, positions in enumerate(sets):
            for position in positions:
                contexts[number, position] = self.drawn[position]
        return (_evidence(self.language, contexts) == -math.inf).tolist()

    def culprit(self) -> tuple[int, ...]:
        """Positions of a smallest set of tokens that excludes itself; of pairs the nearest."""
        every = tuple(self.drawn)
        for size in range(1, len(every)):
            if math.comb(len(every), size) * self.row.length > MOST_SETS:
                break
            sets: Iterable[tuple[int, ...]] = combinations(every, size)
            if size > 1:
                sets = sorted(sets, key=lambda one: (one[-1] - one[0], one))
            for part in batched(sets, max(AT_ONCE // self.row.length, 1)):
                found = self.excluded(part)
                if any(found):
                    return part[found.index(True)]
        return self._spared(every)

    def _spared(self, every: tuple[int, ...]) -> tuple[int, ...]:
        """The set without whatever it excludes itself without."""
        for position in every:
            fewer = tuple(one for one in every if one != position)
            if self.excluded([fewer])[0]:
                every = fewer
        return every

    def needed(self, guilty: tuple[int, ...]) -> tuple[int, ...]:
        """Positions of what stood, without any of which the guilty could stand together; the farthest are spared."""
        kept = dict(self.stood)
        farthest = sorted(kept, key=lambda one: -min(abs(one - other) for other in guilty))
        far, near = farthest[:-MOST_NEEDED], farthest[-MOST_NEEDED:]
        for some in (far, *([position] for position in near)):
            fewer = {position: token for position, token in kept.items() if position not in some}
            if some and self.excluded([guilty], _context(self.language, self.row, fewer))[0]:
                kept = fewer
        return tuple(sorted(kept))

    def words(self, guilty: tuple[int, ...], because: tuple[int, ...]) -> str:
        """What the guilty did, and why it cannot be."""
        rule = self._rule(sorted({*guilty, *because}), guilty, because)
        if len(guilty) == 1:
            at, p = guilty[0], self.round.after[guilty[0]][1]
            drawn = f"position {at + 1} was drawn as {self._symbol(at)}, to which the denoiser gave {p:.2g}"
            return f"{drawn}: no other token of its round is to blame; {rule}"
        places = [str(position + 1) for position in guilty]
        return f"positions {', '.join(places[:-1])} and {places[-1]} were drawn together; {rule}"

    def _rule(self, places: Sequence[int], guilty: tuple[int, ...], because: tuple[int, ...]) -> str:
        symbols = [self._symbol(position) for position in places]
        always = self._always(places)
        if self.language.width is not None and len(places) == 2:
            return self._bits(*places)
        if len(places) == 1:
            return f"the language never has {symbols[0]}" + ("" if always else " there")
        if places[-1] - places[0] == len(places) - 1:
            does = f"never continues with {symbols[-1]}" if always else f"does not continue with {symbols[-1]} there"
            return f"after {' '.join(symbols[:-1])} the language {does}"
        if len(places) == 2 and always:
            return f"{symbols[1]} never stands {places[1] - places[0]} places after {symbols[0]}"
        if len(because) > MOST_TOLD:
            return f"beside {len(because)} of the tokens that stood no sequence has {self._listed(guilty)}"
        beside = f"beside {self._listed(because)} " if because else ""
        return f"{beside}no sequence of the language has {self._listed(guilty)}"

    def _bits(self, first: int, second: int) -> str:
        """Of two places of an interval, counted from 1 within it: component b-1 at a and component a at b."""
        width, stands = int(self.language.width or 1), self.stood | self.drawn
        a, b = first % width + 1, second % width + 1
        bits = stands[first] >> (b - 2) & 1, stands[second] >> (a - 1) & 1
        one, other = self._listed((first,)), self._listed((second,))
        return f"they share a bit, and {one} says that it is {bits[0]}, {other} that it is {bits[1]}"

    def _always(self, places: Sequence[int]) -> bool:
        """Whether these tokens cannot stand so, at these distances, anywhere in a sequence of this length."""
        stands, width = self.stood | self.drawn, places[-1] - places[0]
        if (self.row.length - width) * self.row.length > MOST_SHIFTED:
            return False
        contexts = self.language.blank(self.row.length - width, self.row.length)
        for start in range(len(contexts)):
            for position in places:
                contexts[start, position - places[0] + start] = stands[position]
        return bool((_evidence(self.language, contexts) == -math.inf).all())

    def _symbol(self, position: int) -> str:
        return quoted(self.trace.symbol((self.stood | self.drawn)[position]))

    def _listed(self, positions: Sequence[int]) -> str:
        said = [f"{self._symbol(position)} at {position + 1}" for position in positions]
        return f"{', '.join(said[:-1])} and {said[-1]}" if len(said) > 1 else said[0]


def quoted(symbol: str) -> str:
    """A token's text as sentences show it: in quotes unless it is a word or a sign, and no more than its beginning."""
    shown = plain(symbol if len(symbol) <= LONGEST_SYMBOL else f"{symbol[:LONGEST_SYMBOL]}..")
    return shown if shown and not any(c.isspace() for c in shown) else f"\u201c{shown}\u201d"


def batched(sets: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of so many, and one of what is left."""
    rest = iter(sets)
    while part := list(islice(rest, size)):
        yield part
