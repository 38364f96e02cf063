"""Classifier-free guidance: strengthens the effect of a prompt, at two model calls per prediction."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.denoisers.contracts import Causal, Cost, Engine
from unmask.denoisers.denoiser import Denoiser, checked
from unmask.denoisers.marginals import Marginals, as_marginals


class Guided(Denoiser):
    """p(v | x)^(1+w) / p(v | x without the prompt)^w, normalized; w = scale, LLaDA's cfg_scale.

    The prompt is the given part of a canvas. For the prediction without it, the given positions are hidden, so each
    prediction takes two model calls. At w = 0 there is a single call, of the denoiser itself.
    """

    def __init__(self, inner: Denoiser, scale: float) -> None:
        arguments.number("scale", scale, what="; 0 turns guidance off")
        self.inner = checked(inner)
        self.scale = scale
        self.vocabulary, self.language, self.grid = self.inner.vocabulary, self.inner.language, self.inner.grid
        self.time_free, self.concurrent = self.inner.time_free, self.inner.concurrent
        self.removes = self.inner.removes
        self.calls = self.inner.calls * (2 if scale else 1)

    @property
    def name(self) -> str:
        return f"{self.inner.name}, guided by {self.scale:g}"

    def source(self) -> dict[str, Any]:
        return super().source() | {"scale": self.scale, "of": self.inner.source()}

    def engine(self, tokens: Tensor, given: Tensor | None = None, valid: Tensor | None = None) -> Engine:
        if not self.scale:
            return self.inner.engine(tokens, given, valid)
        return GuidedEngine(self, tokens, tokens.clone() if given is None else given, valid)

    def causal(self, rows: int, length: int, valid: Tensor | None = None) -> Causal:
        raise UnmaskError("a guided denoiser cannot read from left to right. Pass the denoiser without guidance.")

    def rows_at_once(self, length: int) -> int | None:
        return self.inner.rows_at_once(length)


class GuidedEngine(Engine):
    """Two engines: one for the canvas, and one for a copy without the given tokens."""

    def __init__(self, denoiser: Guided, tokens: Tensor, given: Tensor, valid: Tensor | None) -> None:
        super().__init__(tokens)
        self.scale, self.vocabulary = denoiser.scale, denoiser.vocabulary
        self.prompt = given != denoiser.vocabulary if valid is None else (given != denoiser.vocabulary) & valid
        self.bare = torch.where(self.prompt, denoiser.vocabulary, tokens)
        self.engines = (
            denoiser.inner.engine(tokens, given, valid),
            denoiser.inner.engine(self.bare, torch.full_like(tokens, denoiser.vocabulary), valid),
        )

    def renew(self, rows: Tensor, positions: Tensor) -> None:
        self.bare[rows, positions] = self.tokens[rows, positions]
        for engine in self.engines:
            engine.renew(rows, positions)

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Marginals:
        prompted, bare = (as_marginals(engine.at(rows, positions, time)) for engine in self.engines)
        return prompted.guided(bare, self.scale)

    @property
    def hollow(self) -> bool:
        return all(engine.hollow for engine in self.engines)

    def dead(self) -> Tensor | None:
        return self.engines[0].dead()

    @property
    def positions(self) -> Tensor | None:
        prompted, bare = (engine.positions for engine in self.engines)
        return None if prompted is None or bare is None else prompted + bare

    @property
    def spent(self) -> Cost:
        return self.engines[0].spent + self.engines[1].spent
