"""Every context of a tiny language, the model's probabilities there, and a sampler's own choice for every draw.

A context z has tokens, V where hidden. In a step the sampler draws tokens y at all hidden positions. Its `choose`
decides which of them it keeps, and which tokens it hides again. So one call of `choose`, with a row for each (z, y),
gives the whole step:

    P(z -> z') = sum over y of prod_i p(y_i | z) [choose leads from (z, y) to z']

Equal scores are the only chance of a sampler here: it chooses twice, with ties from the left and from the right. A rule
that takes the first k of a ranking chooses the same both times only if no tie decides.

S states, E = rows of (state, draw), K hidden entries of them, L positions, V symbols.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unmask.core import entries
from unmask.core.chance import Randomness, Stream
from unmask.core.errors import UnmaskError
from unmask.denoisers import Canvas, Denoiser, Marginals, Table
from unmask.samplers import Sampler, View
from unmask.samplers.schedules import Schedule, sizes

Model = Callable[[Tensor], Tensor]  # contexts (C, L), V where hidden -> log-probabilities (C, L, V)
MOST_NUMBERS = 2**22  # of all contexts, positions and symbols
MOST_DRAWS = 2**21


class Contexts:
    """Every context that fills a part of the start (L), V where hidden, and the model's probabilities there."""

    def __init__(self, model: Model, vocabulary: int, start: Tensor) -> None:
        self.start, self.vocabulary = start, vocabulary
        self.places = (start == vocabulary).nonzero().squeeze(1)  # (H)
        count = (vocabulary + 1) ** len(self.places)
        numbers = count * len(start) * vocabulary
        if numbers > MOST_NUMBERS:
            raise UnmaskError(
                f"{len(self.places)} hidden positions of {vocabulary} symbols have {count:,} contexts "
                f"with {numbers:,} probabilities",
                f"expected at most {MOST_NUMBERS:,} probabilities. Use a shorter length or fewer symbols",
            )

        self.digits = (vocabulary + 1) ** torch.arange(len(self.places)).flip(0)
        self.tokens = self.filled(vocabulary + 1)  # (C, L): context c in row c
        self.texts = self.filled(vocabulary)  # (V^H, L)
        self.log = model(self.tokens).double()  # (C, L, V)

    @classmethod
    def of(cls, denoiser: Denoiser, start: Tensor) -> Contexts:
        """The contexts of a denoiser; only the tokens of the start are given, the others a sampler wrote."""

        def log(tokens: Tensor) -> Tensor:
            return denoiser.probabilities(tokens, given=start.expand_as(tokens)).log()

        return cls(log, denoiser.vocabulary, start)

    @cached_property
    def p(self) -> Tensor:
        """(C, L, V): the probabilities, computed at their first use."""
        return self.log.exp()

    def filled(self, symbols: int) -> Tensor:
        """The start with each combination of symbols at its hidden positions, in lexicographic order."""
        rows = self.start.repeat(symbols ** len(self.places), 1)
        rows[:, self.places] = combinations(symbols, len(self.places))
        return rows

    def number(self, tokens: Tensor) -> Tensor:
        """(..): the numbers of contexts (.., L)."""
        return (tokens[..., self.places] * self.digits).sum(-1)

    def __call__(self, tokens: Tensor) -> Tensor:
        """The model's log-probabilities (R, L, V) in contexts (R, L): a model that is a table."""
        return self.log[self.number(tokens)]


def combinations(symbols: int, count: int) -> Tensor:
    """Every combination (symbols^k, k) of k symbols, in lexicographic order."""
    powers = symbols ** torch.arange(count).flip(0)
    return torch.arange(symbols**count).unsqueeze(1) // powers % symbols


class States(NamedTuple):
    """Contexts with the sampler's memory, and their mass."""

    tokens: Tensor  # (S, L)
    mass: Tensor  # (S), with its gradient
    memory: dict[str, Tensor]  # (S, ..)


@dataclass(frozen=True)
class Step:
    """Step `index`, from 0, of a block; with pace "free" there may be more than N."""

    inside: Tensor  # Bool (L): positions of the block
    delta: Tensor  # its schedule (N)
    index: int
    order: Tensor | None = None  # (L), of a sampler with a fixed order
    of_paths: bool = False  # whether the gradient is that of the tokens that a path has kept

    @property
    def count(self) -> int:
        """Number of positions that the schedule reveals."""
        return int(sizes(self.delta, int(self.inside.sum()))[min(self.index, len(self.delta) - 1)])

    def numbers(self, rows: int) -> dict[str, Tensor]:
        """The numbers of a view that all rows share."""
        alpha = Schedule(self.delta).alpha
        last = min(self.index, len(self.delta) - 1)
        whole = {"count": self.count, "step": self.index + 1, "steps": len(self.delta), "turn": self.index + 1}
        return {name: torch.full((rows,), value) for name, value in whole.items()} | {
            "alpha": alpha[last].expand(rows),
            "alpha_next": alpha[last + 1].expand(rows),
        }


class Tabled(Denoiser):
    """The model's probabilities, read from the table of all contexts."""

    def __init__(self, contexts: Contexts) -> None:
        self.contexts, self.vocabulary = contexts, contexts.vocabulary

    def posterior(self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        columns = entries.chosen(positions, torch.arange(tokens.shape[1])).expand(len(tokens), -1)
        return self.contexts.p.detach()[self.contexts.number(tokens).unsqueeze(1), columns]


class Given(Canvas):
    """A canvas that draws given tokens (E, L)."""

    drawn: Tensor

    def draw(self, marginals: Marginals, rows: Tensor, positions: Tensor) -> Tensor:
        return self.drawn[rows, positions]


@dataclass(frozen=True)
class Ties(Randomness):
    """Ranks for equal scores, from the left or from the right; every other random number is an error."""

    reverse: bool = False
    used: set[Stream] = field(default_factory=set)

    def uniform(self, stream: Stream, rows: Tensor, positions: Tensor, visits: Tensor | int = 0) -> Tensor:
        if stream is not Stream.TIE:
            raise UnmaskError("it decides by random numbers besides its tokens; expected a sampler without them")
        self.used.add(stream)
        ranks = (positions.double() + 0.5) / (int(positions.max()) + 1)
        return torch.broadcast_tensors(rows, 1 - ranks if self.reverse else ranks)[1]


class Unread(Tensor):
    """Stands for numbers that do not follow from a context; every use is an error."""

    @classmethod
    def __torch_function__(cls, *_: Any, **__: Any) -> Any:
        raise UnmaskError("it uses the probabilities at which tokens were revealed; expected a rule of the context")


@dataclass(frozen=True, kw_only=True)
class Listed(View):
    """The view of rows that draw given tokens; `odds` gets the probabilities (K) of the draw."""

    live: Tensor  # (K, V): the marginals with their gradient
    own: Tensor  # `hidden` when the step began
    odds: list[Tensor]

    def draw(self, temperature: float = 1.0, top_p: float = 1.0, top_k: int | None = None) -> Tensor:
        if self.odds or self.hidden is not self.own:
            raise UnmaskError("it draws at revealed positions, or twice in a step; expected one draw of hidden ones")
        tokens = super().draw(temperature, top_p, top_k)
        with torch.enable_grad():
            self.odds.append(Table(self.live).sharpened(temperature, top_p, top_k).of(tokens[self.places]))
        return tokens


def every_draw(vocabulary: int, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """(state (E), tokens (E, L)): each combination of tokens at the hidden positions, Bool (S, L), of each state."""
    count = int((vocabulary ** hidden.sum(1)).sum())
    if count > MOST_DRAWS:
        raise UnmaskError(f"a step has {count:,} draws; expected at most {MOST_DRAWS:,}. Use a shorter length")

    # states that hide the same positions have the same draws
    parents, tokens = [], []
    patterns, which = hidden.unique(dim=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        states = (which == number).nonzero().squeeze(1)
        places = pattern.nonzero().squeeze(1)
        draws = torch.zeros((vocabulary ** len(places), len(pattern)), dtype=torch.int64)
        draws[:, places] = combinations(vocabulary, len(places))
        parents.append(states.repeat_interleave(len(draws)))
        tokens.append(draws.repeat(len(states), 1))
    return torch.cat(parents), torch.cat(tokens)


def chosen(contexts: Contexts, sampler: Sampler, states: States, hidden: Tensor, step: Step) -> States:
    """The states (E) after the sampler's choice, for every draw at hidden positions, Bool (S, L)."""
    parents, drawn = every_draw(contexts.vocabulary, hidden)
    before, hidden = states.tokens[parents], hidden[parents]
    rows, positions = hidden.nonzero(as_tuple=True)
    places = (rows, positions)
    live = contexts.p[contexts.number(before)[rows], positions]

    def decided(reverse: bool) -> tuple[Tensor, Listed, Ties]:
        rng = Ties(0, torch.arange(len(before)), reverse)
        canvas = Given(Tabled(contexts), before.clone(), rng)
        canvas.drawn = drawn
        view = Listed(
            canvas=canvas,
            marginals=Table(live.detach()),
            places=places,
            hidden=hidden,
            revealed=step.inside & ~hidden,
            certainty=torch.zeros(0).as_subclass(Unread),
            memory=entries.mapped(itemgetter(parents), states.memory),
            live=live,
            own=hidden,
            odds=[],
            **step.numbers(len(before)),
        )

        with torch.no_grad():
            choice = sampler.choose(view)
        if not choice.done is choice.stay is choice.odds is None:
            raise UnmaskError("it ends rows, stays in a block or replaces tokens; expected it to reveal and to hide")

        after = torch.where(choice.reveal, entries.chosen(choice.tokens, drawn), before)
        return after if choice.hide is None else after.masked_fill(choice.hide, contexts.vocabulary), view, rng

    # an order of equal scores matters only where it changes a text that can occur
    after, view, rng = decided(False)
    odds = view.odds[0] if view.odds else Table(live).of(drawn[places])
    each = torch.ones(hidden.shape, dtype=torch.float64).index_put(places, odds)
    mass = states.mass[parents]
    if rng.used and bool(((after != decided(True)[0]).any(1) & (mass * each.prod(1) > 0)).any()):
        raise UnmaskError("chance decides between equal scores; expected ties='position'")
    if any(not isinstance(value, Tensor) for value in view.memory.values()):
        raise UnmaskError("it compares predictions of several steps; expected a rule of the context")

    written = hidden & (after != contexts.vocabulary)
    factor = each.prod(1)
    if step.of_paths:
        factor = own_gradient(factor, torch.where(written, each, 1.0).prod(1))
    return States(after, mass * factor, view.memory)


def own_gradient(value: Tensor, written: Tensor) -> Tensor:
    """The value, with the gradient value x grad log written."""
    return value.detach() * written / written.detach().clamp(min=torch.finfo(written.dtype).tiny)
