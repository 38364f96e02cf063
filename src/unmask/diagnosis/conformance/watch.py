"""Sessions that see what a sampler does beside them: evaluations that nobody counts, and luck that is used twice."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from unmask.core.chance import Luck, Stream
from unmask.denoisers import Canvas, Causal, Denoiser, Marginals
from unmask.samplers.contract import Breach
from unmask.samplers.session import Session

Said = Tensor | Marginals


class Watch:
    """A denoiser (a copy of it) that notes whoever asks it past the canvas and the causal reader of the session."""

    def __init__(self, denoiser: Denoiser) -> None:
        self.denoiser = copy.copy(denoiser)
        self.uncounted: list[str] = []
        self._counting = 0
        vars(self.denoiser)["watch"] = self
        for name in ("posterior", "engine", "causal"):
            vars(self.denoiser)[name] = self._noting(name, getattr(denoiser, name))

    @contextmanager
    def counting(self) -> Iterator[None]:
        """What is asked in here is counted by others."""
        self._counting += 1
        try:
            yield
        finally:
            self._counting -= 1

    def counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            with self.counting():
                return method(*arguments, **options)

        return call

    def _noting(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if not self._counting:
                self.uncounted.append(name)
            return method(*arguments, **options)

        return call


class WatchedSession(Session):
    """A session on the denoiser of a watch."""

    @cached_property
    def canvas(self) -> Canvas:
        with self._watch.counting():
            canvas = super().canvas
        vars(canvas)["ask"] = self._watch.counted(canvas.ask)
        return canvas

    @cached_property
    def causal(self) -> Causal:
        with self._watch.counting():
            causal = super().causal
        vars(causal)["extend"] = self._patient(causal.extend)
        return causal

    @property
    def _watch(self) -> Watch:
        watch: Watch = vars(self.denoiser)["watch"]
        return watch

    def _patient(self, extend: Callable[..., Said]) -> Callable[..., Said]:
        calls = 0

        def call(*arguments: Any, **options: Any) -> Said:
            nonlocal calls
            calls += 1
            if calls > self.patience:
                raise Breach(f"{self.name} has read {calls} times and is not done; it seems to loop for ever")
            return extend(*arguments, **options)

        return call


@dataclass(frozen=True)
class NotedLuck(Luck):
    """Luck that notes (row, position, visit) of every uniform that a token was drawn from."""

    drawn: list[Tensor] = field(default_factory=list)

    def uniform(self, stream: Stream, rows: Tensor, positions: Tensor, visits: Tensor | int = 0) -> Tensor:
        if stream == Stream.TOKEN:
            self._note(rows, positions, torch.as_tensor(visits))
        return super().uniform(stream, rows, positions, visits)

    def grid(self, stream: Stream, length: int, visits: Tensor | int = 0) -> Tensor:
        return self.uniform(stream, torch.arange(len(self.row_ids)).unsqueeze(1), torch.arange(length), visits)

    def twice(self) -> tuple[int, int] | None:
        """(row, position) of a token that shares its uniform with an earlier one."""
        if not self.drawn:
            return None
        places, counts = torch.cat(self.drawn).unique(dim=0, return_counts=True)
        again = places[counts > 1]
        return (int(self.row_ids[again[0, 0]]), int(again[0, 1])) if len(again) else None

    def _note(self, rows: Tensor, positions: Tensor, visits: Tensor) -> None:
        self.drawn.append(
            torch.stack([part.reshape(-1) for part in torch.broadcast_tensors(rows, positions, visits)], 1)
        )
