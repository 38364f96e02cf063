"""PBx and AUP: how many tokens per step a sampler decodes before its score falls.

PBx is of ParallelBench (Kang et al., arXiv 2510.04767). For each setting s of a sampler, S(s) is the mean over tasks of
the score in percent. R(s) is that of the tokens per step as published (points.py). Then

    PBx = max { R(s) : S(s) >= x }

and, for a sampler whose number of tokens per step varies, also each crossing of x on the straight line between
neighbors in R, never beyond the ends. Of settings with equal R, the line takes the best. A sampler may not reach x.

AUP of d3LLM (Qian et al., arXiv 2601.07568), here `aup-d3llm`: points (r_i, y_i) are sorted by r, tokens per model
call; y is an accuracy in percent, and y_1 belongs to the smallest r. Points with y < y_1 - 5 are dropped. With the best
accuracy y_max of all methods on the task,

    W(y) = min(1, exp(-3 (1 - y / y_max)))
    AUP  = r_1 y_1 + sum_{i >= 2} (r_i - r_{i-1}) (y_i W(y_i) + y_{i-1} W(y_{i-1})) / 2

The board's accuracy under parallelism (board/measures.py) is another number. AUP has no upper end, changes with the
methods on the list, and can fall when a point is added.

Intervals are quantiles over resampled items. Items are resampled within each task, and a resample is the same for all
settings and samplers, so differences are paired. Tests of all pairs of samplers have a common level (Holm). In
simulations the intervals of 95% cover the true value in 94% to 96% of trials, and in 90% where the true score of a
setting of a top-k sampler, or of the last setting, is exactly x.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import torch
from torch import Tensor

from unmask.core.chance import Stream, uniform
from unmask.core.estimates import LEVEL, Estimate
from unmask.tasks.parallel.points import Setting, tokens_per_step

THRESHOLDS = (80.0, 75.0, 70.0)
DRAWS = 4000  # resamples: Holm's test of the 55 pairs of 11 samplers needs at least 2 * 55 / 0.05
AT_ONCE = 2**23  # items of all resamples that are in memory together
METHOD = "paired bootstrap over items"
TOLERANCE = 5.0  # of AUP: percentage points below y_1
STEEPNESS = 3.0

Pair = tuple[float, float]  # (r, y)


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


def leads(swept: Sequence[Swept], threshold: float) -> list[Lead]:
    """The differences of all pairs of the samplers of one model; the draws must be the same."""
    every = {one.name: one.reached(threshold) for one in swept}
    differences = []
    for first, second in combinations(sorted(every, key=lambda name: -float(every[name][0])), 2):
        difference = every[first] - every[second]
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


def _holm(pairs: Sequence[Lead]) -> list[Lead]:
    """Adjusted p: the largest of (m - i) p_(i) up to each p in order, at most 1."""
    least, adjusted = 0.0, {}
    for rank, number in enumerate(sorted(range(len(pairs)), key=lambda number: pairs[number].p)):
        least = max(least, min((len(pairs) - rank) * pairs[number].p, 1.0))
        adjusted[number] = least
    return [replace(pair, p=adjusted[number]) for number, pair in enumerate(pairs)]


@dataclass(frozen=True)
class Aup:
    value: float
    best: float  # y_max
    dropped: tuple[Pair, ...]
    interval: Estimate | None = None


def aup(points: Sequence[Pair], best: float) -> Aup:
    """AUP of the points of a method; best: y_max of all methods on the task, in percent."""
    ordered = sorted(points)
    least = ordered[0][1] - TOLERANCE
    return Aup(_area(ordered, best), best, tuple(pair for pair in ordered if pair[1] < least))


def aup_of_items(speeds: Tensor, scores: Tensor, best: float) -> Aup:
    """AUP with an interval from resampled items; speeds, scores: those of a `Swept`."""
    rows = [sorted(zip(*row, strict=True)) for row in zip(speeds.tolist(), scores.tolist(), strict=True)]
    result = aup(rows[0], best)
    drawn = torch.tensor([_area(row, best) for row in rows[1:]], dtype=torch.float64)
    low, high = (float(drawn.quantile(tail)) for tail in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    ends = min(low, result.value), max(high, result.value)
    return replace(result, interval=Estimate(result.value, *ends, len(drawn), LEVEL, METHOD))


def _area(ordered: Sequence[Pair], best: float) -> float:
    """The area of the points that are not dropped."""
    least = ordered[0][1] - TOLERANCE
    pairs = [(r, y, y * min(1.0, math.exp(-STEEPNESS * (1 - y / best)))) for r, y in ordered if y >= least]
    steps = sum((r - before) * (own + other) / 2 for (before, _, other), (r, _, own) in pairwise(pairs))
    return pairs[0][0] * pairs[0][1] + steps
