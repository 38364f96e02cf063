"""Analysis of a trace, step by step: the nats lost, and the tokens that contradict each other.

By a language (`read`) it is exact. A step reveals tokens S of a row x next to the tokens R, each with the probability
p_i in the trace:

    lost = sum_{i in S} log p_i - log q(x_S | x_R)

The sum over steps is log p(x | seed) - log q(x | given), the contribution of the row to KL(p || q). It is positive if
the tokens agree less than under q, negative if they agree more by chance, and infinite from the step on after which no
completion exists. If tokens are hidden again, their loss is subtracted: at any time the meter is
sum_{i shown} log p_i - log q(x_shown | given).

Two tokens of a step can contradict each other only if I(X_i; X_j | x_R) > 0. The culprit of the first impossible step
is a token that is impossible by itself: an error of the network. Without such a token it is the nearest pair that
excludes each other; else a smallest such set, or a minimal one if there are too many sets.

By the model that wrote the trace (`read_by_model`), with its own conditionals in place of a language, a step of n > 1
tokens takes 2n model calls:

    lost = sum_{i in S} log c(x_i | x_R) - log c(x_S | x_R), the second token by token from left to right
    pair   the larger of KL(c_i(. | x_R, x_j) || c_i(. | x_R)) and the same for j given i
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice
from typing import TypeVar

import torch
from torch import Tensor

from unmask.core import entries
from unmask.core.errors import UnmaskError, plain
from unmask.core.threads import tracked
from unmask.denoisers import Denoiser
from unmask.diagnosis.gap.measure import check_vocabulary
from unmask.diagnosis.gap.path import Reader, of_trace
from unmask.languages import Language, LanguageLike, load
from unmask.samplers.trace import Row, Step, Trace

T = TypeVar("T")
AT_ONCE = 2**20  # tokens of contexts evaluated together
MOST_PAIR_TOKENS = 2**25  # largest K V L of contexts for the pairs of a row; later steps have no pairs
MOST_SETS = 2**26  # tokens of the sets of one size that are searched for a culprit
MOST_TRIED = 256  # earlier tokens, the nearest to the culprit, that are tested one by one
MOST_SHIFTED = 2**24  # tokens of contexts that test whether a set is impossible at every position
LEAST = 1e-9  # nats; smaller values are rounding errors
LONGEST_SYMBOL = 24  # characters of a token within a sentence
EXCLUDED = "the model gives a token of this step probability 0 once it sees the others"
Pairs = tuple[tuple[int, int, float], ...]  # revealed positions i < j, and the nats of their dependence


@dataclass(frozen=True)
class StepLoss:
    """Loss of one step of a row."""

    number: int
    lost: float  # nats; infinite if the row is impossible after the step
    meter: float  # nats lost so far
    pairs: Pairs  # I(X_i; X_j | x_R)


@dataclass(frozen=True)
class Reading:
    """Analysis of a row."""

    steps: tuple[StepLoss, ...]
    impossible: int | None = None  # index of the first step, from 0, after which no completion exists
    guilty: tuple[int, ...] = ()  # positions whose tokens contradict each other
    because: tuple[int, ...] = ()  # positions of earlier tokens without which they would not
    why: str = ""  # the same as a sentence, positions from 1

    @property
    def lost(self) -> float:
        """log p(x | seed) - log q(x | given) of the final row, in nats."""
        return self.steps[-1].meter if self.steps else 0.0


def read(language: LanguageLike, trace: Trace, row: int) -> Reading:
    """Analyse a row of a trace under a language."""
    language = _of_trace(language, trace)
    sequence = trace.rows[row]
    language.check_length(sequence.length)
    states = chain([dict(sequence.given)], map(_tokens, sequence.steps()))
    evidence = _evidence(language, sequence.length, (_context(language, sequence, one) for one in states)).tolist()
    if evidence[0] == -math.inf:
        raise UnmaskError(f"row {row} of the trace has given tokens that are impossible under {language.kind}")

    steps: list[StepLoss] = []
    meter = 0.0
    size = 0
    for k, one in enumerate(sequence.steps()):
        before = meter
        meter = math.fsum(math.log(p) for _, p in one.after.values()) - (evidence[k + 1] - evidence[0])
        lost = math.inf if meter == math.inf else meter - before

        if len(one.revealed) > 1:
            size += len(one.revealed) * language.vocabulary * sequence.length
        pairs = tuple(_pairs(language, sequence, one)) if before < math.inf and size <= MOST_PAIR_TOKENS else ()
        steps.append(StepLoss(one.number, lost, meter, pairs))

    first = _first(steps)
    if first is None:
        return Reading(tuple(steps))
    case = _Case(language, trace, sequence, next(islice(sequence.steps(), first, None)))
    guilty = case.culprit()
    because = case.needed(guilty)
    return Reading(tuple(steps), first, guilty, because, case.words(guilty, because))


def _first(steps: Sequence[StepLoss]) -> int | None:
    """The index of the first step after which the row is impossible."""
    return next((k for k, step in enumerate(steps) if step.meter == math.inf), None)


def impossible(language: LanguageLike, trace: Trace) -> list[bool]:
    """Whether each row ends as an impossible sequence."""
    language = _of_trace(language, trace)
    verdicts = torch.zeros(len(trace.rows), dtype=torch.bool)
    for length in set(entries.column(trace.rows, "length")):
        language.check_length(length)
        rows = [number for number, row in enumerate(trace.rows) if row.length == length]
        contexts = (_context(language, trace.rows[row], trace.rows[row].final) for row in rows)
        verdicts[rows] = _evidence(language, length, contexts) == -math.inf
    return verdicts.tolist()


def _of_trace(language: LanguageLike, trace: Trace) -> Language:
    language = load(language)
    trace.check_likely()
    if trace.vocabulary != language.vocabulary:
        raise UnmaskError(
            f"the trace has {trace.vocabulary} symbols, {language.kind} has {language.vocabulary}. "
            "Pass the language of the trace"
        )
    return language


def _tokens(one: Step) -> dict[int, int]:
    return {position: token for position, (token, _) in one.after.items()}


def _context(language: Language, row: Row, shown: dict[int, int]) -> Tensor:
    """(L): shown tokens, V elsewhere."""
    context = torch.full((row.length,), language.vocabulary)
    context[list(shown)] = torch.tensor(list(shown.values()), dtype=torch.int64)
    return context


def _evidence(language: Language, length: int, contexts: Iterable[Tensor]) -> Tensor:
    """(B): log q(x_R) of contexts (L), computed in batches."""
    parts = batched(contexts, max(AT_ONCE // length, 1))
    return torch.cat([language.log_evidence(torch.stack(part)) for part in parts])


def _pairs(language: Language, row: Row, one: Step) -> Iterator[tuple[int, int, float]]:
    """(i, j, I(X_i; X_j | x_R)) of dependent positions i < j that a step reveals:

    q(x_i = a, x_j = b | x_R) = q(x_i = a | x_R) q(x_j = b | x_R, x_i = a), with one context for each i and a.
    """
    places = torch.tensor(sorted(set(one.revealed)))
    vocabulary = language.vocabulary
    size = len(places)
    if size < 2:
        return
    context = _context(language, row, one.context)
    alone = language.posterior(context.unsqueeze(0), places)[0]  # (K, V)

    step = max(AT_ONCE // (vocabulary * (row.length + size * vocabulary)), 1)
    for first in range(0, size - 1, step):
        chosen = places[first : min(first + step, size - 1)]
        contexts = context.repeat(len(chosen), vocabulary, 1)
        contexts[torch.arange(len(chosen)), :, chosen] = torch.arange(vocabulary)
        given = language.posterior(contexts.flatten(0, 1), places).view(len(chosen), vocabulary, size, vocabulary)

        distribution = alone[first : first + len(chosen)]
        possible = (given > 0) & (distribution > 0)[:, :, None, None]
        ratio = torch.where(possible, given / alone, 1.0)
        joint = distribution[:, :, None, None] * torch.where(possible, given, 0.0)  # (chosen, V, K, V)
        nats = (joint * ratio.log()).sum((1, 3))  # (chosen, K)

        for i, j in (nats.triu(first + 1) > LEAST).nonzero().tolist():
            yield int(chosen[i]), int(places[j]), float(nats[i, j])


class _Case:
    """The first step after which no completion exists."""

    def __init__(self, language: Language, trace: Trace, row: Row, one: Step) -> None:
        self.language, self.trace, self.row, self.step = language, trace, row, one
        self.stood = _tokens(one)
        self.drawn = {position: self.stood.pop(position) for position in sorted(self.stood.keys() & one.revealed)}
        self.context = _context(language, row, self.stood)
        self.tokens = _context(language, row, self.drawn)

    def excluded(self, sets: Sequence[Sequence[int]], context: Tensor | None = None) -> list[bool]:
        """Whether each set of drawn tokens is impossible next to the earlier tokens, or next to a context (L)."""
        contexts = entries.chosen(context, self.context).repeat(len(sets), 1)
        places = torch.tensor(sets, dtype=torch.int64)
        contexts.scatter_(1, places, self.tokens[places])
        return (_evidence(self.language, self.row.length, contexts) == -math.inf).tolist()

    def culprit(self) -> tuple[int, ...]:
        """Positions of a smallest impossible set of tokens; the nearest pair, if it is a pair."""
        every = tuple(self.drawn)
        for size in range(1, len(every)):
            if math.comb(len(every), size) * self.row.length > MOST_SETS:
                break
            sets = sorted(combinations(every, size), key=lambda one: (one[-1] - one[0], one))
            for part in batched(sets, max(AT_ONCE // self.row.length, 1)):
                verdicts = self.excluded(part)
                if True in verdicts:
                    return part[verdicts.index(True)]
        return self._minimal(every)

    def _minimal(self, every: tuple[int, ...]) -> tuple[int, ...]:
        """A minimal impossible subset."""
        for position in every:
            fewer = tuple(one for one in every if one != position)
            if self.excluded([fewer])[0]:
                every = fewer
        return every

    def needed(self, guilty: tuple[int, ...]) -> tuple[int, ...]:
        """Minimal set of earlier positions that make the culprit impossible; the farthest are dropped first."""
        context = dict(self.stood)
        farthest = sorted(context, key=lambda one: -min(abs(one - other) for other in guilty))
        far, near = farthest[:-MOST_TRIED], farthest[-MOST_TRIED:]
        for some in (far, *([position] for position in near)):
            fewer = {position: token for position, token in context.items() if position not in some}
            if some and self.excluded([guilty], _context(self.language, self.row, fewer))[0]:
                context = fewer
        return tuple(sorted(context))

    def words(self, guilty: tuple[int, ...], because: tuple[int, ...]) -> str:
        """One sentence: the tokens of the culprit, and the rule that they break."""
        rule = self._rule(sorted({*guilty, *because}), guilty, because)
        if len(guilty) == 1:
            at, p = guilty[0], self.step.after[guilty[0]][1]
            return (
                f"position {at + 1} was drawn as {self._symbol(at)}, to which the denoiser gave {p:.2g}: "
                f"no other token of this step is to blame; {rule}"
            )
        return f"positions {_joined([str(position + 1) for position in guilty])} were drawn together; {rule}"

    def _rule(self, places: Sequence[int], guilty: tuple[int, ...], because: tuple[int, ...]) -> str:
        symbols = list(map(self._symbol, places))
        there, continues = " there", "does not continue"
        if self._always(places):
            there, continues = "", "never continues"

        if len(places) == 1:
            return f"the language never has {symbols[0]}{there}"
        if places[-1] - places[0] == len(places) - 1:
            return f"after {' '.join(symbols[:-1])} the language {continues} with {symbols[-1]}{there}"
        beside = f"next to {self._listed(because)} " if because else ""
        return f"{beside}no sequence of the language has {self._listed(guilty)}"

    def _always(self, places: Sequence[int]) -> bool:
        """Whether these tokens are impossible at these distances, anywhere in a sequence of this length."""
        shown = self.stood | self.drawn
        width = places[-1] - places[0]
        if (self.row.length - width) * self.row.length > MOST_SHIFTED:
            return False
        contexts = self.language.blank(self.row.length - width, self.row.length)
        start = torch.arange(len(contexts)).unsqueeze(1)
        contexts[start, start + torch.tensor(places) - places[0]] = torch.tensor(list(map(shown.__getitem__, places)))
        return bool((_evidence(self.language, self.row.length, contexts) == -math.inf).all())

    def _symbol(self, position: int) -> str:
        return quoted(self.trace.symbol((self.stood | self.drawn)[position]))

    def _listed(self, positions: Sequence[int]) -> str:
        return _joined([f"{self._symbol(position)} at {position + 1}" for position in positions])


def _joined(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


def quoted(symbol: str) -> str:
    """A token as shown in sentences: in quotes if it has spaces, shortened if it is long."""
    shown = plain(symbol if len(symbol) <= LONGEST_SYMBOL else f"{symbol[:LONGEST_SYMBOL]}..")
    return shown if shown.split() == [shown] else f"\u201c{shown}\u201d"


def batched(sets: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of `size` items; the last can be shorter."""
    rest = iter(sets)
    while part := list(islice(rest, size)):
        yield part


@torch.no_grad()
def read_by_model(denoiser: Denoiser, trace: Trace) -> list[Reading]:
    """Analyse all rows of a trace under the model that wrote it."""
    check_vocabulary(denoiser, trace.vocabulary)
    trace.check_likely()
    reader = Reader(denoiser, of_trace(trace))
    path = reader.path
    several = (path.size > 1).nonzero().squeeze(1)  # other steps lose nothing
    where = zip(path.row[several].tolist(), path.number[several].tolist(), strict=True)
    parts = tracked("reading", lambda one: _by_model(reader, int(several[one.start])), len(several), 1, threads=False)
    losses = dict(zip(where, parts, strict=True))

    readings = []
    for number, row in enumerate(trace.rows):
        steps: list[StepLoss] = []
        meter = 0.0
        for one in row.steps():
            lost, pairs = losses.get((number, one.number), (0.0, ()))
            meter += lost
            steps.append(StepLoss(one.number, lost, meter, pairs))

        excluded = _first(steps)  # from it on, the model gives the row probability 0
        readings.append(Reading(tuple(steps), excluded, why="" if excluded is None else EXCLUDED))
    return readings


def _by_model(reader: Reader, step: int) -> tuple[float, Pairs]:
    """(nats lost, pairs) of a step. Contexts: x_R, then with the first 1 .. n-1 tokens, then with each token alone."""
    path, n = reader.path, int(reader.path.size[step])
    entry = torch.arange(n) + path.first[step]
    shown = torch.cat([torch.ones(n, n).tril(-1), torch.eye(n)]).bool()  # (2n, n)
    context, place = (~shown).nonzero(as_tuple=True)
    before, after = shown.nonzero(as_tuple=True)

    marginals, dead = reader.at(torch.full((2 * n,), step), (before, entry[after]), (context, entry[place]))
    column = torch.full((2 * n, n), -1)
    column[context, place] = torch.arange(len(context))

    logs = marginals.of(path.entries.tokens[entry[place]]).log()
    lost = float((logs[column[0]] - logs[column[:n].diagonal()]).sum())

    seen, other = (torch.eye(n) == 0).nonzero(as_tuple=True)
    nats = torch.zeros(n, n, dtype=torch.float64)
    nats[seen, other] = marginals[column[n + seen, other]].divergence(marginals[column[0, other]])
    nats = torch.maximum(nats, nats.T)

    at = path.entries.positions[entry].tolist()
    pairs = tuple((at[i], at[j], float(nats[i, j])) for i, j in combinations(range(n), 2))
    return math.inf if bool(dead.any()) or math.isnan(lost) else lost, pairs
