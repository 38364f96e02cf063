"""Groups of samples as tables and as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unmask.core.arguments import size
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate
from unmask.tasks.evaluation.compare import Comparison, compare
from unmask.tasks.evaluation.records import Group, labels

PASSED = (1, 2, 4, 8, 16, 32, 64)  # k of pass@k
Grid = tuple[str, list[str], list[list[str]]]


def summary(settings: Sequence[Group]) -> list[dict[str, Any]]:
    """One dict for each setting."""
    return [_summary(label, group, settings) for label, group in zip(labels(settings), settings, strict=True)]


def _summary(label: str, group: Group, settings: Sequence[Group]) -> dict[str, Any]:
    entry: dict[str, Any] = {"label": label, "items": len(group.items), "samples": len(group.samples)}
    estimates = {"accuracy": group.accuracy, "perplexity": group.perplexity}
    estimates |= {name: group.value(name) for name in group.valued}
    estimates |= {f"pass@{k}": group.passed(k) for k in _passed(group)}
    entry |= {name: estimate.to_dict() for name, estimate in estimates.items() if estimate is not None}
    against = beside(group, settings)
    if group.too_long:
        entry["not_measured"] = group.too_long
    entry |= {"cost": group.cost(), "wrong_because": group.reasons, "settings": group.settings}
    if against is not None:
        entry["against_ar"] = against.to_dict() | ratios(group, settings)
    return entry


def table(settings: Sequence[Group]) -> list[Grid]:
    """Quality and cost of each setting, compared with AR."""
    first = settings[0]
    quality: list[list[str]] = []
    cost: list[list[str]] = []
    for label, group in zip(labels(settings), settings, strict=True):
        spent = group.cost()
        if group.perplexity is not None:
            values = [_text(group.perplexity), _text(group.value("entropy"))]
        else:
            values = [
                _share(group.accuracy) if group.written else "not measured",
                *(_share(group.passed(k)) for k in _passed(first)),
            ]
            values += [_value(name, group.value(name)) for name in first.valued]
        against = beside(group, settings)
        values.append("" if against is None else f"{against.verdict}, {against.difference.points}")
        quality.append([label, str(len(group.items)), *values])
        ratio = ratios(group, settings).get("seconds")
        shown = [_number(spent[name]) for name in ("answer_tokens", "model_calls", "tokens_per_model_call")]
        shown += [_number(spent["flops"] and spent["flops"] / 1e9), _number(spent["seconds"])]
        memory = spent["memory"]
        shown += ["" if ratio is None else f"{ratio:.2f}", "" if memory is None else size(int(memory))]
        cost.append([label, *shown])
    measured = ["perplexity", "entropy, nats"] if first.perplexity is not None else ["accuracy"]
    if first.perplexity is None:
        measured += [*(f"pass@{k}" for k in _passed(first)), *(name.replace("_", " ") for name in first.valued)]
    task = first.settings["task"]
    heads = (
        ["", "items", *measured, "against AR"],
        [
            "",
            *("answer tokens", "model calls", "tokens per model call", "GFLOP", "seconds", "times AR", "memory"),
        ],
    )
    grids = [without_empty(*part) for part in zip(heads, (quality, cost), strict=True)]
    return [(f"{task}, {title}", *grid) for title, grid in zip(("quality", "cost of a sample"), grids, strict=True)]


def without_empty(head: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    columns = [i for i in range(len(head)) if i == 0 or any(row[i] for row in rows)]
    return [head[i] for i in columns], [[row[i] for i in columns] for row in rows]


def beside(group: Group, settings: Sequence[Group]) -> Comparison | None:
    """Compare a masked model with the AR model of the same evaluation."""
    reader = baseline(settings)
    if reader is None or group.causal or group.accuracy is None or reader.accuracy is None:
        return None
    try:
        return compare(group.counted, reader.counted)
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


def _passed(group: Group) -> list[int]:
    least = min(map(len, group.items.values()))
    return [k for k in PASSED if 1 < k <= least] if least > 1 else []


def _share(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    return f"{estimate.value:.1%} [{estimate.low:.1%}, {estimate.high:.1%}]"


def _value(name: str, estimate: Estimate | None) -> str:
    """A fraction as a percentage; a speed or a time as it is."""
    return _text(estimate) if "second" in name else _share(estimate)


def _text(estimate: Estimate | None) -> str:
    return "" if estimate is None else str(estimate)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
