"""Groups of samples as tables and as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, passes, share
from unmask.core.means import mean
from unmask.core.memory import size
from unmask.tasks.evaluation.compare import Comparison, compare
from unmask.tasks.evaluation.records import Group, labels
from unmask.tasks.logs import Outcome

Grid = tuple[str, list[str], list[list[str]]]


def summary(settings: Sequence[Group]) -> list[dict[str, Any]]:
    """One dict for each setting."""
    return [_summary(label, group, settings) for label, group in zip(labels(settings), settings, strict=True)]


def _summary(label: str, group: Group, settings: Sequence[Group]) -> dict[str, Any]:
    entry: dict[str, Any] = {"label": label, "items": len(group.items), "samples": len(group.samples)}
    estimates = {"accuracy": group.accuracy} | {name: group.value(name) for name in group.valued}
    entry |= {name: estimate.to_dict() for name, estimate in estimates.items() if estimate is not None}

    entry |= {f"pass_at_{k}": estimate.to_dict() for k, estimate in group.passes.items()}
    if group.too_long:
        entry["not_measured"] = group.too_long
    entry |= {"cost": group.cost(), "wrong_because": group.reasons, "settings": group.settings}

    against = beside(group, settings)
    if against is not None:
        entry["against_ar"] = against.to_dict() | ratios(group, settings)
    return entry


def table(settings: Sequence[Group]) -> Grid:
    """Quality and cost of each setting of a task, compared with AR."""
    first = settings[0]
    rows = []
    for label, group in zip(labels(settings), settings, strict=True):
        spent, against = group.cost(), beside(group, settings)

        row = {"": label, "items": str(len(group.items))}
        row["accuracy"] = _share(group.accuracy) if group.written else "not measured"
        row |= {f"pass@{k}": _share(estimate) for k, estimate in group.passes.items()}

        row |= {name.replace("_", " "): _share(group.value(name)) for name in first.valued}
        row["against AR"] = "" if against is None else f"{against.verdict}, {against.difference.points}"

        names = ("answer_tokens", "model_calls", "tokens_per_model_call", "seconds")
        row |= {name.replace("_", " "): _number(spent[name]) for name in names}
        row["GFLOP"] = _number(spent["flops"] and spent["flops"] / 1e9)
        row["times AR"] = _number(ratios(group, settings).get("seconds"))
        row["memory"] = "" if spent["memory"] is None else size(int(spent["memory"]))
        rows.append(row)

    return str(first.settings["task"]), *without_empty(list(rows[0]), [list(row.values()) for row in rows])


def of_outcomes(outcomes: Sequence[Outcome]) -> tuple[Grid, list[dict[str, Any]]]:
    """The accuracy and the mean cost per item of each model, task and metric, as a table and as plain values.

    Several samples of an item have pass@k, too, if each is right or not; intervals are over items.
    """
    rows, summary = list[dict[str, str]](), []
    for place in dict.fromkeys((one.model, one.task) for one in outcomes):
        own = [one for one in outcomes if (one.model, one.task) == place]
        number = dict[str | int, int]()  # of each item, as it first occurs
        items = torch.tensor([number.setdefault(one.item, len(number)) for one in own])
        about = {"model": place[0], "task": place[1]}

        # seeds give several samples of an item, so intervals are over items
        scores = torch.tensor([one.right for one in own], dtype=torch.float64)
        whole = bool(((scores == 0) | (scores == 1)).all())
        accuracy = share(scores == 1, items) if whole else mean(scores, groups=items)
        at = passes(scores == 1, items) if whole else {}

        calls = _mean([one.calls for one in own])
        written = _mean([one.written for one in own])
        per_call = None if not calls or not written else written / calls
        seconds = _mean([one.seconds for one in own])
        cost = {"model_calls": calls, "tokens_per_model_call": per_call, "seconds": seconds}

        row = about | {"items": str(len(number)), "accuracy": _share(accuracy)}
        row |= {f"pass@{k}": _share(estimate) for k, estimate in at.items()}
        rows.append(row | {name.replace("_", " "): _number(value) for name, value in cost.items()})

        entry: dict[str, Any] = about | {"items": len(number), "accuracy": accuracy.to_dict()}
        entry |= {f"pass_at_{k}": estimate.to_dict() for k, estimate in at.items()}
        summary.append(entry | cost)

    head = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[row.get(name, "") for name in head] for row in rows]
    return ("logs of lm-eval", *without_empty(head, cells)), summary


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def without_empty(head: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """The columns with an entry, and the first one."""
    columns = [i for i in range(len(head)) if i == 0 or any(row[i] for row in rows)]
    first, *others = [[row[i] for i in columns] for row in [head, *rows]]
    return first, others


def beside(group: Group, settings: Sequence[Group]) -> Comparison | None:
    """Compare a masked model with the AR model of the same evaluation."""
    reader = baseline(settings)
    if reader is None or group.causal or group.accuracy is None or reader.accuracy is None:
        return None
    try:
        return compare(group.written, reader.written)
    except UnmaskError:  # no items in common
        return None


def baseline(settings: Sequence[Group]) -> Group | None:
    """The only AR model among masked ones, or None."""
    readers = [group for group in settings if group.causal]
    return readers[0] if len(readers) == 1 < len(settings) else None


def ratios(group: Group, settings: Sequence[Group]) -> dict[str, float]:
    """The cost of a sample as a multiple of AR."""
    reader = baseline(settings)
    if reader is None or group.causal:
        return {}
    own, other = group.cost(), reader.cost()
    pairs = ((name, own[name], other[name]) for name in ("seconds", "flops", "model_calls"))
    return {name: mine / theirs for name, mine, theirs in pairs if mine is not None and theirs}


def _share(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    return f"{estimate.value:.1%} [{estimate.low:.1%}, {estimate.high:.1%}]"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
