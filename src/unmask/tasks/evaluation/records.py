"""The records of a store, each written sample once, and the accuracy of each setting, with intervals over items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from unmask.core.errors import UnmaskError, cut
from unmask.core.estimates import Estimate, passes, share
from unmask.core.means import mean
from unmask.experiments.cell import canonical
from unmask.experiments.store import FILES, Store
from unmask.tasks import sample as samples
from unmask.tasks.sample import TOO_LONG, Sample, too_long

RECORDS = "records.jsonl"  # of a store: all samples with their verdicts
COSTS = ("model_calls", "answer_tokens", "tokens_per_model_call", "flops", "seconds", "memory")
OF_MACHINES = ("device", "threads", "code", "context")  # in `about`, but not settings


def written(directory: Path) -> dict[tuple[str, str], list[Sample]]:
    """The samples of a store, also of unfinished cells, by (task, file of its items)."""
    written: dict[tuple[str, str], dict[tuple[str, str, int], Sample]] = {}
    store = Store.open(directory)
    for key, cell in store.cells.items():
        if cell.job != "evaluation":
            continue
        own = written.setdefault((str(cell.values["task"]), str(cell.values["data"])), {})
        for file in sorted(store.place(key).glob("*.jsonl")):
            for sample in samples.read(file):
                own[setting(sample), sample.item, sample.number] = sample
    return {source: list(own.values()) for source, own in written.items() if own}


def has_records(path: Path) -> bool:
    """Whether a path is a store with records, or a file of them."""
    return (path / RECORDS).exists() or path.name == RECORDS


def read(directory: str | Path) -> list[Sample]:
    """The records of a store or of a file."""
    path = Path(directory)
    file = path / RECORDS if path.is_dir() else path
    if not file.exists():
        help = "`unmask eval --out DIR` writes them, and `unmask eval check DIR` makes them from a sweep"
        raise UnmaskError(f"there are no records in {cut(str(directory))}; {help}")
    try:
        return samples.read(file)
    except UnmaskError as error:
        if not (file.parent / FILES).is_dir():
            raise
        raise UnmaskError(f"{error}; `unmask eval check {cut(str(file.parent))}` writes it again") from error


def setting(sample: Sample) -> str:
    """The common settings of all samples of a cell, without the machine."""
    return canonical({name: value for name, value in sample.about.items() if name not in OF_MACHINES})


def check_same_items(records: Sequence[Sample], of: str, where: str) -> None:
    """Refuse records of other items."""
    if other := next((sample.about["data"] for sample in records if sample.about["data"] != of), None):
        what = f"{other} and not {of}: another file under the same name"
        raise UnmaskError(f"{cut(where)} has records of items {what}; take another directory (--out)")


def settings_of(about: dict[str, Any]) -> dict[str, Any]:
    """The settings of an evaluation as a flat mapping."""
    how, model = about["how"], about["model"]
    named = {"task": about["task"], "model": model["card"], "dtype": model["dtype"]}
    return named | how | {"revision": model.get("revision")}


@dataclass(frozen=True)
class Group:
    """The samples of one setting. The accuracy leaves out prompts that are too long."""

    samples: Sequence[Sample]

    @cached_property
    def settings(self) -> dict[str, Any]:
        return settings_of(self.samples[0].about)

    @property
    def items(self) -> dict[str, list[Sample]]:
        """The samples in the accuracy, by item; all samples if no prompt fits."""
        items: dict[str, list[Sample]] = {}
        for sample in self.written or self.samples:
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
        return share(*self._verdicts())

    @property
    def passes(self) -> dict[int, Estimate]:
        """pass@k, with several samples per item; empty without verdicts."""
        if self.accuracy is None:
            return {}
        return passes(*self._verdicts())

    @property
    def too_long(self) -> str:
        """A message with the number of prompts that were too long; empty if there are none."""
        count = sum(sample.reason == TOO_LONG for sample in self.samples)
        return too_long(count, len(self.samples), self.samples[0].about.get("context")) if count else ""

    def _verdicts(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self._grouped([(sample, bool(sample.right)) for sample in self.written])

    def _grouped(self, events: Sequence[tuple[Sample, bool]]) -> tuple[torch.Tensor, torch.Tensor]:
        """(n), (n): the events, and the number of the item of each."""
        order = {name: number for number, name in enumerate(self.items)}
        groups = torch.tensor([order[sample.item] for sample, _ in events])
        return torch.tensor([happened for _, happened in events]), groups

    def value(self, name: str) -> Estimate | None:
        """The mean of a value from the task; a fraction if all are 0 or 1."""
        values = [(sample, sample.values[name]) for sample in self.written if name in sample.values]
        if not values:
            return None
        if all(value in (0, 1) for _, value in values):
            return share(*self._grouped([(sample, value == 1) for sample, value in values]))
        return mean(torch.tensor([value for _, value in values], dtype=torch.float64))

    @property
    def valued(self) -> list[str]:
        """The names of other values of its samples."""
        return list(dict.fromkeys(name for sample in self.samples for name in sample.values))

    @property
    def reasons(self) -> dict[str, int]:
        """Reasons of incorrect samples, most frequent first."""
        return dict(Counter(sample.why for sample in self.written if sample.why).most_common())

    def cost(self) -> dict[str, float | None]:
        """The mean cost of a written sample; None if unknown."""
        samples = self.written
        if not samples:
            return dict.fromkeys(COSTS)

        # a batch has divided its own cost by its rows
        tokens = sum(len(sample.tokens) for sample in samples)
        needed = sum(sample.needed for sample in samples)
        peaks = [sample.memory for sample in samples if sample.memory is not None]
        return {
            "model_calls": needed / len(samples),
            "answer_tokens": tokens / len(samples),
            "tokens_per_model_call": tokens / max(needed, 1),
            "flops": sum(sample.flops for sample in samples) / len(samples) or None,
            "seconds": sum(sample.seconds for sample in samples) / len(samples),
            "memory": max(peaks) if peaks else None,
        }


def groups(samples: Sequence[Sample]) -> list[Group]:
    """Samples by setting, in their order."""
    by_setting: dict[str, list[Sample]] = {}
    for sample in samples:
        by_setting.setdefault(setting(sample), []).append(sample)
    return [Group(sorted(own, key=lambda sample: sample.row)) for own in by_setting.values()]


def labels(settings: Sequence[Group]) -> list[str]:
    """Labels of groups: model, sampler, and the settings that differ; an AR model has no steps."""
    shown = [name for name in varied(settings) if name not in ("model", "sampler")]
    every = []
    for group in settings:
        own = {name: group.settings.get(name) for name in shown}
        if group.causal:
            own |= {"steps": None, "schedule": None}
        named = [f"{name}={value}" for name, value in own.items() if value is not None]
        every.append(", ".join([str(group.settings["model"]), str(group.settings["sampler"]), *named]))
    return every


def varied(settings: Sequence[Group]) -> list[str]:
    """The names of the settings that differ between groups."""
    names = settings[0].settings if settings else ()
    return [name for name in names if len({str(group.settings.get(name)) for group in settings}) > 1]
