"""Changes of a loop: of the probabilities that it draws from, by its filters, its draft and faults; of its draws.

A change is a function of the marginals at K positions and of the question: the tokens of the rows, and the time. A
denoiser with a change is `Altered`, so every sampler can have every change. A loop that filters applies to the scores
s(v) = log p(v), in its own order:

    temperature          s / T;  T = 0 leaves only the most likely token
    top_k                the k most likely tokens
    top_p                the fewest most likely tokens with mass top_p
    min_p                tokens of at least min_p times the largest probability
    repetition_penalty   of every token of the row: s * penalty if s < 0, otherwise s / penalty

A loop that verifies drafts draws y from d and keeps it with probability min(1, p(y) / d(y)). Otherwise it draws from
the residual (p - d)+. Then each token has the distribution p; with a fault it has another one, `spoiled`.

Published loops draw by a race: argmax_v w_v / E_v with E = -log u draws v in proportion to w_v (theory.md 10). With u
on a grid of 2^-bits, E has no value between 0 and 2^-bits, so symbols that need such a value are drawn too rarely. With
uniforms of other positions or steps, tokens depend on each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from operator import methodcaller
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Drawable, Randomness, Stream, uniform
from unmask.core.specs import parse
from unmask.denoisers import Denoiser, Engine, Marginals, Table, as_marginals
from unmask.denoisers.marginals import EXACT
from unmask.denoisers.noise import emitted, reverse
from unmask.denoisers.oracles import draft_of, grouped, untied
from unmask.denoisers.reshaped import Around, AroundEngine
from unmask.samplers import Sampler, Session
from unmask.samplers.rules.uniform import UniformAncestral
from unmask.samplers.schedules import Schedule

TINY = 1e-12  # a probability that is nearly zero


class Question(NamedTuple):
    """A question to an engine with these tokens."""

    tokens: Tensor  # (B, L)
    rows: Tensor  # (K)
    positions: Tensor  # (K)
    time: Tensor | None  # (B)


Change = Callable[[Marginals, Question], Marginals | Tensor]


class AlteredEngine(AroundEngine):
    denoiser: Altered

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Tensor | Marginals:
        marginals = as_marginals(self.inner.at(rows, positions, time))
        if self.denoiser.change is None:
            return marginals
        return self.denoiser.change(marginals, Question(self.tokens, rows, positions, time))


class Altered(Around):
    """A denoiser whose answers are changed; timed: by the time, too."""

    engine_kind = AlteredEngine

    def __init__(self, inner: Denoiser, change: Change | None = None, timed: bool = False) -> None:
        super().__init__(inner)
        self.change, self.time_free = change, self.time_free and not timed

    def engine(self, tokens: Tensor, given: Tensor | None = None, valid: Tensor | None = None) -> Engine:
        return self.engine_kind(self, tokens, given, valid)


SORTING = {"top_k", "top_p", "nucleus"}  # filters that choose among equally likely tokens
NEUTRAL = {"temperature": 1, "top_p": 1, "top_k": None, "min_p": 0, "repetition_penalty": 1}
MOST = {"top_p": 1.0, "min_p": 1.0}  # of a filter; others have no end
POSITIVE = {"top_p", "repetition_penalty"}  # not 0


def as_filters(given: Mapping[str, Any] | str | None) -> dict[str, Any]:
    """The filters of a loop in their order, from a mapping or "temperature=0.8, top_p=0.9", without neutral ones."""
    if isinstance(given, str):
        given = parse("filters", f"filters({given})")[1]
    filters = dict(given or {})

    for name, value in filters.items():
        arguments.word("filter", name, NEUTRAL)
        if name == "top_k" and value is not None:
            filters[name] = arguments.whole(name, value)
        elif name != "top_k":
            most = MOST.get(name, arguments.INFINITY)
            arguments.number(name, value, 0, most, above=name in POSITIVE, what=". Leave it out to turn it off")
    return {name: value for name, value in filters.items() if value != NEUTRAL[name]}


def filtered(filters: Mapping[str, Any], marginals: Marginals, question: Question | None = None) -> Marginals:
    """The probabilities after all filters, in their order; a repetition penalty needs the question."""
    p = marginals.dense().double()
    scores = untied(p) if SORTING & filters.keys() else p.log()  # as the logits of an ordered oracle
    for name, value in filters.items():
        if name == "repetition_penalty":
            assert question is not None
            seen = torch.zeros((len(question.tokens), scores.shape[1] + 1), dtype=torch.bool)
            seen = seen.scatter_(1, question.tokens, True)[question.rows, :-1]
            scores = torch.where(seen, torch.where(scores < 0, scores * value, scores / value), scores)
        elif name == "temperature" and value:
            scores = scores / value
        else:
            order = grouped(scores).argsort(dim=-1, stable=True)  # equal ones as the tokens
            left = remaining(name, value, scores.gather(-1, order)).expand(scores.shape)
            scores = scores.masked_fill(torch.empty_like(left).scatter_(-1, order, ~left), -torch.inf)

    return Table(scores.softmax(-1))


def remaining(name: str, value: Any, scores: Tensor) -> Tensor:
    """Bool (K, V): the tokens that a filter leaves, of scores from the highest on."""
    if name == "min_p":
        return scores >= scores[:, :1] + math.log(value) - EXACT
    if name in ("top_p", "nucleus"):
        p = scores.softmax(-1)
        if name == "top_p":
            return p.cumsum(-1) - p < value - EXACT
        return (p.cumsum(-1) <= value) | (torch.arange(p.shape[-1]) == 0)  # without the token that crosses it
    return torch.arange(scores.shape[-1]) < (value or 1)  # top_k, or a temperature of 0


def rounded(dtype: torch.dtype, marginals: Marginals, question: Question) -> Tensor:
    """The probabilities of logits of this dtype."""
    return marginals.dense().log().to(dtype).double().softmax(-1)


def possible(marginals: Marginals, question: Question) -> Tensor:
    """Nearly the same probabilities, without zeros: a token that a fault draws can be written."""
    p = marginals.dense() + TINY
    return p / p.sum(1, keepdim=True)


def as_logits(marginals: Marginals) -> Tensor:
    return marginals.dense().double().softmax(-1)


def few_as_logits(marginals: Marginals) -> Tensor:
    """The same among the tokens that a filter leaves."""
    p = marginals.dense().double()
    return p.masked_fill(p <= 2 * TINY, -torch.inf).softmax(-1)


def greedy_last(steps: int, marginals: Marginals, question: Question) -> Tensor:
    """The most likely token has probability 1 in the last of N steps: its time is 1 / N, of the previous one 2 / N."""
    assert question.time is not None
    last = (question.time[question.rows] < 1.5 / steps).unsqueeze(1)
    return torch.where(last, marginals.sharpened(0).dense(), marginals.dense())


SPOILED = {  # the distribution of a token, from the target p, the draft d and min(1, p / d)
    ("wrong acceptance ratio", "a draft is kept with probability p, without / d"): lambda p, d, keep: replaced(p, d, p),
    ("wrong acceptance ratio", "a draft is kept with probability d / p"): lambda p, d, keep: replaced(
        p, d, (d / p.clamp(min=TINY)).clamp(max=1)
    ),
    ("missing residual", "a rejected draft is replaced from p"): lambda p, d, keep: (
        d * keep + (1 - (d * keep).sum(1, keepdim=True)) * p
    ),
    ("draft without verification", "all tokens"): lambda p, d, keep: d,
    ("draft without verification", "four of five tokens"): lambda p, d, keep: (p + 4 * d) / 5,
    ("draft without verification", "half of the tokens"): lambda p, d, keep: (p + d) / 2,
    ("draft without verification", "one of five tokens"): lambda p, d, keep: (4 * p + d) / 5,
}


def replaced(p: Tensor, d: Tensor, keep: Tensor) -> Tensor:
    """Drafts that are kept with probability keep (K, V), others replaced from the residual."""
    rest = (p - d).clamp(min=0)
    return d * keep + (1 - (d * keep).sum(1, keepdim=True)) * rest / rest.sum(1, keepdim=True).clamp(min=TINY)


def spoiled(
    fault: tuple[str, str], weight: float, filters: Mapping[str, Any], marginals: Marginals, question: Question
) -> Tensor:
    """The distribution of a token after a verification with this fault; the draft has the same filters."""
    drafted = Table(draft_of(weight, marginals.dense().double()))
    p, d = (filtered(filters, each, question).dense() for each in (marginals, drafted))
    spoils = SPOILED[fault](p, d, (p / d.clamp(min=TINY)).clamp(max=1))
    return spoils / spoils.sum(1, keepdim=True)


FINE = 52  # bits of the uniforms of `chance`
BFLOAT16, FLOAT32 = 8, 24  # bits of torch.rand in these types


@dataclass(frozen=True)
class PlugIn(UniformAncestral):
    """The reverse step with q(x_i | y) in place of r."""

    def mu(self, alone: Tensor, tokens: Tensor, before: float, after: float) -> Tensor:
        full = emitted(alone, tokens, before)
        return reverse(full / full.sum(1, keepdim=True), tokens, before, after)


@dataclass(frozen=True)
class EarlyLevels(UniformAncestral):
    """Levels off by one: the reverse step from a_k to a_(k+1) uses r at a_(k+1), or just below 1."""

    def level(self, before: float, after: float) -> float:
        return min(after, (1 + before) / 2)


def race(weights: Tensor, u: Tensor, bits: int) -> Tensor:
    """(K): winner of each race with weights (K, C) and uniforms (K, C)."""
    if bits < FINE:
        u = torch.floor(u * 2**bits) * 2.0**-bits
    return (weights / -torch.log(u.clamp(min=1e-10))).argmax(-1)


def uniforms(
    rng: Randomness, rows: Tensor, positions: Tensor, visits: Tensor | int, symbols: int, shared: str, draw: int
) -> Tensor:
    """(K, symbols), keyed by position, visit and symbol; shared: by all positions of a draw, or by all steps."""
    if shared == "positions":
        positions, visits = torch.zeros_like(positions), draw
    elif shared == "steps":
        visits = 0

    keys = positions.unsqueeze(1) * symbols + torch.arange(symbols)
    when = torch.as_tensor(visits).unsqueeze(-1)
    return uniform(rng.seed, Stream.TOKEN, rng.row_ids[rows].unsqueeze(1), keys, when)


@dataclass(frozen=True)
class RaceRandomness(Randomness):
    """Randomness that draws tokens by a race: with coarse uniforms, or shared by all positions or all steps."""

    bits: int = FINE
    shared: str = ""
    draws: Iterator[int] = field(default_factory=count)  # numbers of the draws to come
    reshape: Callable[[Marginals], Tensor] = methodcaller("dense")  # the probabilities that it draws from

    def tokens(self, marginals: Drawable, rows: Tensor, positions: Tensor, visits: Tensor) -> Tensor:
        assert isinstance(marginals, Marginals)
        earlier = visits[rows, positions]
        u = uniforms(self, rows, positions, earlier, marginals.vocabulary, self.shared, next(self.draws))
        visits[rows, positions] = earlier + 1
        return race(self.reshape(marginals), u, self.bits)


@dataclass(frozen=True)
class OneShot(Sampler):
    """The step of MDLM: one race of all tokens, with weights rho_k p_v, and the mask, with weight 1 - rho_k.

    filters: those of these weights."""

    bits: int = FINE
    shared: str = ""
    filters: dict[str, Any] = field(default_factory=dict)

    def run(self, session: Session) -> None:
        canvas, vocabulary = session.canvas, session.denoiser.vocabulary
        for index, rho in enumerate(Schedule(session.delta).rho.tolist()):
            rows, positions = canvas.hidden.nonzero(as_tuple=True)
            if not len(rows):
                return
            marginals = canvas.at(rows, positions)

            weights = torch.cat([rho * marginals.dense(), torch.full((len(rows), 1), 1 - rho, dtype=torch.float64)], 1)
            weights = filtered(self.filters, Table(weights)).dense()
            u = uniforms(session.rng, rows, positions, index, vocabulary + 1, self.shared, index)
            won = race(weights, u, self.bits)

            shown = won < vocabulary
            if shown.any():
                rows, positions, tokens = rows[shown], positions[shown], won[shown]
                session.write(rows, positions, tokens, marginals[shown].of(tokens), index + 1)
