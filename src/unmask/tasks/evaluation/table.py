"""Groups of samples as tables and as plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import torch

from unmask.core.entries import column, given, grouped, mapped, picked, present, renamed
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, all_or_nothing, passes, share
from unmask.core.means import mean
from unmask.core.memory import size
from unmask.tasks.evaluation.compare import Comparison, compare
from unmask.tasks.evaluation.records import Group, labels, numbers_of
from unmask.tasks.logs import Outcome

Grid = tuple[str, list[str], list[list[str]]]


def summary(settings: Sequence[Group]) -> list[dict[str, Any]]:
    """One dict for each setting."""
    return [_summary(label, group, settings) for label, group in zip(labels(settings), settings, strict=True)]


def _summary(label: str, group: Group, settings: Sequence[Group]) -> dict[str, Any]:
    entry: dict[str, Any] = {"label": label, "items": len(group.items), "samples": len(group.samples)}
    entry |= _plain({"accuracy": group.accuracy} | group.values(group.valued) | _by_k(group.passes))
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
        row |= _cells(_share, {"accuracy": group.accuracy} | _by_k(group.passes) | group.values(first.valued))
        if not group.written:
            row["accuracy"] = "not measured"

        row["against AR"] = "" if against is None else f"{against.verdict}, {against.difference.points}"

        row |= _cells(_number, picked(spent, ("answer_tokens", "model_calls", "tokens_per_model_call", "seconds")))
        row["GFLOP"] = _number(spent["flops"] and spent["flops"] / 1e9)
        row["times AR"] = _number(ratios(group, settings).get("seconds"))
        row["memory"] = "" if spent["memory"] is None else size(int(spent["memory"]))
        rows.append(row)

    return _grid(str(first.settings["task"]), rows)


def of_outcomes(outcomes: Sequence[Outcome]) -> tuple[Grid, list[dict[str, Any]]]:
    """The accuracy and the mean cost per item of each model, task and metric, as a table and as plain values.

    Several samples of an item have pass@k, too, if each is right or not; intervals are over items.
    """
    rows, summary = list[dict[str, str]](), []
    for (model, task), own in grouped(outcomes, attrgetter("model", "task")).items():
        # seeds give several samples of an item, so intervals are over items
        items = numbers_of(column(own, "item"))
        scores = torch.tensor(column(own, "right"), dtype=torch.float64)
        estimates: dict[str, Estimate | None] = {"accuracy": mean(scores, groups=items)}
        if all_or_nothing(scores):
            estimates = {"accuracy": share(scores == 1, items), **_by_k(passes(scores == 1, items))}

        calls, written = _mean(column(own, "calls")), _mean(column(own, "written"))
        per_call = written / calls if calls and written else None
        cost = {"model_calls": calls, "tokens_per_model_call": per_call, "seconds": _mean(column(own, "seconds"))}

        about: dict[str, Any] = {"model": model, "task": task, "items": len(items.unique())}
        rows.append(about | {"items": str(about["items"])} | _cells(_share, estimates) | _cells(_number, cost))
        summary.append(about | _plain(estimates) | cost)

    return _grid("logs of lm-eval", rows), summary


def _mean(values: Sequence[float | None]) -> float | None:
    """None if any value is unknown."""
    known = present(values)
    return sum(known) / len(known) if len(known) == len(values) else None


def _by_k(passes: Mapping[int, Estimate]) -> dict[str, Estimate | None]:
    return renamed("pass_at_{}", passes)


def _plain(estimates: Mapping[str, Estimate | None]) -> dict[str, Any]:
    return mapped(Estimate.to_dict, given(estimates))


def _cells(text: Callable[[Any], str], values: Mapping[str, Any]) -> dict[str, str]:
    """A cell for each value, by its heading."""
    return {_heading(name): text(value) for name, value in values.items()}


def _heading(name: str) -> str:
    return name.replace("pass_at_", "pass@").replace("_", " ")


def _grid(title: str, rows: Sequence[Mapping[str, str]]) -> Grid:
    """The columns with an entry, and the first one."""
    blank = dict.fromkeys(chain.from_iterable(rows), "")
    cells = [list((blank | dict(row)).values()) for row in rows]

    heading, *columns = zip(blank, *cells, strict=True)
    filled = [column for column in columns if any(column[1:])]
    head, *others = map(list, zip(heading, *filled, strict=True))
    return title, head, others


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
    own, other = given(group.cost()), given(reader.cost())
    names = ("seconds", "flops", "model_calls")
    return {name: own[name] / other[name] for name in names if name in own and other.get(name)}


def _share(estimate: Estimate | None) -> str:
    return "" if estimate is None else f"{estimate.value:.1%} [{estimate.low:.1%}, {estimate.high:.1%}]"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
