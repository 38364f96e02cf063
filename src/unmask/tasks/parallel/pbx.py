"""PBx of ParallelBench (Kang et al., arXiv 2510.04767): the tokens per step at which a sampler still scores x percent.

For each setting s of a sampler, S(s) is the mean over tasks of the score, and R(s) of the tokens per step as published
(points.py). Then

    PBx = max { R(s) : S(s) >= x }

and, for a sampler whose number of tokens per step varies, also each crossing of x on the straight line between
neighbors in R, never beyond the ends. Of settings with equal R, the line takes the best. A sampler may not reach x.

Intervals are quantiles over resampled items. Items are resampled within each task, and a resample is the same for all
settings and samplers, so differences are paired. Tests of all pairs of samplers have a common level (Holm). In
simulations the intervals of 95% cover the true value in 94% to 96% of trials, and in 90% where the true score of a
setting of a top-k sampler, or of the last setting, is exactly x.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from unmask.core.chance import Stream, uniform
from unmask.core.estimates import LEVEL, Estimate
from unmask.tasks.parallel.points import Outcome, Point, Setting, tokens_per_step

THRESHOLDS = (80.0, 75.0, 70.0)
DRAWS = 4000  # resamples: Holm's test of the 55 pairs of 11 samplers needs at least 2 * 55 / 0.05
METHOD = "paired bootstrap over items"


@dataclass(frozen=True)
class Reached:
    """PBx of a sampler: None where x is not reached, in the data or at an end of the interval."""

    threshold: float
    value: float | None
    low: float | None
    high: float | None
    draws: int  # resamples; without items there are none, and no interval
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"level": LEVEL, "method": METHOD if self.draws else ""}

    def __str__(self) -> str:
        value, low, high = ("never" if end is None else f"{end:.2f}" for end in (self.value, self.low, self.high))
        return f"{value} [{low}, {high}]" if self.draws else value


@dataclass(frozen=True)
class Swept:
    """A sampler at all its settings."""

    points: Sequence[Point]
    speeds: Tensor  # (1 + draws, settings): R of the data, then of each resample
    scores: Tensor  # the same for S

    @property
    def name(self) -> str:
        return self.points[0].sampler

    @property
    def suite(self) -> tuple[str, str]:
        """Source and model, whose samplers can be compared."""
        return self.points[0].source, self.points[0].model

    @property
    def draws(self) -> int:
        return len(self.speeds) - 1

    def reached(self, threshold: float) -> Tensor:
        """(1 + draws) PBx, 0 where not reached."""
        return _reached(self.speeds, self.scores, threshold, all(point.top_k for point in self.points))

    def pbx(self, threshold: float) -> Reached:
        reached = self.reached(threshold)
        value, low, high = (_or_none(number) for number in (reached[0], *_ends(reached[1:])))
        return Reached(threshold, value, low, high, self.draws, tuple(self._warnings(threshold, value)))

    def score(self, setting: int) -> Estimate | None:
        """S of a setting in percent; None without items."""
        return self._estimate(self.scores[:, setting])

    def speed(self, setting: int) -> Estimate | None:
        """R of a setting; None without items."""
        return self._estimate(self.speeds[:, setting])

    def _estimate(self, numbers: Tensor) -> Estimate | None:
        low, high = (float(end) for end in _ends(numbers[1:]))
        value = float(numbers[0])
        return Estimate(value, min(low, value), max(high, value), self.draws, LEVEL, METHOD) if self.draws else None

    def _warnings(self, threshold: float, value: float | None) -> list[str]:
        """Reasons why PBx depends on chance, or on the list of settings."""
        warnings = []
        best = int(self.scores[0].argmax())  # of which chance decides whether x is reached at all
        for setting, point in enumerate(self.points):
            score = self.score(setting)
            decides = point.speed >= (value or 0.0) if point.top_k else setting == best
            if decides and score is not None and score.low <= threshold <= score.high:
                interval = f"{point.score:.1f}% [{score.low:.1f}, {score.high:.1f}]"
                warnings.append(f"chance decides whether setting {point.setting} reaches {threshold:g}%: {interval}")
        if value is not None and value >= max(point.speed for point in self.points):
            warnings.append(
                f"the fastest setting still reaches {threshold:g}%: PB{threshold:g} is at least {value:.2f}"
            )
        return warnings


@dataclass(frozen=True)
class Lead:
    """The difference of PBx of two samplers, 0 standing for not reached. p: Holm's, over all pairs."""

    first: str
    second: str
    threshold: float
    value: float
    low: float
    high: float
    p: float

    @property
    def sure(self) -> bool:
        return self.p < 1 - LEVEL

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"sure": self.sure}


def pbx(points: Sequence[Point], threshold: float) -> float | None:
    """PBx of the points of one sampler; None if not reached."""
    return _swept(points).pbx(threshold).value


def sweeps(settings: Iterable[Setting], points: Iterable[Point] = (), draws: int = DRAWS, seed: int = 0) -> list[Swept]:
    """The samplers of settings with known model calls, and of points without items; each by R."""
    suites: dict[tuple[str, str], list[Setting]] = {}
    for setting in settings:
        if setting.point is not None:
            suites.setdefault((setting.source, setting.model), []).append(setting)
    swept = []
    for suite in suites.values():
        speeds, scores = resample(suite, draws, seed)
        for columns in _grouped([setting.point for setting in suite if setting.point is not None]).values():
            at = sorted(columns, key=lambda column: float(speeds[0, column]))
            own = [point for column in at if (point := suite[column].point) is not None]
            swept.append(Swept(own, speeds[:, at], scores[:, at]))
    alone = list(points)
    for columns in _grouped(alone).values():
        swept.append(_swept(sorted((alone[column] for column in columns), key=lambda point: point.speed)))
    return swept


def leads(swept: Sequence[Swept], threshold: float) -> list[Lead]:
    """The differences of all pairs of the samplers of one model; the draws must be the same."""
    reached = {one.name: one.reached(threshold) for one in swept if one.draws}
    pairs = list(combinations(sorted(reached, key=lambda name: -float(reached[name][0])), 2))
    differences = []
    for first, second in pairs:
        difference = reached[first] - reached[second]
        low, high = _ends(difference[1:])
        sides = [1 + int((difference[1:] <= 0).sum()), 1 + int((difference[1:] >= 0).sum())]
        p = min(2 * min(sides) / len(difference), 1.0)
        differences.append(Lead(first, second, threshold, float(difference[0]), float(low), float(high), p))
    return _holm(differences)


def resample(settings: Sequence[Setting], draws: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """(1 + draws, settings) R, and S in percent: of the data, then of resampled items of each task."""
    speeds = torch.zeros(1 + draws, len(settings), dtype=torch.float64)
    scores = torch.zeros_like(speeds)
    counts = torch.tensor([len(setting.tasks) for setting in settings])
    for number, task in enumerate(sorted({task for setting in settings for task in setting.tasks})):
        items = sorted({one.item for setting in settings for one in setting.tasks.get(task, ())})
        times = _times(len(items), draws, seed, number)  # (1 + draws, items)
        present, rate, score = (torch.stack(parts, 1) for parts in zip(*_columns(settings, task, items), strict=True))
        weights = (times @ present).clamp(min=1)  # a resample without any item of a setting counts as 0
        has = present.any(0)  # settings without this task
        speeds += torch.where(has, times @ rate / weights, 0.0)
        scores += torch.where(has, times @ score / weights, 0.0)
    return speeds / counts, 100 * scores / counts


def _columns(settings: Sequence[Setting], task: str, items: Sequence[str]) -> Iterable[list[Tensor]]:
    """Three columns (items) for each setting: 1 where it has the item, its tokens per step, its score."""
    at = {item: number for number, item in enumerate(items)}
    for setting in settings:
        columns = torch.zeros(3, len(items), dtype=torch.float64)
        for one in setting.tasks.get(task, ()):
            columns[:, at[one.item]] = torch.tensor(_numbers(one), dtype=torch.float64)
        yield list(columns)


def _numbers(one: Outcome) -> tuple[float, float, float]:
    return 1.0, tokens_per_step(one) or 0.0, one.score


def _times(items: int, draws: int, seed: int, task: int) -> Tensor:
    """(1 + draws, items): how often each item occurs; once in the first row."""
    rows = torch.arange(draws).unsqueeze(1)
    drawn = (uniform(seed, Stream.BOOTSTRAP, rows, torch.arange(items), task) * items).long()
    times = torch.zeros(draws, items, dtype=torch.float64).scatter_add_(1, drawn, torch.ones_like(drawn).double())
    return torch.cat([torch.ones(1, items, dtype=torch.float64), times])


def _reached(speeds: Tensor, scores: Tensor, threshold: float, top_k: bool) -> Tensor:
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
    if not len(draws):
        return torch.tensor(0.0), torch.tensor(0.0)
    tail = (1 - LEVEL) / 2
    return draws.quantile(tail, interpolation="lower"), draws.quantile(1 - tail, interpolation="higher")


def _swept(points: Sequence[Point]) -> Swept:
    """A sampler without items."""
    speeds, scores = ([getattr(point, name) for point in points] for name in ("speed", "score"))
    return Swept(points, *(torch.tensor([own], dtype=torch.float64) for own in (speeds, scores)))


def _grouped(points: Sequence[Point]) -> dict[tuple[str, str, str], list[int]]:
    groups: dict[tuple[str, str, str], list[int]] = {}
    for number, point in enumerate(points):
        groups.setdefault((point.source, point.model, point.sampler), []).append(number)
    return groups


def _holm(pairs: Sequence[Lead]) -> list[Lead]:
    """Adjusted p: the largest of (m - i) p_(i) up to each p in order, at most 1."""
    least, adjusted = 0.0, {}
    for rank, number in enumerate(sorted(range(len(pairs)), key=lambda number: pairs[number].p)):
        least = max(least, min((len(pairs) - rank) * pairs[number].p, 1.0))
        adjusted[number] = least
    return [replace(pair, p=adjusted[number]) for number, pair in enumerate(pairs)]


def _or_none(number: Tensor) -> float | None:
    return float(number) or None
