"""MDM or AR? From records: which model, sampler and number of rounds reach a target, and what that costs.

    meets     the whole interval of its accuracy is at the target or above
    may       the interval holds the target: more items would tell
    misses    the whole interval is below

Of those that meet, or if none does of those that may, the one that takes the least time is advised. Beside it stand the
masked model's best at AR's time and at AR's arithmetic, which is the comparison that reviewers of the paper asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unmask.core import arguments
from unmask.core.deciding import MEETS, cheapest, standing
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate
from unmask.experiments.evaluation.summary import Group, labels


@dataclass(frozen=True)
class Option:
    label: str
    group: Group
    accuracy: Estimate
    seconds: float  # a sample
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
        return f"{self.label}: {self.accuracy.value:.1%} [{low:.1%}, {high:.1%}] at {self.seconds:.3g} s a sample"


@dataclass(frozen=True)
class Advice:
    task: str
    target: float
    budget: float | None  # seconds a sample
    options: Sequence[Option]  # all, the fastest first
    best: Option | None
    masked: Option | None  # the best of the masked models alone
    reader: Option | None  # and of the AR models
    at_time: Option | None  # the masked model's most accurate that takes no more time than AR
    at_flops: Option | None
    text: str

    def to_dict(self) -> dict[str, Any]:
        chosen = {name: getattr(self, name) for name in ("best", "masked", "reader", "at_time", "at_flops")}
        named = {name: None if option is None else option.to_dict() for name, option in chosen.items()}
        options = [option.to_dict() for option in self.options]
        return {"task": self.task, "target": self.target, "verdict": self.text} | named | {"options": options}


def advise(found: Sequence[Group], target: float, budget: float | None = None) -> Advice:
    """Of the settings of one task. target: a share of right answers; budget: seconds that a sample may take."""
    arguments.number("target", target, 0.0, 1.0)
    if budget is not None:
        arguments.number("budget", budget, above=True)
    tasks = sorted({str(group.settings["task"]) for group in found})
    if len(tasks) != 1:
        what = f"these are records of {', '.join(tasks)}; say which by --task" if tasks else "there are no records"
        raise UnmaskError(f"advice is about one task: {what}")
    options = sorted(_options(found, target), key=lambda option: option.seconds)
    within = [option for option in options if budget is None or option.seconds <= budget]
    best = _best(within)
    masked = _best([option for option in within if not option.group.causal])
    reader = _best([option for option in within if option.group.causal])
    against = reader or next((option for option in options if option.group.causal), None)
    others = [option for option in options if not option.group.causal]
    at_time = at_flops = None
    if against is not None:
        at_time = _most_accurate([option for option in others if option.seconds <= against.seconds])
        at_flops = _most_accurate([o for o in others if o.flops and against.flops and o.flops <= against.flops])
    text = _text(target, budget, best, masked, reader, options)
    return Advice(tasks[0], target, budget, options, best, masked, reader, at_time, at_flops, text)


def _options(found: Sequence[Group], target: float) -> list[Option]:
    options = []
    for label, group in zip(labels(found), found, strict=True):
        accuracy, cost = group.accuracy, group.cost()
        if accuracy is not None and cost["seconds"] is not None:
            reached = standing(accuracy.low, accuracy.high, target, rises=True)
            options.append(Option(label, group, accuracy, cost["seconds"], cost["flops"], reached))
    if not options:
        raise UnmaskError("none of these records has a verdict on its answers; `unmask eval` gives them one")
    return options


def _best(options: Sequence[Option]) -> Option | None:
    """The fastest that meets the target, or may."""
    return cheapest(options, lambda option: option.standing, lambda option: option.seconds)


def _most_accurate(options: Sequence[Option]) -> Option | None:
    return max(options, key=lambda option: option.accuracy.value, default=None)


def _text(
    target: float,
    budget: float | None,
    best: Option | None,
    masked: Option | None,
    reader: Option | None,
    options: Sequence[Option],
) -> str:
    within = "" if budget is None else f" within {budget:.3g} s a sample"
    if best is None:
        top = max(options, key=lambda option: option.accuracy.value)
        return f"nothing that was measured is right in {target:.0%}{within}; the most accurate is {top}"
    sure = "reaches" if best.standing == MEETS else "may reach, more items would tell,"
    said = f"{best.label} {sure} {target:.0%}{within}: {str(best).partition(': ')[2]}"
    if masked is None or reader is None:
        lacking = "no AR model" if reader is None else "no masked model"
        there = any(option.group.causal == (reader is None) for option in options)
        return f"{said}; {lacking} that was measured does" if there else f"{said}; {lacking} was measured beside it"
    if best is reader:
        times = masked.seconds / reader.seconds
        return f"{said}; AR is the better choice: the masked model takes {times:.3g} times as long ({masked})"
    times = reader.seconds / masked.seconds
    return f"{said}; the masked model is the better choice: AR takes {times:.3g} times as long ({reader})"
