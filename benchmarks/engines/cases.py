"""A case: one decoder at one setting, the distribution that it should write, and the rule in its code if it differs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from benchmarks.engines.networks import Network
from unmask.samplers import Sampler

Loop = Callable[[Any, int, int, int], Tensor]  # network, rows, length, steps -> tokens (rows, length)
Law = Callable[[Network, int, int], Tensor]  # network, length, steps -> probability of every sequence (V^L)


KEEPS = "probable draws first"
GREEDY = "argmax"


@dataclass(frozen=True)
class Case:
    setting: str
    loop: Loop
    sampler: str | Sampler  # that it should be, for the audit
    law: Law  # that it should write
    code: Law | None = None  # that its code writes, if it is another
    why: str = ""  # the difference, in words
    meant: str = ""  # why its law is not the model's distribution, if the authors mean it so
    rows: int = 20_000  # of a call
    noise: bool = False  # uniform noise, not masks
    level: bool = False  # whether the network is told the level of the noise
    record: bool = True  # whether the network sees whole canvases
    audited: bool = True
    sized: bool = True  # whether the fraction of a rare token says something
    tail: float | None = None  # the fraction of 997 rare tokens together that its code writes; None: not measured
    filters: dict[str, Any] = field(default_factory=dict)  # of the audit: temperature, top_p, top_k
