"""Rows on their way from given tokens to complete ones, and what they have cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from unmask.core.chance import Luck
from unmask.core.errors import UnmaskError, shown
from unmask.denoisers import Canvas, Causal, Cost, Denoiser
from unmask.samplers.stopping import Progress, StopRule

PATIENCE = 1000  # looks a position and a round: beyond that a sampler that owns its flow is taken to loop for ever
REASONS = ("filled", "stopped", "done")  # why nothing more is decided of a row: all is; the stop rule; the sampler


class Breach(UnmaskError):
    """A sampler broke its contract."""


@dataclass
class Account:
    """What B rows have cost."""

    impossible: Tensor  # (B): the evaluation at which a row's context had probability zero for the first time, or 0
    evaluations_of: dict[str, Tensor] = field(default_factory=dict)  # (B) for each: "denoiser", "causal"
    spent: Cost = field(default_factory=Cost)

    @property
    def evaluations(self) -> Tensor:
        """(B): of all denoisers together."""
        return sum(self.evaluations_of.values(), torch.zeros_like(self.impossible))

    def charge(self, name: str, evaluations: Tensor, rows: Tensor | slice, spent: Cost) -> None:
        """Add evaluations (K) of one denoiser by these rows (K), and what it has computed for them."""
        counts = self.evaluations_of.setdefault(name, torch.zeros_like(self.impossible))
        counts[rows] += evaluations
        self.spent = self.spent + spent

    def add(self, rows: Tensor, account: Account) -> None:
        """Another attempt at these rows (K), which is the one that counts for what was met on the way."""
        for name, evaluations in account.evaluations_of.items():
            self.charge(name, evaluations, rows, Cost())
        self.spent = self.spent + account.spent
        self.impossible[rows] = account.impossible


class Taken(NamedTuple):
    """Tokens that were revealed and taken back again, (K) each, in the order in which they were taken back."""

    rows: Tensor
    positions: Tensor
    order: Tensor  # the round that had revealed each
    tokens: Tensor
    probability: Tensor
    hidden: Tensor  # the round that hid it again

    def of(self, kept: Tensor, rows: Tensor | None = None) -> Taken:
        """Those that are kept, Bool (K); as of other rows (B), where row r is rows[r]."""
        parts = [part[kept] for part in self]
        return Taken(parts[0] if rows is None else rows[parts[0]], *parts[1:])


class Session:
    """Some rows on their way from given tokens (B, L) to complete ones, with what was met on the way."""

    canvas_kind: ClassVar[type[Canvas]] = Canvas

    def __init__(
        self,
        denoiser: Denoiser,
        given: Tensor,
        luck: Luck,
        delta: Tensor,
        name: str = "the sampler",
        *,
        valid: Tensor | None = None,
        stop: StopRule | None = None,
        trace: bool = False,
    ) -> None:
        self.denoiser = denoiser
        self.given = given
        self.luck = luck
        self.delta = delta
        self.name = name  # of the sampler, for errors
        self.valid = torch.ones(given.shape, dtype=torch.bool) if valid is None else valid  # (B, L): False at padding
        self.stop = stop
        self.hidden = (given == denoiser.vocabulary) & self.valid  # Bool (B, L): what there is to fill
        self.lengths = self.valid.sum(1)  # (B): tokens of each row, up to where it has ended
        self.reasons = torch.zeros(len(given), dtype=torch.int64)  # (B): why it ended, of REASONS
        self.planned = False  # set where the order does not depend on the tokens
        self.tokens = given.clone(memory_format=torch.contiguous_format)  # given may be one row for all
        self.order = torch.zeros_like(self.tokens)  # the round that revealed each position, 0 where it was given
        self.turns = torch.zeros_like(self.lengths)  # (B): rounds in which the sampler was asked what to do
        self.probability = torch.ones(given.shape, dtype=torch.float64)  # of each token when it was revealed
        self.trace = trace  # whether what is taken back is kept
        self._taken: list[Taken] = []
        self._revised = False  # whether anything was taken back
        self._attempts: list[tuple[Tensor, Account]] = []
        self._hidings = 0

    @cached_property
    def canvas(self) -> Canvas:
        """The canvas, on the session's own tokens."""
        return self.canvas_kind(self.denoiser, self.tokens, self.luck, valid=self.valid, patience=self.patience)

    @cached_property
    def causal(self) -> Causal:
        rows, length = self.given.shape
        return self.denoiser.causal(rows, length, None if bool(self.valid.all()) else self.valid)

    def uses(self, part: str) -> bool:
        """Whether the sampler has asked for the 'canvas' or the 'causal' reader."""
        return part in self.__dict__

    @property
    def patience(self) -> int:
        """How often a sampler may look, or hide, before it is taken to loop for ever."""
        return PATIENCE * (self.tokens.shape[1] + len(self.delta))

    @property
    def exhausted(self) -> bool:
        """Whether the canvas has been looked at more often than it has patience for."""
        return self.uses("canvas") and self.canvas.exhausted

    @property
    def settled(self) -> Tensor:
        """Bool (B): rows of which nothing is to be decided any more."""
        return self.reasons > 0

    def check_stop(self) -> None:
        """Ask the stop rule, after a round: rows that have ended are settled."""
        if self.stop is None:
            return
        hidden = (self.tokens == self.denoiser.vocabulary) | ~self.valid
        lengths = self.stop.ended(Progress(self.tokens, hidden, self.hidden, self.account().evaluations))
        ended = (lengths >= 0) & ~self.settled
        if bool(ended.any()):
            self.lengths = torch.where(ended, torch.minimum(lengths, self.lengths), self.lengths)
            self.settle(ended, self.order.amax(1).clamp(min=1), "stopped")

    def settle(self, rows: Tensor, turn: Tensor, reason: str) -> None:
        """Fill what is left of rows, Bool (B), in this round (B) of theirs, without looking at it."""
        left = (self.tokens == self.denoiser.vocabulary) & self.hidden & rows.unsqueeze(1)
        places = left.nonzero(as_tuple=True)
        if len(places[0]):
            end = None if self.denoiser.language is None else self.denoiser.language.end
            fill = end if self.stop is None else self.stop.fill
            if fill is None:
                what = f"{self.name} says that rows are done, and nothing says what to fill them with"
                raise Breach(f"{what}; give generate(stop=..), a token or a rule")
            certain = torch.ones(len(places[0]), dtype=torch.float64)
            rows_left, positions = places
            self.put(rows_left, positions, torch.full_like(rows_left, fill), certain, turn[rows_left])
        self.reasons = torch.where(rows & ~self.settled, REASONS.index(reason), self.reasons)

    def attempt(self, rows: Tensor, seed: int) -> Session:
        """A session of its own for these rows (K), from what was given, with other luck; `adopt` takes it in."""
        luck = Luck(seed, self.luck.row_ids[rows])
        given, valid, stop = self.given[rows], self.valid[rows], self.stop
        return type(self)(self.denoiser, given, luck, self.delta, self.name, valid=valid, stop=stop, trace=self.trace)

    def adopt(self, rows: Tensor, attempt: Session) -> None:
        """Let rows (K) be what an attempt has made of them, at its cost."""
        for name in ("tokens", "order", "probability", "lengths", "reasons"):
            getattr(self, name)[rows] = getattr(attempt, name)
        self._taken = [taken.of(~torch.isin(taken.rows, rows)) for taken in self._taken]
        self._taken += [taken.of(torch.ones_like(taken.rows, dtype=torch.bool), rows) for taken in attempt._taken]
        self._revised |= attempt._revised
        self.charge(rows, attempt)

    def charge(self, rows: Tensor, attempt: Session) -> None:
        """Count what an attempt at rows (K) has cost."""
        self._attempts.append((rows, attempt.account()))

    def account(self) -> Account:
        """What was needed and what was computed, attempts included."""
        account = Account(torch.zeros(len(self.tokens), dtype=torch.int64))
        if self.uses("canvas"):
            account.impossible += self.canvas.impossible
            account.charge("denoiser", self.canvas.evaluations, slice(None), self.canvas.spent)
        if self.uses("causal"):
            account.charge("causal", self.causal.evaluations, slice(None), self.causal.spent)
        for rows, attempt in self._attempts:
            account.add(rows, attempt)
        return account

    def taken(self) -> Taken | None:
        """What was taken back; None where some was, and nobody has asked to keep it."""
        if self._revised and not self.trace:
            return None
        nothing = torch.zeros(0, dtype=torch.int64)
        none = Taken(nothing, nothing, nothing, nothing, nothing.double(), nothing)
        parts = [none, *self._taken]
        return Taken._make(map(torch.cat, zip(*parts, strict=True)))

    def write(self, rows: Tensor, positions: Tensor, tokens: Tensor, probability: Tensor, rounds: Tensor | int) -> None:
        """Reveal tokens (K) at places (K), which had this probability (K), in this round."""
        self._check_places("writes", rows, positions, tokens)
        unknown = (tokens < 0) | (tokens >= self.denoiser.vocabulary)
        if bool(unknown.any()):
            what = f"writes token {int(tokens[unknown][0])}"
            self._refuse(f"{what}; V is {self.denoiser.vocabulary}", unknown, rows, positions, rounds)
        if bool((shown := self.tokens[rows, positions] != self.denoiser.vocabulary).any()):
            self._refuse("reveals what is not hidden", shown, rows, positions, rounds)
        places = rows * self.tokens.shape[1] + positions
        if not bool((places[1:] > places[:-1]).all()) and len(places.unique()) < len(places):
            twice = (places.unsqueeze(0) == places.unsqueeze(1)).sum(1) > 1
            self._refuse("reveals a position twice", twice, rows, positions, rounds)
        self.put(rows, positions, tokens, probability, rounds)

    def put(self, rows: Tensor, positions: Tensor, tokens: Tensor, probability: Tensor, rounds: Tensor | int) -> None:
        """`write` where the places are known to be hidden, and the tokens were drawn by the canvas."""
        usable = probability > 0  # false for not-a-number too
        if not bool(usable.all()):
            at = int((~usable).int().argmax())
            where = f"position {int(positions[at])} of row {int(rows[at])}"
            raise UnmaskError(f"the denoiser gives no usable probabilities at {where}: all zero, or not numbers")
        self.order[rows, positions] = rounds
        self.probability[rows, positions] = probability.double()
        if self.uses("canvas"):
            self.canvas.reveal((rows, positions), tokens)
        else:
            self.tokens[rows, positions] = tokens

    def hide(self, rows: Tensor, positions: Tensor, rounds: Tensor | int) -> None:
        """Take back what stands at places (K), in this round; what was given stays."""
        self._check_places("hides", rows, positions)
        shown = ~self.hidden[rows, positions]
        if bool(shown.any()):
            self._refuse("hides a given token", shown, rows, positions, rounds)
        self._hidings += 1
        if self._hidings > self.patience:
            what = f"has hidden tokens {self._hidings} times and seems to loop for ever"
            self._refuse(what, ~shown, rows, positions, rounds)
        self._revised |= bool(len(rows))
        if self.trace:
            at, turn = (rows, positions), torch.as_tensor(rounds).expand(len(rows))
            self._taken.append(Taken(*at, self.order[at], self.tokens[at], self.probability[at], turn))
        self.order[rows, positions] = 0
        self.probability[rows, positions] = 1.0
        self.canvas.hide((rows, positions))

    def _check_places(self, verb: str, *parts: object) -> None:
        """An error unless these are as many whole numbers each, the rows and the positions within what there is."""
        sizes = {part.shape if isinstance(part, Tensor) and part.dtype == torch.int64 else None for part in parts}
        if len(sizes) > 1 or any(size is None or len(size) != 1 for size in sizes):
            raise Breach(f"{self.name} {verb} at {' and '.join(map(shown, parts))}; expected int64 (K) each")
        for part, size in zip(parts, self.tokens.shape, strict=False):
            if not isinstance(part, Tensor) or not len(part):
                continue
            least, most = map(int, part.aminmax())
            if not 0 <= least <= most < size:
                raise Breach(f"{self.name} {verb} at {least} to {most} of {size} there are")

    def _refuse(self, what: str, wrong: Tensor, rows: Tensor, positions: Tensor, rounds: Tensor | int) -> None:
        at = int(wrong.int().argmax())
        turn = int(rounds[at]) if isinstance(rounds, Tensor) else rounds
        row = int(self.luck.row_ids[rows[at]])
        raise Breach(f"{self.name} {what}, at position {int(positions[at])} of row {row} in round {turn}")
