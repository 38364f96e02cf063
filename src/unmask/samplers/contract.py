"""What a sampler is: a small class that implements exactly one of `order`, `choose` and `run`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from unmask.chance import Luck, Stream
from unmask.denoisers import Canvas, Causal, Denoiser
from unmask.errors import UnmaskError
from unmask.names import Registry
from unmask.samplers.bill import Bill

WAYS = ("order", "choose", "run")
PATIENCE = 1000  # looks a position and a round: beyond that a sampler that owns its flow is taken to loop for ever


class Breach(UnmaskError):
    """What a sampler has done against its contract."""


Law = Literal["order", "causal", "language"] | Callable[[Denoiser, int, Tensor], Tensor]


class Choice(NamedTuple):
    """What an adaptive sampler decides in a round, over the window it was shown."""

    reveal: Tensor  # Bool (B, W), among the hidden
    tokens: Tensor | None = None  # (B, W): what to write there; None: draw now from the probabilities
    hide: Tensor | None = None  # Bool (B, W), among the `revealed`: to be decided again


class Sampler:
    """One way to fill a canvas: fixed before looking (order), chosen each round (choose), or its own flow (run)."""

    pace: ClassVar[Literal["counts", "rounds", "free"]] = "counts"
    """How it keeps to the schedule. `choose` reveals view.count positions in each round; or as many as it likes, and
    all by round N; or it goes on until nothing is hidden, revealing at least one in each round. An `order` has rounds
    1..N; where its pace is free N is not used, and a row has at most as many rounds as hidden positions."""

    law: ClassVar[Law | None] = None
    """Which law its output claims to follow, for `unmask.conformance`; what orders has the first without saying so.

    order     each token is a draw from what the denoiser says of the places revealed in earlier rounds, and where is
              decided before what: given the order the law is known, and it is q's at one position a round
    causal    prod_j p(x_j | x_<j), whatever the number of rounds
    language  that of the language, of whose ideal denoiser it is asked, whatever the number of rounds
    or a function of (denoiser, length, delta): the probability of every x of `metrics.sequences`, (V^L)"""

    def order(self, delta: Tensor, hidden: Tensor, luck: Luck) -> Tensor:
        """Rounds 1..N (B, L) of every hidden position (B, L), 0 elsewhere: nothing depends on the tokens."""
        raise NotImplementedError

    def times(self, delta: Tensor, order: Tensor, luck: Luck) -> Tensor:
        """When each place of an order (B, L) is looked at, from 1 down: for denoisers that are not time-free."""
        last = order.amax(1, keepdim=True).clamp(min=1) if self.pace == "free" else len(delta)
        return 1 - (order.double() - 1) / last

    def choose(self, view: View) -> Choice:
        """What to reveal in this round, after looking."""
        raise NotImplementedError

    def run(self, session: Session) -> None:
        """Fill the session's rows by any flow; every evaluation goes through its canvas and its causal reader."""
        raise NotImplementedError

    def implements(self, method: str) -> bool:
        return method in ways(type(self))


def ways(kind: type[Sampler]) -> list[str]:
    """Which of the three methods a class of samplers implements."""
    return [method for method in WAYS if getattr(kind, method) is not getattr(Sampler, method)]


def check_kind(kind: type, label: str) -> None:
    """An error unless this is a class of samplers that implements exactly one of the three."""
    if not issubclass(kind, Sampler):
        raise UnmaskError(f"{label} is no sampler but {kind.__name__}; derive it from unmask.samplers.Sampler")
    if len(found := ways(kind)) != 1:
        what = f"implements {' and '.join(found) or 'none of its methods'}"
        raise UnmaskError(f"{label} {what}; a sampler implements exactly one of order, choose and run")


SAMPLERS: Registry[Sampler] = Registry("sampler", "unmask.samplers", check_kind)


@dataclass(frozen=True)
class View:
    """What an adaptive sampler sees in one round, of the W positions that it is asked about."""

    canvas: Canvas
    window: slice  # these W of the L positions
    probabilities: Tensor  # (B, W, V), one-hot where revealed
    hidden: Tensor  # Bool (B, W): what may be revealed
    revealed: Tensor  # Bool (B, W): what this sampler has revealed, and may hide again
    certainty: Tensor  # (B, W): the probability that each token had when it was revealed
    round: int  # 1..N, or 1.. where the pace is free
    earlier: int  # rounds of earlier blocks, which are not counted here
    rounds: int  # N
    count: Tensor  # (B): how many positions the schedule gives to this round
    alpha: float  # share revealed before this round, alpha_t
    alpha_next: float  # and after it, alpha_s

    @property
    def tokens(self) -> Tensor:
        """(B, W), V where hidden."""
        return self.canvas.tokens[:, self.window]

    def draw(self, probabilities: Tensor | None = None) -> Tensor:
        """Tokens (B, W) drawn at every hidden position from fresh luck (LLaDA redraws each round); V elsewhere."""
        probabilities = self.probabilities if probabilities is None else probabilities
        rows, columns = self.hidden.nonzero(as_tuple=True)
        tokens = torch.full(self.hidden.shape, self.canvas.vocabulary)
        tokens[rows, columns] = self.canvas.draw(probabilities[rows, columns], rows, columns + self._first)
        return tokens

    def luck(self, stream: Stream) -> Tensor:
        """Uniforms (B, W) of this round: TIE decides between equal scores, ACCEPT whether something happens."""
        positions = torch.arange(self.hidden.shape[1]) + self._first
        luck = self.canvas.luck
        return luck.uniform(stream, torch.arange(len(self.hidden)).unsqueeze(1), positions, self.turn)

    @property
    def turn(self) -> int:
        """The round by the count of the whole session."""
        return self.earlier + self.round

    @property
    def _first(self) -> int:
        return self.window.indices(self.canvas.tokens.shape[1])[0]


class Session:
    """Some rows on their way from given tokens (B, L) to complete ones, with what was met on the way."""

    def __init__(self, denoiser: Denoiser, given: Tensor, luck: Luck, delta: Tensor, name: str = "the sampler") -> None:
        self.denoiser = denoiser
        self.given = given
        self.luck = luck
        self.delta = delta
        self.name = name  # of the sampler, for errors
        self.planned = False  # set where the order does not depend on the tokens
        self.tokens = given.clone(memory_format=torch.contiguous_format)  # given may be one row for all
        self.order = torch.zeros_like(self.tokens)  # the round that revealed each position, 0 where it was given
        self.probability = torch.ones(given.shape, dtype=torch.float64)  # of each token when it was revealed
        self._attempts: list[tuple[Tensor, Bill]] = []
        self._hidings = 0

    @cached_property
    def canvas(self) -> Canvas:
        """The canvas, on the session's own tokens."""
        return Canvas(self.denoiser, self.tokens, self.luck, self.patience)

    @cached_property
    def causal(self) -> Causal:
        return self.denoiser.causal(*self.given.shape)

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
        return self.uses("canvas") and self.canvas.forwards > self.patience

    def attempt(self, rows: Tensor, seed: int) -> Session:
        """A session of its own for these rows (K), from what was given, with other luck; `adopt` takes it in."""
        return type(self)(self.denoiser, self.given[rows], Luck(seed, self.luck.row_ids[rows]), self.delta, self.name)

    def adopt(self, rows: Tensor, attempt: Session) -> None:
        """Let rows (K) be what an attempt has made of them, at its cost."""
        self.tokens[rows], self.order[rows], self.probability[rows] = attempt.tokens, attempt.order, attempt.probability
        self._attempts.append((rows, attempt.bill()))

    def bill(self) -> Bill:
        """What was spent, attempts included."""
        rows = torch.arange(len(self.tokens))
        bill = Bill(torch.zeros_like(rows))
        if self.uses("canvas"):
            canvas = self.canvas
            bill.impossible += canvas.impossible
            bill.charge("denoiser", canvas.evaluations, rows, canvas.forwards, canvas.rows_computed)
        if self.uses("causal"):
            evaluations = self.causal.evaluations
            bill.charge("causal", evaluations, rows, self.causal.forwards, int(evaluations.sum()))
        for these, attempt in self._attempts:
            bill.add(these, attempt)
        return bill

    def write(self, rows: Tensor, positions: Tensor, tokens: Tensor, probability: Tensor, rounds: Tensor | int) -> None:
        """Reveal tokens (K) at places (K), which had this probability (K), in this round."""
        unknown = (tokens < 0) | (tokens >= self.denoiser.vocabulary)
        if bool(unknown.any()):
            what = f"writes token {int(tokens[unknown][0])}"
            self._refuse(f"{what}; V is {self.denoiser.vocabulary}", unknown, rows, positions, rounds)
        if bool((shown := self.tokens[rows, positions] != self.denoiser.vocabulary).any()):
            self._refuse("reveals what is not hidden", shown, rows, positions, rounds)
        places = rows * self.tokens.shape[1] + positions
        if len(places.unique()) < len(places):
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
        shown = self.given[rows, positions] != self.denoiser.vocabulary
        if bool(shown.any()):
            self._refuse("hides a given token", shown, rows, positions, rounds)
        self._hidings += 1
        if self._hidings > self.patience:
            what = f"has hidden tokens {self._hidings} times and seems to loop for ever"
            self._refuse(what, ~shown, rows, positions, rounds)
        self.order[rows, positions] = 0
        self.probability[rows, positions] = 1.0
        self.canvas.hide((rows, positions))

    def _refuse(self, what: str, wrong: Tensor, rows: Tensor, positions: Tensor, rounds: Tensor | int) -> None:
        at = int(wrong.int().argmax())
        turn = int(rounds[at]) if isinstance(rounds, Tensor) else rounds
        row = int(self.luck.row_ids[rows[at]])
        raise Breach(f"{self.name} {what}, at position {int(positions[at])} of row {row} in round {turn}")
