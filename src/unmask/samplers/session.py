"""Sequences from given tokens to complete ones, and their cost."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import torch
from torch import Tensor

from unmask.core.chance import Randomness
from unmask.core.errors import UnmaskError, shown
from unmask.denoisers import Canvas, Causal, Cost, Denoiser, Marginals
from unmask.samplers.joint.drawing import Joint, Together
from unmask.samplers.stopping import Account, Progress, StopRule

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Float64, Int, Shaped

PATIENCE = 1000  # model calls per position and step; beyond this a sampler with its own loop counts as endless
REASONS = ("filled", "stopped", "done")  # why a row is final: every position decided, the stop rule, the sampler


class Breach(UnmaskError):
    """A sampler broke its contract."""


class Taken(NamedTuple):
    """Tokens that were revealed and re-masked, (K) each, in the order of re-masking."""

    rows: Tensor
    positions: Tensor
    order: Tensor  # the step that revealed each
    tokens: Tensor
    probability: Tensor
    hidden: Tensor  # the step that hid it again

    def select(self, entries: Shaped[Tensor, " N"], rows: Tensor | None = None) -> Taken:
        """The entries in a mask, Bool (K), or of these indices; with rows (B), row r becomes rows[r]."""
        parts = [part[entries] for part in self]
        return Taken(parts[0] if rows is None else rows[parts[0]], *parts[1:])


class Session:
    """Rows between given tokens (B, L) and complete ones, with everything recorded on the way."""

    canvas_kind: ClassVar[type[Canvas]] = Canvas

    def __init__(
        self,
        denoiser: Denoiser,
        given: Int[Tensor, "B L"],
        rng: Randomness,
        delta: Float[Tensor, " N"],
        name: str = "the sampler",
        *,
        valid: Bool[Tensor, "B L"] | None = None,
        stop: StopRule | None = None,
        trace: bool = False,
        joint: Joint | None = None,
    ) -> None:
        self.denoiser = denoiser
        self.given = given
        self.rng = rng
        self.delta = delta
        self.name = name  # of the sampler, for errors
        self.stop = stop
        self.joint = joint  # how the tokens of a step are drawn together; None: independently
        self.patience = PATIENCE * (given.shape[1] + len(delta))  # model calls, and re-maskings, of an endless sampler

        # the rows, and where they are to be filled
        self.valid = valid if valid is not None else torch.ones(given.shape, dtype=torch.bool)  # (B, L): not padding
        self.hidden = (given == denoiser.vocabulary) & self.valid  # Bool (B, L): positions to fill
        self.blocks = torch.where(self.hidden, 0, -1)  # (B, L): index of the block of each position, -1 if not filled
        self.lengths = self.valid.sum(1)  # (B): tokens of each row, up to its end
        self.reasons = torch.zeros(len(given), dtype=torch.int64)  # (B): why it ended, an index of REASONS

        # what is recorded of each position
        self.tokens = given.clone(memory_format=torch.contiguous_format)  # given may be one row for all
        self.order = torch.zeros_like(self.tokens)  # the step that revealed each position, 0 for given tokens
        self.probability = torch.ones(given.shape, dtype=torch.float64)  # of each token when it was revealed
        self.planned = False  # True where the order does not depend on the tokens
        self.turns = torch.zeros_like(self.lengths)  # (B): steps in which the sampler chose

        # what is recorded of re-masked tokens, and of attempts that were given up
        self.trace = trace  # whether re-masked tokens are recorded
        self.taken: list[Taken] = []
        self.revised = torch.zeros_like(self.lengths)  # (B): number of re-masked tokens
        self._hidings = 0
        self._attempts: list[tuple[Tensor, Account]] = []

    @cached_property
    def canvas(self) -> Canvas:
        """The canvas, which shares the session's tokens."""
        return self.canvas_kind(self.denoiser, self.tokens, self.rng, valid=self.valid, patience=self.patience)

    @cached_property
    def together(self) -> Together:
        assert self.joint is not None
        return Together(self.joint, self.canvas, self.probability)

    @property
    def order_rng(self) -> Randomness:
        """The random numbers of orders: the particles of one sequence have the same."""
        if self.joint is None or self.joint.particles == 1:
            return self.rng
        return Randomness(self.rng.seed, self.rng.row_ids // self.joint.particles * self.joint.particles)

    @cached_property
    def causal(self) -> Causal:
        rows, length = self.given.shape
        return self.denoiser.causal(rows, length, None if bool(self.valid.all()) else self.valid)

    def uses(self, part: str) -> bool:
        """Whether the sampler has used the 'canvas' or the 'causal' reader."""
        return part in self.__dict__

    @property
    def exhausted(self) -> bool:
        """Whether the sampler has used more model calls than `patience`."""
        return self.uses("canvas") and self.canvas.exhausted

    @property
    def settled(self) -> Bool[Tensor, " B"]:
        """Bool (B): rows that are final."""
        return self.reasons > 0

    def ask(self, rows: Int[Tensor, " K"], positions: Int[Tensor, " K"], time: Float[Tensor, " B"] | None) -> Marginals:
        """The marginals (K) of hidden positions, rows ascending, in one model call of each row."""
        return (self.canvas if self.joint is None else self.together).at(rows, positions, time)

    def draw(
        self, marginals: Marginals, rows: Int[Tensor, " K"], positions: Int[Tensor, " K"]
    ) -> tuple[Int[Tensor, " K"], Float64[Tensor, " K"]]:
        """Tokens (K) of a step, and the marginal probability (K) of each."""
        if self.joint is not None:
            return self.together.draw(rows, positions)
        tokens = self.canvas.draw(marginals, rows, positions)
        return tokens, marginals.of(tokens)

    def check_stop(self) -> None:
        """Apply the stop rule after a step: rows that have ended are settled."""
        if self.stop is None:
            return
        hidden = (self.tokens == self.denoiser.vocabulary) | ~self.valid
        progress = Progress(self.tokens, hidden, self.hidden, self.blocks, self.probability, self.account())

        lengths = self.stop.ended(progress)
        ended = (lengths >= 0) & ~self.settled
        if bool(ended.any()):
            self.lengths = torch.where(ended, torch.minimum(lengths, self.lengths), self.lengths)
            self.settle(ended, self.order.amax(1).clamp(min=1), "stopped")

    def settle(self, rows: Bool[Tensor, " B"], turn: Int[Tensor, " B"], reason: str) -> None:
        """Fill the remaining positions of rows, Bool (B), in their step (B), without a model call."""
        left = (self.tokens == self.denoiser.vocabulary) & self.hidden & rows.unsqueeze(1)

        places = left.nonzero(as_tuple=True)
        if len(places[0]):
            fill = self._fill
            if fill is None:
                problem = f"{self.name} marks rows as done, but no fill token is known"
                raise Breach(f"{problem}. Pass stop=, a token or a rule, to generate.")

            certain = torch.ones(len(places[0]), dtype=torch.float64)
            rows_left, positions = places
            self.put(rows_left, positions, torch.full_like(rows_left, fill), certain, turn[rows_left])

        self.reasons = torch.where(rows & ~self.settled, REASONS.index(reason), self.reasons)

    @property
    def _fill(self) -> int | None:
        """The token behind the end of a row: that of the stop rule, or of the language."""
        if self.stop is not None:
            return self.stop.fill
        return None if self.denoiser.language is None else self.denoiser.language.end

    def attempt(self, rows: Int[Tensor, " K"], seed: int) -> Session:
        """A new session for these rows (K), from the given tokens, with another random seed; see `adopt`."""
        rng = Randomness(seed, self.rng.row_ids[rows])
        given, valid, stop = self.given[rows], self.valid[rows], self.stop
        return type(self)(self.denoiser, given, rng, self.delta, self.name, valid=valid, stop=stop, trace=self.trace)

    def adopt(self, rows: Int[Tensor, " K"], attempt: Session) -> None:
        """Replace rows (K) by an attempt, and add its cost."""
        for name in ("tokens", "order", "probability", "lengths", "reasons"):
            getattr(self, name)[rows] = getattr(attempt, name)
        self.taken = [taken.select(~torch.isin(taken.rows, rows)) for taken in self.taken]
        self.taken += [taken.select(torch.ones_like(taken.rows, dtype=torch.bool), rows) for taken in attempt.taken]
        self.revised[rows] = attempt.revised
        self.charge(rows, attempt)

    def charge(self, rows: Int[Tensor, " K"], attempt: Session) -> None:
        """Add the cost of an attempt at rows (K)."""
        self._attempts.append((rows, attempt.account()))

    def account(self) -> Account:
        """Model calls needed and computation done, attempts included."""
        impossible, probes, positions = (torch.zeros_like(self.lengths) for _ in range(3))
        calls: dict[str, Tensor] = {}
        spent = Cost()

        if self.uses("canvas"):
            impossible = self.canvas.impossible.clone()
            probes, positions = self.canvas.counted()
            calls["denoiser"] = self.canvas.model_calls.clone()
            spent = self.canvas.spent
        if self.uses("causal"):
            positions = positions + self.causal.positions
            calls["causal"] = self.causal.model_calls.clone()
            spent = spent + self.causal.spent

        account = Account(impossible, probes, positions, self.revised.clone(), calls, spent)
        for rows, attempt in self._attempts:
            account.add(rows, attempt)
        return account

    def write(
        self,
        rows: Int[Tensor, " K"],
        positions: Int[Tensor, " K"],
        tokens: Int[Tensor, " K"],
        probability: Float[Tensor, " K"],
        steps: Tensor | int,
    ) -> None:
        """Reveal tokens (K) that had this probability (K) at positions (K) of rows (K), in this step."""
        self._check_places("writes", rows, positions, tokens)
        unknown = (tokens < 0) | (tokens >= self.denoiser.vocabulary)
        if bool(unknown.any()):
            problem = f"writes token {int(tokens[unknown][0])}; V is {self.denoiser.vocabulary}"
            self._refuse(problem, unknown, rows, positions, steps)

        shown = self.tokens[rows, positions] != self.denoiser.vocabulary
        if bool(shown.any()):
            self._refuse("reveals a position that is not hidden", shown, rows, positions, steps)

        # ascending places, the usual case, need no search for equal ones
        places = rows * self.tokens.shape[1] + positions
        if not bool((places[1:] > places[:-1]).all()) and len(places.unique()) < len(places):
            twice = (places.unsqueeze(0) == places.unsqueeze(1)).sum(1) > 1
            self._refuse("reveals a position twice", twice, rows, positions, steps)

        self.put(rows, positions, tokens, probability, steps)

    def put(
        self,
        rows: Int[Tensor, " K"],
        positions: Int[Tensor, " K"],
        tokens: Int[Tensor, " K"],
        probability: Float[Tensor, " K"],
        steps: Tensor | int,
    ) -> None:
        """`write` without checks: for hidden positions and tokens drawn by the canvas."""
        usable = probability > 0  # false for not-a-number too
        if not bool(usable.all()):
            at = int((~usable).int().argmax())
            where = f"position {int(positions[at])} of row {int(rows[at])}"
            raise UnmaskError(f"the denoiser gives no usable probabilities at {where}: all are zero or not numbers")

        self.order[rows, positions] = steps
        self.probability[rows, positions] = probability.double()
        if self.uses("canvas"):
            self.canvas.reveal((rows, positions), tokens)
        else:
            self.tokens[rows, positions] = tokens

    def hide(self, rows: Int[Tensor, " K"], positions: Int[Tensor, " K"], steps: Tensor | int) -> None:
        """Re-mask positions (K) of rows (K), in this step; given tokens cannot be hidden."""
        self._check_places("hides", rows, positions)

        shown = ~self.hidden[rows, positions]
        if bool(shown.any()):
            self._refuse("hides a given token", shown, rows, positions, steps)

        self._hidings += 1
        if self._hidings > self.patience:
            problem = f"has hidden tokens {self._hidings} times and seems to loop forever"
            self._refuse(problem, ~shown, rows, positions, steps)

        self.revised.index_add_(0, rows, torch.ones_like(rows))
        if self.trace:
            at = rows, positions
            turn = torch.as_tensor(steps).expand(len(rows))
            self.taken.append(Taken(*at, self.order[at], self.tokens[at], self.probability[at], turn))

        self.order[rows, positions] = 0
        self.probability[rows, positions] = 1.0
        self.canvas.hide((rows, positions))

    def _check_places(self, verb: str, *parts: object) -> None:
        """Raise an error unless all parts are int64 of one length, with rows and positions in range."""
        shape = getattr(parts[0], "shape", None)
        for part in parts:
            if not isinstance(part, Tensor) or part.dtype != torch.int64 or part.dim() != 1 or part.shape != shape:
                raise Breach(f"{self.name} {verb} at {' and '.join(map(shown, parts))}; expected int64 (K) each")

        for part, size in zip(parts, self.tokens.shape, strict=False):
            if not isinstance(part, Tensor) or not len(part):
                continue
            least, most = map(int, part.aminmax())
            if not 0 <= least <= most < size:
                raise Breach(f"{self.name} {verb} at {least} to {most}; expected 0 to {size - 1}")

    def _refuse(
        self,
        problem: str,
        wrong: Bool[Tensor, " K"],
        rows: Int[Tensor, " K"],
        positions: Int[Tensor, " K"],
        steps: Tensor | int,
    ) -> None:
        at = int(wrong.int().argmax())
        turn = torch.as_tensor(steps).expand(len(rows))[at]
        row = int(self.rng.row_ids[rows[at]])
        raise Breach(f"{self.name} {problem}, at position {int(positions[at])} of row {row} in step {int(turn)}")
