"""The records of a store, each written sample once, and the accuracy of each setting, with intervals over items."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

import torch

from unmask.core.entries import assignments, column, grouped, picked, without
from unmask.core.errors import UnmaskError, cut
from unmask.core.estimates import Estimate, all_or_nothing, passes, share
from unmask.core.means import mean
from unmask.experiments.cell import canonical
from unmask.experiments.store import FILES, Store
from unmask.tasks import sample as samples
from unmask.tasks.sample import Sample, too_long

RECORDS = "records.jsonl"  # of a store: all samples with their verdicts
COSTS = ("model_calls", "answer_tokens", "tokens_per_model_call", "flops", "seconds", "memory")
OF_MACHINES = ("device", "threads", "code", "context")  # in `about`, but not settings


def written(directory: Path) -> dict[tuple[str, str], list[Sample]]:
    """The samples of a store, also of unfinished cells, by (task, file of its items)."""
    written = defaultdict[tuple[str, str], dict[tuple[str, str, int], Sample]](dict)
    store = Store.open(directory)
    for key, cell in store.cells.items():
        if cell.job != "evaluation":
            continue
        source = str(cell.values["task"]), str(cell.values["data"])
        for file in sorted(store.place(key).glob("*.jsonl")):
            for sample in samples.read(file):
                written[source][setting(sample), sample.item, sample.number] = sample

    return {source: list(own.values()) for source, own in written.items()}


def has_records(path: Path) -> bool:
    """Whether a path is a store with records, or a file of them."""
    return (path / RECORDS).exists() or path.name == RECORDS


def read(directory: str | Path) -> list[Sample]:
    """The records of a store or of a file."""
    file = Path(directory)
    if file.is_dir():
        file /= RECORDS
    if not file.exists():
        raise UnmaskError(
            f"there are no records in {cut(str(directory))}",
            "`unmask eval --out DIR` writes them, and `unmask eval check DIR` makes them from a sweep",
        )

    try:
        return samples.read(file)
    except UnmaskError as error:
        if not (file.parent / FILES).is_dir():
            raise
        raise UnmaskError(f"{error}; `unmask eval check {cut(str(file.parent))}` writes it again") from error


def setting(sample: Sample) -> str:
    """The common settings of all samples of a cell, without the machine."""
    return canonical(without(sample.about, OF_MACHINES))


def check_same_items(records: Sequence[Sample], of: str, where: str) -> None:
    """Refuse records of other items."""
    for sample in records:
        if (other := sample.about["data"]) != of:
            raise UnmaskError(
                f"{cut(where)} has records of items {other} and not {of}: another file under the same name",
                "take another directory (--out)",
            )


def settings_of(about: dict[str, Any]) -> dict[str, Any]:
    """The settings of an evaluation as a flat mapping."""
    model = about["model"]
    return {
        "task": about["task"],
        "model": model["card"],
        "dtype": model["dtype"],
        **about["how"],
        "revision": model.get("revision"),
    }


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
        return grouped(self.written or self.samples, attrgetter("item"))

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
        if not self.written or None in column(self.written, "right"):
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
        count = len(self.samples) - len(self.written)
        return too_long(count, len(self.samples), self.samples[0].about.get("context")) if count else ""

    def _verdicts(self) -> tuple[torch.Tensor, torch.Tensor]:
        """(n), (n): whether each answer is right, and the number of its item."""
        return torch.tensor(column(self.written, "right")), numbers_of(column(self.written, "item"))

    def values(self, names: Sequence[str]) -> dict[str, Estimate | None]:
        """The means of values from the task."""
        return dict(zip(names, map(self.value, names), strict=True))

    def value(self, name: str) -> Estimate | None:
        """The mean of a value from the task; a fraction if all are 0 or 1."""
        known = [sample for sample in self.written if name in sample.values]
        if not known:
            return None
        values = torch.tensor(list(map(itemgetter(name), column(known, "values"))), dtype=torch.float64)
        if all_or_nothing(values):
            return share(values == 1, numbers_of(column(known, "item")))
        return mean(values)

    @property
    def valued(self) -> list[str]:
        """The names of other values of its samples."""
        return list(dict.fromkeys(chain.from_iterable(column(self.samples, "values"))))

    @property
    def reasons(self) -> dict[str, int]:
        """Reasons of incorrect samples, most frequent first."""
        return dict(Counter(filter(None, column(self.written, "why"))).most_common())

    def cost(self) -> dict[str, float | None]:
        """The mean cost of a written sample; None if unknown."""
        samples = self.written
        if not samples:
            return dict.fromkeys(COSTS)

        # a batch has divided its own cost by its rows
        tokens = sum(map(len, column(samples, "tokens")))
        needed = sum(column(samples, "needed"))
        peaks = set(column(samples, "memory")) - {None}
        return {
            "model_calls": needed / len(samples),
            "answer_tokens": tokens / len(samples),
            "tokens_per_model_call": tokens / max(needed, 1),
            "flops": sum(column(samples, "flops")) / len(samples) or None,
            "seconds": sum(column(samples, "seconds")) / len(samples),
            "memory": max(peaks, default=None),
        }


def groups(samples: Sequence[Sample]) -> list[Group]:
    """Samples by setting, in their order."""
    by_setting = grouped(samples, setting)
    for own in by_setting.values():
        own.sort(key=attrgetter("row"))
    return list(map(Group, by_setting.values()))


def labels(settings: Sequence[Group]) -> list[str]:
    """Labels of groups: model, sampler, and the settings that differ; an AR model has no steps."""
    names = varied(settings)
    every = []
    for group in settings:
        own = without(picked(group.settings, names), ("model", "sampler"))
        if group.causal:
            own = without(own, ("steps", "schedule"))
        every.append(", ".join([group.settings["model"], group.settings["sampler"], *assignments(own)]))
    return every


def varied(settings: Sequence[Group]) -> list[str]:
    """The names of the settings that differ between groups, as the first one has them."""
    every = column(settings, "settings")

    def differs(name: str) -> bool:
        return len({str(one.get(name)) for one in every}) > 1

    return list(filter(differs, next(iter(every), ())))


def numbers_of(names: Iterable[str | int]) -> torch.Tensor:
    """The number of each name; a new name has the next number."""
    known: dict[str | int, int] = {}
    return torch.tensor([known.setdefault(name, len(known)) for name in names])
