"""Tables of records: one row a setting, each number with its interval.

accuracy       the share of samples that are right, by items
pass@k         1 - C(n - c, k) / C(n, k) of an item of whose n samples c are right, unbiased, and its mean over items
               (Chen et al., arXiv 2107.03374)
perplexity     e^nats a token by the judge, of judged texts, beside the entropy of their tokens
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
from unmask.experiments.evaluation.records import setting, told
from unmask.tasks.sample import TOO_LONG, Sample


@dataclass(frozen=True)
class Group:
    """The samples of one setting."""

    samples: Sequence[Sample]

    @cached_property
    def settings(self) -> dict[str, Any]:
        return told(self.samples[0].about)

    @property
    def items(self) -> dict[str, list[Sample]]:
        found: dict[str, list[Sample]] = {}
        for sample in self.samples:
            found.setdefault(sample.item, []).append(sample)
        return found

    @property
    def causal(self) -> bool:
        return str(self.settings["sampler"]).partition("(")[0] == "autoregressive"

    @property
    def said(self) -> list[Sample]:
        """Those that were written."""
        return [sample for sample in self.samples if sample.reason != TOO_LONG]

    @property
    def accuracy(self) -> Estimate | None:
        """None where nothing is right or wrong, or nobody has looked."""
        if any(sample.right is None for sample in self.samples):
            return None
        return self._share([(sample, bool(sample.right)) for sample in self.samples])

    def _share(self, events: Sequence[tuple[Sample, bool]]) -> Estimate:
        order = {name: number for number, name in enumerate(self.items)}
        groups = torch.tensor([order[sample.item] for sample, _ in events])
        return share(torch.tensor([happened for _, happened in events]), groups)

    def passed(self, k: int) -> Estimate | None:
        """pass@k; None of items with fewer samples."""
        if self.accuracy is None or min(map(len, self.items.values())) < k:
            return None
        shares = [pass_at(len(own), sum(bool(one.right) for one in own), k) for own in self.items.values()]
        return bounded_mean(torch.tensor(shares, dtype=torch.float64))

    def value(self, name: str) -> Estimate | None:
        """The mean of what the task, or the judge, says of each; a share where it is 0 or 1."""
        found = [(sample, sample.values[name]) for sample in self.samples if name in sample.values]
        if not found:
            return None
        if all(value in (0, 1) for _, value in found):
            return self._share([(sample, value == 1) for sample, value in found])
        return mean(torch.tensor([value for _, value in found], dtype=torch.float64))

    @property
    def valued(self) -> list[str]:
        """What else there is to say of its samples."""
        return list(dict.fromkeys(name for sample in self.samples for name in sample.values))

    @property
    def perplexity(self) -> Estimate | None:
        nats = self.value("nats")
        return None if nats is None else nats.map(math.exp)

    @property
    def reasons(self) -> dict[str, int]:
        """Why samples are wrong, the commonest first."""
        return dict(Counter(sample.why for sample in self.samples if sample.why).most_common())

    def cost(self) -> dict[str, float | None]:
        """Of a sample, on average, of those that were written; None of what nobody knows."""
        said = self.said
        if not said:
            return dict.fromkeys(
                ("evaluations", "answer_tokens", "tokens_per_evaluation", "flops", "seconds", "memory")
            )
        tokens, needed = sum(len(sample.tokens) for sample in said), sum(sample.needed for sample in said)
        peaks = [sample.memory for sample in said if sample.memory is not None]
        return {
            "evaluations": needed / len(said),
            "answer_tokens": tokens / len(said),
            "tokens_per_evaluation": tokens / max(needed, 1),
            "flops": sum(sample.flops for sample in said) / len(said) or None,
            "seconds": sum(sample.seconds for sample in said) / len(said),
            "memory": max(peaks) if peaks else None,
        }


def pass_at(n: int, c: int, k: int) -> float:
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def groups(samples: Sequence[Sample]) -> list[Group]:
    """By setting, in the order in which they came."""
    found: dict[str, list[Sample]] = {}
    for sample in samples:
        found.setdefault(setting(sample), []).append(sample)
    return [Group(sorted(own, key=lambda sample: sample.row)) for own in found.values()]


def labels(found: Sequence[Group]) -> list[str]:
    """What tells each from the others, in words; the model and the sampler in any case."""
    if not found:
        return []
    names = [name for name in found[0].settings if len({str(group.settings.get(name)) for group in found}) > 1]
    kept = ["model", "sampler", *(name for name in names if name not in ("model", "sampler"))]
    return [
        ", ".join(_label(name, group.settings.get(name)) for name in kept if _tells(group, name)) for group in found
    ]


def _tells(group: Group, name: str) -> bool:
    """Whether a setting is one of this group: an AR model knows no rounds."""
    return group.settings.get(name) is not None and not (group.causal and name in ("steps", "schedule"))


def _label(name: str, value: Any) -> str:
    return str(value) if name in ("model", "sampler") else f"{name}={value}"
