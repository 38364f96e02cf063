"""MDM or AR? The model, sampler and number of steps that reach a target, and their cost, from records.

    meets     the whole interval of the accuracy is at the target or above
    may       the interval includes the target: more items would decide
    misses    the whole interval is below the target

The advice is the fastest setting that meets the target, or else the fastest that may meet it. It also has the most
accurate masked setting that needs at most the time of AR, and at most its arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate
from unmask.core.search import MEETS, cheapest, standing
from unmask.tasks.evaluation.summary import Group, labels


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
    budget: float | None  # seconds per sample
    options: Sequence[Option]  # all, fastest first
    best: Option | None
    masked: Option | None  # the best masked model
    reader: Option | None  # the best AR model
    at_time: Option | None  # the most accurate masked model that takes at most the time of AR
    at_flops: Option | None  # the same for arithmetic
    text: str

    def to_dict(self) -> dict[str, Any]:
        chosen = {name: getattr(self, name) for name in ("best", "masked", "reader", "at_time", "at_flops")}
        named = {name: None if option is None else option.to_dict() for name, option in chosen.items()}
        options = [option.to_dict() for option in self.options]
        return {"task": self.task, "target": self.target, "verdict": self.text} | named | {"options": options}


def advise(settings: Sequence[Group], target: float, budget: float | None = None) -> Advice:
    """Choose a setting of one task. target: fraction of right answers; budget: maximum seconds per sample."""
    arguments.number("target", target, 0.0, 1.0)
    if budget is not None:
        arguments.number("budget", budget, above=True)
    tasks = sorted({str(group.settings["task"]) for group in settings})
    if len(tasks) != 1:
        what = f"these are records of {', '.join(tasks)}; choose one with --task" if tasks else "there are no records"
        raise UnmaskError(f"advice is about one task: {what}")
    options = sorted(_options(settings, target), key=lambda option: option.seconds)
    within = [option for option in options if budget is None or option.seconds <= budget]
    best = _best(within)
    masked = _best([option for option in within if not option.group.causal])
    reader = _best([option for option in within if option.group.causal])
    against = reader or next((option for option in options if option.group.causal), None)
    parallel = [option for option in options if not option.group.causal]
    at_time = at_flops = None
    if against is not None:
        at_time = _most_accurate([option for option in parallel if option.seconds <= against.seconds])
        at_flops = _most_accurate([o for o in parallel if o.flops and against.flops and o.flops <= against.flops])
    text = _text(target, budget, best, masked, reader, options)
    if unmeasured := _unmeasured(settings):
        text += f"; not measured: {unmeasured}"
    return Advice(tasks[0], target, budget, options, best, masked, reader, at_time, at_flops, text)


def _options(settings: Sequence[Group], target: float) -> list[Option]:
    options = []
    for label, group in zip(labels(settings), settings, strict=True):
        accuracy, cost = group.accuracy, group.cost()
        if accuracy is not None and cost["seconds"] is not None:
            reached = standing(accuracy.low, accuracy.high, target, rises=True)
            options.append(Option(label, group, accuracy, cost["seconds"], cost["flops"], reached))
    if not options:
        if unmeasured := _unmeasured(settings):
            raise UnmaskError(f"no setting was measured: {unmeasured}. Give shorter prompts or a longer context")
        raise UnmaskError("none of these records has a verdict on its answers; `unmask eval` adds verdicts")
    return options


def _unmeasured(settings: Sequence[Group]) -> str:
    """Settings without any answer, and the reasons."""
    return "; ".join(
        f"{label}: {g.too_long}" for label, g in zip(labels(settings), settings, strict=True) if not g.written
    )


def _best(options: Sequence[Option]) -> Option | None:
    """The fastest option that meets the target, or may meet it."""
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
    within = "" if budget is None else f" within {budget:.3g} s per sample"
    if best is None:
        top = max(options, key=lambda option: option.accuracy.value)
        return f"no measured setting is right in {target:.0%}{within}; the most accurate is {top}"
    sure = "reaches" if best.standing == MEETS else "may reach, more items would decide,"
    verdict = f"{best.label} {sure} {target:.0%}{within}: {str(best).partition(': ')[2]}"
    if masked is None or reader is None:
        lacking = "no AR model" if reader is None else "no masked model"
        measured = any(option.group.causal == (reader is None) for option in options)
        return f"{verdict}; {lacking} in these records does" if measured else f"{verdict}; {lacking} in these records"
    if best is reader:
        times = masked.seconds / reader.seconds
        return f"{verdict}; AR is the better choice: the masked model takes {times:.3g} times as long ({masked})"
    times = reader.seconds / masked.seconds
    return f"{verdict}; the masked model is the better choice: AR takes {times:.3g} times as long ({reader})"
