"""PBx: how many tokens per step a sampler decodes before its score falls.

PBx is of ParallelBench (Kang et al., arXiv 2510.04767). For each setting s of a sampler, S(s) is the mean over tasks of
the score in percent. R(s) is that of the tokens per step as published (points.py). Then

    PBx = max { R(s) : S(s) >= x }

and, for a sampler whose number of tokens per step varies, also each crossing of x on the straight line between
neighbors in R, never beyond the ends. Of settings with equal R, the line takes the best. A sampler may not reach x.

Intervals are quantiles over resampled items. Items are resampled within each task, and a resample is the same for all
settings and samplers. In
simulations the intervals of 95% cover the true value in 94% to 96% of trials, and in 90% where the true score of a
setting of a top-k sampler, or of the last setting, is exactly x.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from unmask.core.chance import Stream, uniform
from unmask.core.estimates import LEVEL, Estimate
from unmask.tasks.parallel.points import Setting, tokens_per_step

THRESHOLDS = (80.0, 75.0, 70.0)
DRAWS = 4000  # resamples
AT_ONCE = 2**23  # items of all resamples that are in memory together
METHOD = "paired bootstrap over items"


@dataclass(frozen=True)
class Reached:
    """PBx of a sampler: None where x is not reached, in the data or at an end of the interval."""

    threshold: float
    value: float | None
    low: float | None
    high: float | None
    draws: int  # resamples
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"level": LEVEL, "method": METHOD}

    def __str__(self) -> str:
        value, low, high = ("never" if end is None else f"{end:.2f}" for end in (self.value, self.low, self.high))
        return f"{value} [{low}, {high}]"


@dataclass(frozen=True)
class Swept:
    """A sampler at all its settings, sorted by R."""

    settings: Sequence[Setting]
    speeds: Tensor  # (1 + draws, settings): R of the data, then of each resample
    scores: Tensor  # the same for S

    @property
    def name(self) -> str:
        return self.settings[0].sampler

    def reached(self, threshold: float) -> Tensor:
        """(1 + draws) PBx, 0 where not reached."""
        return reached(self.speeds, self.scores, threshold, all(one.top_k for one in self.settings))

    def pbx(self, threshold: float) -> Reached:
        every = self.reached(threshold)
        value, low, high = (float(number) or None for number in (every[0], *_ends(every[1:])))
        return Reached(threshold, value, low, high, len(every) - 1, tuple(self._warnings(threshold, value)))

    def score(self, setting: int) -> Estimate:
        """S of a setting in percent."""
        value, (low, high) = float(self.scores[0, setting]), (float(end) for end in _ends(self.scores[1:, setting]))
        return Estimate(value, min(low, value), max(high, value), len(self.scores) - 1, LEVEL, METHOD)

    def _warnings(self, threshold: float, value: float | None) -> list[str]:
        """Reasons why PBx depends on chance, or on the list of settings."""
        warnings = []
        best = int(self.scores[0].argmax())  # of which chance decides whether x is reached at all
        speeds = self.speeds[0].tolist()
        for number, (one, speed) in enumerate(zip(self.settings, speeds, strict=True)):
            score = self.score(number)
            decides = speed >= (value or 0.0) if one.top_k else number == best
            if decides and score.low <= threshold <= score.high:
                interval = f"{score.value:.1f}% [{score.low:.1f}, {score.high:.1f}]"
                warnings.append(f"chance decides whether setting {one.setting} reaches {threshold:g}%: {interval}")
        if value is not None and value >= max(speeds):
            fastest = f"the fastest setting still reaches {threshold:g}%"
            warnings.append(f"{fastest}: PB{threshold:g} is at least {value:.2f}")
        return warnings


def sweeps(settings: Iterable[Setting], draws: int = DRAWS, seed: int = 0) -> list[Swept]:
    """The samplers of settings with known model calls, each by R; items are resampled for all of a model together."""
    models: dict[tuple[str, str], list[Setting]] = {}
    for setting in settings:
        if setting.published is not None:
            models.setdefault((setting.source, setting.model), []).append(setting)
    swept = []
    for every in models.values():
        speeds, scores = resample(every, draws, seed)
        for sampler in dict.fromkeys(one.sampler for one in every):
            own = [column for column, one in enumerate(every) if one.sampler == sampler]
            at = sorted(own, key=lambda column: float(speeds[0, column]))
            swept.append(Swept([every[column] for column in at], speeds[:, at], scores[:, at]))
    return swept


def resample(settings: Sequence[Setting], draws: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """(1 + draws, settings) R, and S in percent: of the data, then of resampled items of each task."""
    speeds = torch.zeros(1 + draws, len(settings), dtype=torch.float64)
    scores = torch.zeros_like(speeds)
    counts = torch.tensor([len(setting.tasks) for setting in settings])
    for number, task in enumerate(sorted({task for setting in settings for task in setting.tasks})):
        items = sorted({one.item for setting in settings for one in setting.tasks.get(task, ())})
        present, rate, score = _columns(settings, task, items)
        has = present.any(0)  # settings without this task
        for rows in torch.arange(1 + draws).split(max(AT_ONCE // len(items), 1)):
            times = _times(rows, len(items), seed, number)
            weights = (times @ present).clamp(min=1)  # a resample without any item of a setting counts as 0
            speeds[rows] += torch.where(has, times @ rate / weights, 0.0)
            scores[rows] += torch.where(has, times @ score / weights, 0.0)
    return speeds / counts, 100 * scores / counts


def _columns(settings: Sequence[Setting], task: str, items: Sequence[str]) -> Tensor:
    """(3, items, settings): 1 where a setting has the item, its tokens per step, its score."""
    at = {item: number for number, item in enumerate(items)}
    columns = torch.zeros(3, len(items), len(settings), dtype=torch.float64)
    for column, setting in enumerate(settings):
        if own := setting.tasks.get(task):
            numbers = [(1.0, tokens_per_step(one) or 0.0, one.score) for one in own]
            columns[:, [at[one.item] for one in own], column] = torch.tensor(numbers, dtype=torch.float64).T
    return columns


def _times(rows: Tensor, items: int, seed: int, task: int) -> Tensor:
    """(rows, items): how often each item occurs in these rows; once in row 0, that of the data."""
    row, every = rows.unsqueeze(1), torch.arange(items)
    drawn = (uniform(seed, Stream.BOOTSTRAP, (row - 1).clamp(min=0), every, task) * items).long()
    drawn = torch.where(row == 0, every, drawn)
    times = torch.zeros(len(rows), items, dtype=torch.float64)
    return times.scatter_add_(1, drawn, torch.ones((), dtype=torch.float64).expand_as(drawn))


def reached(speeds: Tensor, scores: Tensor, threshold: float, top_k: bool) -> Tensor:
    """(rows) PBx of each row of R and S (rows, settings); 0 where not reached."""
    best = torch.where(scores >= threshold, speeds, 0.0).amax(1)
    if top_k or scores.shape[1] < 2:
        return best
    scores, order = scores.sort(1, descending=True)
    speeds, order = speeds.gather(1, order).sort(dim=1, stable=True)  # by R; of equal R the best first
    above = scores.gather(1, order) - threshold
    left, right = above[:, :-1], above[:, 1:]
    crosses = left * right < 0
    part = left / torch.where(crosses, left - right, 1.0)
    crossing = speeds[:, :-1] + part * (speeds[:, 1:] - speeds[:, :-1])
    return torch.maximum(best, torch.where(crosses, crossing, 0.0).amax(1))


def _ends(draws: Tensor) -> tuple[Tensor, Tensor]:
    """The ends of the interval: quantiles that are draws, so that 0 keeps its meaning."""
    tail = (1 - LEVEL) / 2
    return draws.quantile(tail, interpolation="lower"), draws.quantile(1 - tail, interpolation="higher")
