"""Results of records for each setting, with intervals.

accuracy       the fraction of right samples, by items
pass@k         the mean over items of 1 - C(n - c, k) / C(n, k), if c of n samples of an item are right; unbiased
               (Chen et al., arXiv 2107.03374)
perplexity     e^(nats per token) by the judge, for judged texts, next to the entropy of their tokens
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from unmask.core.estimates import Estimate, bounded_mean, mean, share
from unmask.tasks.evaluation.records import setting, settings_of
from unmask.tasks.sample import TOO_LONG, Sample, too_long

COSTS = ("model_calls", "answer_tokens", "tokens_per_model_call", "flops", "seconds", "memory")


@dataclass(frozen=True)
class Group:
    """The samples of one setting. The accuracy leaves out prompts that are too long, unless they count as incorrect."""

    samples: Sequence[Sample]
    too_long_is_wrong: bool = False

    @cached_property
    def settings(self) -> dict[str, Any]:
        return settings_of(self.samples[0].about)

    @property
    def items(self) -> dict[str, list[Sample]]:
        """The samples in the accuracy, by item; all samples if no prompt fits."""
        items: dict[str, list[Sample]] = {}
        for sample in self.counted or self.samples:
            items.setdefault(sample.item, []).append(sample)
        return items

    @property
    def causal(self) -> bool:
        return str(self.settings["sampler"]).partition("(")[0] == "autoregressive"

    @property
    def written(self) -> list[Sample]:
        """Samples with an answer: the prompt was not too long."""
        return [sample for sample in self.samples if sample.answered]

    @property
    def accuracy(self) -> Estimate | None:
        """None if no answer was written, or if any has no verdict."""
        if not self.written or any(sample.right is None for sample in self.written):
            return None
        return self._share([(sample, bool(sample.right)) for sample in self.counted])

    @property
    def counted(self) -> Sequence[Sample]:
        """The samples in the accuracy."""
        return self.samples if self.too_long_is_wrong else self.written

    @property
    def too_long(self) -> str:
        """A message with the number of prompts that were too long; empty if there are none."""
        count, many = sum(sample.reason == TOO_LONG for sample in self.samples), len(self.samples)
        return too_long(count, many, self.samples[0].about.get("context")) if count else ""

    def _share(self, events: Sequence[tuple[Sample, bool]]) -> Estimate:
        order = {name: number for number, name in enumerate(self.items)}
        groups = torch.tensor([order[sample.item] for sample, _ in events])
        return share(torch.tensor([happened for _, happened in events]), groups)

    def passed(self, k: int) -> Estimate | None:
        """pass@k; None if an item has fewer samples."""
        if self.accuracy is None or min(map(len, self.items.values())) < k:
            return None
        values = [pass_at(len(own), sum(bool(one.right) for one in own), k) for own in self.items.values()]
        return bounded_mean(torch.tensor(values, dtype=torch.float64))

    def value(self, name: str) -> Estimate | None:
        """The mean of a value from the task or judge; a fraction if all are 0 or 1."""
        values = [(sample, sample.values[name]) for sample in self.written if name in sample.values]
        if not values:
            return None
        if all(value in (0, 1) for _, value in values):
            return self._share([(sample, value == 1) for sample, value in values])
        return mean(torch.tensor([value for _, value in values], dtype=torch.float64))

    @property
    def valued(self) -> list[str]:
        """The names of other values of its samples."""
        return list(dict.fromkeys(name for sample in self.samples for name in sample.values))

    @property
    def perplexity(self) -> Estimate | None:
        nats = self.value("nats")
        return None if nats is None else nats.map(math.exp)

    @property
    def reasons(self) -> dict[str, int]:
        """Reasons of incorrect samples, most frequent first."""
        return dict(Counter(sample.why for sample in self.counted if sample.why).most_common())

    def cost(self) -> dict[str, float | None]:
        """The mean cost of a written sample; None if unknown."""
        samples = self.written
        if not samples:
            return dict.fromkeys(COSTS)
        tokens, needed = (
            sum(len(sample.tokens) for sample in samples),
            sum(sample.needed for sample in samples),
        )
        peaks = [sample.memory for sample in samples if sample.memory is not None]
        return {
            "model_calls": needed / len(samples),
            "answer_tokens": tokens / len(samples),
            "tokens_per_model_call": tokens / max(needed, 1),
            "flops": sum(sample.flops for sample in samples) / len(samples) or None,
            "seconds": sum(sample.seconds for sample in samples) / len(samples),
            "memory": max(peaks) if peaks else None,
        }


def pass_at(n: int, c: int, k: int) -> float:
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def groups(samples: Sequence[Sample], too_long_is_wrong: bool = False) -> list[Group]:
    """Samples by setting, in their order."""
    by_setting: dict[str, list[Sample]] = {}
    for sample in samples:
        by_setting.setdefault(setting(sample), []).append(sample)
    return [Group(sorted(own, key=lambda sample: sample.row), too_long_is_wrong) for own in by_setting.values()]


def labels(settings: Sequence[Group]) -> list[str]:
    """Labels of groups: model, sampler, and the settings that differ."""
    if not settings:
        return []
    shown = ["model", "sampler", *(name for name in varied(settings) if name not in ("model", "sampler"))]
    return [
        ", ".join(_label(name, group.settings[name]) for name in shown if _applies(group, name)) for group in settings
    ]


def varied(settings: Sequence[Group]) -> list[str]:
    """The names of the settings that differ between groups."""
    names = settings[0].settings if settings else ()
    return [name for name in names if len({str(group.settings.get(name)) for group in settings}) > 1]


def _applies(group: Group, name: str) -> bool:
    """Whether a setting applies to this group: an AR model has no steps."""
    return group.settings.get(name) is not None and not (group.causal and name in ("steps", "schedule"))


def _label(name: str, value: Any) -> str:
    return str(value) if name in ("model", "sampler") else f"{name}={value}"
