"""A sampler that a foreign loop feeds with logits: it decides in each step, and the loop computes the network.

The tokens are those of `generate` with the same logits, seed and row numbers. Samplers with their own loop are refused:
they also ask for contexts that the loop does not compute.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from unmask import UnmaskError
from unmask.core.chance import Randomness, check_seed
from unmask.denoisers import Denoiser, Engine, Logits, Marginals
from unmask.samplers import Sampler, Session
from unmask.samplers.contract import as_sampler
from unmask.samplers.loops import steps_of
from unmask.samplers.schedules import ScheduleLike, deltas


class Given(Denoiser):
    """A denoiser with the logits (B, L, V) of the loop, for its own canvas only."""

    def __init__(self, vocabulary: int, mask: int | None) -> None:
        self.vocabulary, self.mask = vocabulary, mask
        self.logits: Tensor | None = None
        self._canvas: Tensor | None = None

    def engine(self, tokens: Tensor, given: Tensor | None = None, valid: Tensor | None = None) -> Engine:
        if self._canvas is not None:
            problem = "the sampler asks for another context than the tokens of the loop"
            raise UnmaskError(f"{problem}. Use a sampler that predicts hidden positions only")
        self._canvas = tokens
        return GivenEngine(self, tokens)


class GivenEngine(Engine):
    def __init__(self, denoiser: Given, tokens: Tensor) -> None:
        super().__init__(tokens)
        self.denoiser = denoiser

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Marginals:
        logits = self.denoiser.logits
        assert logits is not None
        logits = logits[rows.to(logits.device), positions.to(logits.device)]
        if logits.dtype not in (torch.float32, torch.float64):
            logits = logits.float()
        if self.denoiser.mask is not None and self.denoiser.mask < self.denoiser.vocabulary:
            logits[:, self.denoiser.mask] = -torch.inf
        self.spend_on(rows)
        return Logits(logits)


class Fed:
    """Rows (B, L) that a sampler completes, one step for each `feed` of logits (B, L, V).

    ids: the tokens, `mask` where hidden. steps: N of samplers that follow a schedule. (default: one per hidden
    position) rows: numbers of the rows, for their random numbers.
    """

    def __init__(
        self,
        sampler: str | Sampler,
        ids: Tensor,
        mask: int,
        vocabulary: int,
        *,
        steps: int | None = None,
        schedule: ScheduleLike = "linear",
        seed: int = 0,
        rows: Sequence[int] | None = None,
    ) -> None:
        self.sampler, self.mask = as_sampler(sampler), mask
        if self.sampler.implements("run"):
            problem = f"sampler {self.sampler.spec} has its own loop"
            raise UnmaskError(f"{problem}; expected one that orders or chooses. Blocks are those of the foreign loop")
        hidden = ids.cpu() == mask
        delta = deltas(schedule, steps or max(int(hidden.sum(1).max()), 1) if isinstance(schedule, str) else None)
        numbers = torch.arange(len(ids)) if rows is None else torch.tensor(rows)
        self.denoiser = Given(vocabulary, mask)
        given = ids.cpu().long().masked_fill(hidden, vocabulary)
        self.session = Session(self.denoiser, given, Randomness(check_seed(seed), numbers), delta, self.sampler.spec)
        self._steps = steps_of(self.sampler, self.session, torch.where(hidden, 0, -1))
        self.done = next(self._steps, self) is self

    @property
    def ids(self) -> Tensor:
        """(B, L): the tokens, `mask` where hidden."""
        return self.session.tokens.masked_fill(self.session.tokens == self.denoiser.vocabulary, self.mask)

    def feed(self, logits: Tensor) -> Tensor:
        """Take one step with logits (B, L, V) of the current tokens; return the new ones (B, L)."""
        if not self.done:
            self.denoiser.logits = logits
            self.done = next(self._steps, self) is self
            self.denoiser.logits = None
        return self.ids
