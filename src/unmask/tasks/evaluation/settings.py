"""Settings of an evaluation: one task, models, and swept options."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from unmask.core import arguments
from unmask.core.chance import check_seed
from unmask.samplers import SAMPLERS
from unmask.tasks import TASKS
from unmask.tasks.contract import asking, find
from unmask.tasks.writing import How

SWEPT = ("sampler", "steps", "length", "eos", "temperature")  # may have several values
COMMON = ("dtype", "device", "top_p", "top_k", "until", "chat", "system", "each", "batch", "seed")
MOST_EACH = 10**4
OF_BOTH = ("length", "eos", "temperature")  # swept options that also apply to AR
OF_MASKED = ("schedule", "guidance", "cache")


@dataclass(frozen=True)
class Settings:
    """Every combination of the swept options. The AR model writes from left to right and has no steps."""

    task: str
    model: str
    causal_model: str | None = None  # the baseline, also used by speculative samplers
    data: str | None = None
    card: str | None = None
    causal_card: str | None = None
    device: str = "auto"
    dtype: str | None = None
    cache: str | None = None
    sampler: Sequence[str] = ()
    schedule: str = "linear"
    steps: Sequence[int] = ()
    length: Sequence[int] = ()
    eos: Sequence[str] = ()
    temperature: Sequence[float] = ()
    top_p: float | None = None
    top_k: int | None = None
    guidance: float = 0.0
    until: bool = True
    chat: bool = False
    system: str | None = None
    each: int = 1  # samples per item
    batch: int = 8
    limit: int | None = None  # the first items (default: all)
    seed: int = 0

    def __post_init__(self) -> None:
        TASKS.make(self.task)
        if self.limit is not None:
            arguments.whole("limit", self.limit, 1)
        arguments.whole("each", self.each, 1, MOST_EACH)
        arguments.whole("batch", self.batch, 1, arguments.MOST_ROWS)
        check_seed(self.seed)
        for point in self.points():
            How(**{name: point[name] for name in How.__dataclass_fields__ if name in point})

    @property
    def file(self) -> str:
        """The file of the items: `data`, or the file in the data directory; "" if there is none."""
        if self.data is not None:
            return os.path.abspath(self.data)
        file = find(TASKS.make(self.task).file)
        return "" if file is None else os.path.abspath(file)

    @property
    def items(self) -> int:
        """The number of items."""
        there = len(TASKS.make(self.task).items(self.file or None))
        return there if self.limit is None else min(self.limit, there)

    def points(self) -> list[dict[str, Any]]:
        """The settings of each cell without its rows: combinations of swept options, then the AR model."""
        swept = {name: list(values) for name in SWEPT if (values := getattr(self, name))}
        common = {name: getattr(self, name) for name in COMMON} | {"task": asking(self.task), "data": self.file}
        masked = common | {name: getattr(self, name) for name in OF_MASKED} | {"model": self.model, "card": self.card}
        if any("causal" in SAMPLERS.make(sampler).reads for sampler in self.sampler):
            masked["causal_model"] = self.causal_model
        points = [_without_none(masked | dict(zip(swept, chosen, strict=True))) for chosen in product(*swept.values())]
        if self.causal_model is not None:
            alone = {name: values for name, values in swept.items() if name in OF_BOTH}
            causal = common | {"model": self.causal_model, "card": self.causal_card}
            points += [
                _without_none(causal | dict(zip(alone, chosen, strict=True))) for chosen in product(*alone.values())
            ]
        return points


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
