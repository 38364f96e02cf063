"""Sessions that detect uncounted model calls and uniform random numbers that are used twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from unmask.core.chance import Randomness, Stream
from unmask.denoisers import Canvas, Causal, Cost, Denoiser, Engine, Marginals
from unmask.samplers.session import Breach, Session


class Watched(Denoiser):
    """A denoiser that records calls that bypass the canvas and the causal reader of the session."""

    def __init__(self, inner: Denoiser) -> None:
        self.inner = inner
        self.uncounted: list[str] = []
        self._counting = 0
        self.vocabulary, self.language, self.ideal = inner.vocabulary, inner.language, inner.ideal
        self.removes = inner.removes
        self.time_free, self.calls, self.concurrent, self.grid = (
            inner.time_free,
            inner.calls,
            inner.concurrent,
            inner.grid,
        )

    @property
    def name(self) -> str:
        return self.inner.name

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Context for calls that are counted elsewhere."""
        self._counting += 1
        try:
            yield
        finally:
            self._counting -= 1

    def engine(self, tokens: Tensor, given: Tensor | None = None, valid: Tensor | None = None) -> Engine:
        self._note("engine")
        return self.inner.engine(tokens, given, valid)

    def causal(self, rows: int, length: int, valid: Tensor | None = None) -> Causal:
        self._note("causal")
        return self.inner.causal(rows, length, valid)

    def posterior(
        self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None
    ) -> Tensor | Marginals:
        self._note("posterior")
        return self.inner.posterior(tokens, positions, time)

    def rows_at_once(self, length: int) -> int | None:
        return self.inner.rows_at_once(length)

    def _note(self, name: str) -> None:
        if not self._counting:
            self.uncounted.append(name)


class WatchedCanvas(Canvas):
    """A canvas whose calls are marked as counted."""

    denoiser: Watched

    def __init__(self, denoiser: Watched, *arguments: Any, **options: Any) -> None:
        with denoiser.counting():
            super().__init__(denoiser, *arguments, **options)

    def ask(self, tokens: Tensor, rows: Tensor, *positions: Any, **options: Any) -> Marginals:
        with self.denoiser.counting():
            return super().ask(tokens, rows, *positions, **options)


class WatchedSession(Session):
    """A session with a watched denoiser and watched random numbers."""

    canvas_kind = WatchedCanvas
    denoiser: Watched

    def __init__(self, denoiser: Watched, given: Tensor, rng: Randomness, *arguments: Any, **options: Any) -> None:
        self.noted = NotedRandomness(rng.seed, rng.row_ids)
        super().__init__(denoiser, given, self.noted, *arguments, **options)

    @cached_property
    def causal(self) -> Causal:
        with self.denoiser.counting():
            return Patient(super().causal, self)


class Patient(Causal):
    """A causal reader that limits the number of calls."""

    def __init__(self, inner: Causal, session: Session) -> None:
        self.inner, self.session = inner, session
        self.calls = 0

    @property
    def model_calls(self) -> Tensor:
        return self.inner.model_calls

    @property
    def spent(self) -> Cost:
        return self.inner.spent

    def extend(
        self, tokens: Tensor, counts: Tensor | None = None, selected: Tensor | None = None
    ) -> Tensor | Marginals:
        self.calls += 1
        if self.calls > self.session.patience:
            raise Breach(f"{self.session.name} has read {self.calls} times and is not done; it seems to loop for ever")
        return self.inner.extend(tokens, counts, selected)

    def rewind(self, lengths: Tensor) -> None:
        self.inner.rewind(lengths)

    def finish(self, last: Tensor, tokens: Tensor, rng: Randomness) -> Tensor | None:
        return self.inner.finish(last, tokens, rng)


@dataclass(frozen=True)
class NotedRandomness(Randomness):
    """Randomness that records (row, position, visit) of every uniform used to draw a token."""

    drawn: list[Tensor] = field(default_factory=list)

    def uniform(self, stream: Stream, rows: Tensor, positions: Tensor, visits: Tensor | int = 0) -> Tensor:
        if stream == Stream.TOKEN:
            self._note(rows, positions, torch.as_tensor(visits))
        return super().uniform(stream, rows, positions, visits)

    def grid(self, stream: Stream, length: int, visits: Tensor | int = 0) -> Tensor:
        return self.uniform(stream, torch.arange(len(self.row_ids)).unsqueeze(1), torch.arange(length), visits)

    def twice(self) -> tuple[int, int] | None:
        """(row, position) of a token with the same uniform as an earlier one."""
        if not self.drawn:
            return None
        draws, counts = torch.cat(self.drawn).unique(dim=0, return_counts=True)
        again = draws[counts > 1]
        return (int(self.row_ids[again[0, 0]]), int(again[0, 1])) if len(again) else None

    def _note(self, rows: Tensor, positions: Tensor, visits: Tensor) -> None:
        self.drawn.append(
            torch.stack([part.reshape(-1) for part in torch.broadcast_tensors(rows, positions, visits)], 1)
        )
