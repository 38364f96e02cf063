"""Two settings on the same items: which is better, or how many items would decide. And MDM or AR?

The difference is the mean over items of the differences of the two accuracies, with Gaffke's interval. The verdict is
the side of 0 of the interval. With one sample per item this is McNemar's exact test. If b items are right only with the
first setting and c only with the second, the lower end is above 0 if P(Bin(b + c, 1/2) >= b) is below half the level.
The exact two-sided p of that test is reported, too.

    better, worse            at a level of 0.05
    not distinguishable      with the number of items for a power of 0.8 at the measured difference:
                             n = ((z_.975 sqrt(s) + z_.8 sqrt(s - d^2)) / d)^2, d: difference, s: fraction that differs

Advice for a target accuracy is the fastest setting whose whole interval meets it, or else the fastest that may meet it
(core/search.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import torch

from unmask.core import arguments, entries
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, all_or_nothing, bounded_mean
from unmask.core.targets import MEETS, cheapest, sample_size, standing
from unmask.tasks.evaluation.records import Group, labels
from unmask.tasks.sample import Sample

LEVEL = 0.05
CHOSEN = ("best", "masked", "reader", "at_time", "at_flops")  # the options of an advice


class Comparison(NamedTuple):
    items: int
    first: float  # accuracies on these items
    second: float
    difference: Estimate  # first minus second
    first_alone: int  # items right only with the first; with several samples, right more often
    second_alone: int
    p: float | None  # None if an item has several samples
    verdict: str
    enough: int | None  # larger number of items that would decide; None if unknown

    def to_dict(self) -> dict[str, Any]:
        return self._asdict() | {"difference": self.difference.to_dict()}

    @property
    def counts(self) -> str:
        how = "an interval over items" if self.p is None else f"p = {self.p:.2g}, McNemar's exact test"
        only = f"{self.first_alone} items correct with the first only, {self.second_alone} with the second only"
        return f"accuracy {self.first:.1%} and {self.second:.1%}; {only}; {how}"

    def sentence(self, first: str, second: str) -> str:
        by = self.difference.points
        if self.verdict != "not distinguishable":
            return f"{first} is {self.verdict} than {second}: {by} on {self.items} items"
        more = "" if self.enough is None else f"; about {self.enough} items would decide"
        return f"{first} and {second} are not distinguishable in {self.items} items: {by}{more}"


def compare(first: Sequence[Sample], second: Sequence[Sample]) -> Comparison:
    """Compare the common items; other items do not count."""
    common = in_common(_fractions(first), _fractions(second))
    if not common:
        raise UnmaskError("they have no items in common; compare results of the same task")
    return compare_shares(common)


def in_common(one: Mapping[Any, float], other: Mapping[Any, float]) -> list[tuple[float, float]]:
    """The pairs of the items that both have."""
    return [(accuracy, other[item]) for item, accuracy in one.items() if item in other]


def compare_shares(pairs: Sequence[tuple[float, float]], level: float = LEVEL) -> Comparison:
    """Compare pairs of accuracies, one pair per item: all 0 or 1 if each side has one sample of it.

    level: of the verdict; a page that compares many settings divides it by their number.
    """
    n = len(pairs)
    accuracies = torch.tensor(pairs, dtype=torch.float64)  # (items, 2)
    differences = accuracies[:, 0] - accuracies[:, 1]
    ahead, behind = int((differences > 0).sum()), int((differences < 0).sum())

    # McNemar's test counts items, each right or wrong once
    p = mcnemar(ahead, behind) if all_or_nothing(accuracies) else None

    difference = bounded_mean(differences, (-1.0, 1.0), 1 - level)
    enough = None
    if difference.low > 0:
        verdict = "better"
    elif difference.high < 0:
        verdict = "worse"
    else:
        verdict = "not distinguishable"
        needed = sample_size(float((differences**2).mean()), float(differences.mean()), level)
        if needed is not None and needed > n:  # exact intervals are wider than in the formula
            enough = needed

    first, second = (accuracies.sum(0) / n).tolist()
    return Comparison(n, first, second, difference, ahead, behind, p, verdict, enough)


def mcnemar(b: int, c: int) -> float:
    """The exact two-sided p."""
    from scipy.special import bdtr

    return min(2 * float(bdtr(min(b, c), b + c, 0.5)), 1.0)


def _fractions(samples: Sequence[Sample]) -> dict[str, float]:
    """The fraction of right samples of each item."""
    for sample in samples:
        if sample.right is None and sample.answered:
            why = f": {sample.why}" if sample.why else ""
            raise UnmaskError(f"item {sample.item} has no verdict{why}; nothing can be compared")

    by_item = entries.grouped(samples, attrgetter("item"))
    return {item: sum(map(bool, entries.column(own, "right"))) / len(own) for item, own in by_item.items()}


@dataclass(frozen=True)
class Option:
    label: str
    group: Group
    accuracy: Estimate
    seconds: float  # per sample
    flops: float | None
    standing: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "standing": self.standing,
            "accuracy": self.accuracy.to_dict(),
            "seconds": self.seconds,
            "flops": self.flops,
            "settings": self.group.settings,
        }

    def __str__(self) -> str:
        low, high = self.accuracy.low, self.accuracy.high
        return f"{self.label}: {self.accuracy.value:.1%} [{low:.1%}, {high:.1%}] at {self.seconds:.3g} s per sample"


@dataclass(frozen=True)
class Advice:
    task: str
    target: float
    options: Sequence[Option]  # all, fastest first
    best: Option | None
    masked: Option | None  # the best masked model
    reader: Option | None  # the best AR model
    at_time: Option | None  # the most accurate masked model that takes at most the time of AR
    at_flops: Option | None  # the same for arithmetic
    text: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "target": self.target,
            "verdict": self.text,
            **entries.mapped(partial(entries.perhaps, Option.to_dict), entries.picked(vars(self), CHOSEN)),
            "options": list(map(Option.to_dict, self.options)),
        }


def advise(settings: Sequence[Group], target: float, budget: float | None = None) -> Advice:
    """Choose a setting of one task. target: fraction of right answers; budget: maximum seconds per sample."""
    arguments.number("target", target, 0.0, 1.0)
    if budget is not None:
        arguments.number("budget", budget, above=True)

    if not settings:
        raise UnmaskError("advice is about one task: there are no records")
    tasks = sorted({str(group.settings["task"]) for group in settings})
    if len(tasks) > 1:
        raise UnmaskError(f"advice is about one task: these are records of {', '.join(tasks)}; choose one with --task")

    unmeasured, options = [], []
    for label, group in zip(labels(settings), settings, strict=True):
        accuracy, cost = group.accuracy, group.cost()
        if not group.written:
            unmeasured.append(f"{label}: {group.too_long}")
        elif accuracy is not None and cost["seconds"] is not None:
            reached = standing(accuracy.low, accuracy.high, target, rises=True)
            options.append(Option(label, group, accuracy, cost["seconds"], cost["flops"], reached))

    left_out = "; ".join(unmeasured)
    if not options and unmeasured:
        raise UnmaskError(f"no setting was measured: {left_out}. Give shorter prompts or a longer context")
    if not options:
        raise UnmaskError("none of these records has a verdict on its answers; `unmask eval` adds verdicts")

    options.sort(key=attrgetter("seconds"))
    within = options
    wanted = f"{target:.0%}"
    if budget is not None:
        within = [option for option in options if option.seconds <= budget]
        wanted += f" within {budget:.3g} s per sample"

    by_kind = entries.grouped(within, attrgetter("group.causal"))
    best, masked, reader = _best(within), _best(by_kind.get(False, ())), _best(by_kind.get(True, ()))

    # beside AR: the best of what costs no more, in time and in arithmetic
    every = entries.grouped(options, attrgetter("group.causal"))
    against = reader or next(iter(every.get(True, ())), None)
    at_time = at_flops = None
    if against is not None:
        parallel = every.get(False, ())
        at_time = _most_accurate([option for option in parallel if option.seconds <= against.seconds])
        at_flops = _most_accurate([o for o in parallel if o.flops and against.flops and o.flops <= against.flops])

    text = _text(wanted, best, masked, reader, options)
    if unmeasured:
        text += f"; not measured: {left_out}"
    return Advice(tasks[0], target, options, best, masked, reader, at_time, at_flops, text)


def _best(options: Sequence[Option]) -> Option | None:
    """The fastest option that meets the target, or may meet it."""
    return cheapest(options, lambda option: option.standing, lambda option: option.seconds)


def _most_accurate(options: Sequence[Option]) -> Option | None:
    return max(options, key=lambda option: option.accuracy.value, default=None)


def _text(
    wanted: str, best: Option | None, masked: Option | None, reader: Option | None, options: Sequence[Option]
) -> str:
    """The verdict. wanted: the target and the budget."""
    if best is None:
        return f"no measured setting is right in {wanted}; the most accurate is {_most_accurate(options)}"

    sure = "reaches" if best.standing == MEETS else "may reach, more items would decide,"
    verdict = f"{best.label} {sure} {wanted}: {str(best).partition(': ')[2]}"

    if masked is None or reader is None:
        lacking = f"{verdict}; no {'AR' if reader is None else 'masked'} model in these records"
        others = (reader is None) in entries.column(options, "group.causal")
        return f"{lacking} does" if others else lacking

    if best is reader:
        times = masked.seconds / reader.seconds
        return f"{verdict}; AR is the better choice: the masked model takes {times:.3g} times as long ({masked})"
    times = reader.seconds / masked.seconds
    return f"{verdict}; the masked model is the better choice: AR takes {times:.3g} times as long ({reader})"
