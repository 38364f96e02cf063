"""Groups of samples as tables for people, and as plain values for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate
from unmask.core.memory import size
from unmask.experiments.evaluation.compare import Comparison, compare
from unmask.experiments.evaluation.published import figures
from unmask.experiments.evaluation.summary import Group, labels

PASSED = (1, 2, 4, 8, 16, 32, 64)  # k of pass@k, of as many samples as there are
Grid = tuple[str, list[str], list[list[str]]]


def summary(found: Sequence[Group]) -> list[dict[str, Any]]:
    """One dict a setting."""
    named = labels(found)
    return [_summary(label, group, found) for label, group in zip(named, found, strict=True)]


def _summary(label: str, group: Group, found: Sequence[Group]) -> dict[str, Any]:
    told: dict[str, Any] = {"label": label, "items": len(group.items), "samples": len(group.samples)}
    estimates = {"accuracy": group.accuracy, "perplexity": group.perplexity}
    estimates |= {name: group.value(name) for name in group.valued}
    estimates |= {f"pass@{k}": group.passed(k) for k in _passed(group)}
    told |= {name: estimate.to_dict() for name, estimate in estimates.items() if estimate is not None}
    against = beside(group, found)
    told |= {"cost": group.cost(), "wrong_because": group.reasons, "settings": group.settings}
    if against is not None:
        told["against_ar"] = against.to_dict() | ratios(group, found)
    if published := figures(group.settings):
        told["published"] = [{"figure": one.figure, "source": one.source} for one in published]
    return told


def table(found: Sequence[Group]) -> list[Grid]:
    """Quality, and what it costs; against AR where it was measured, and beside it what others have published."""
    named, first = labels(found), found[0]
    quality: list[list[str]] = []
    cost: list[list[str]] = []
    for label, group in zip(named, found, strict=True):
        spent = group.cost()
        if group.perplexity is not None:
            said = [_told(group.perplexity), _told(group.value("entropy"))]
        else:
            said = [_share(group.accuracy), *(_share(group.passed(k)) for k in _passed(first))]
            said += [_share(group.value(name)) for name in first.valued]
        against = beside(group, found)
        said.append("" if against is None else f"{against.verdict}, {against.difference.value:+.1%}")
        others = ", ".join(f"{one.figure:.1f}%" for one in figures(group.settings))
        quality.append([label, str(len(group.items)), *said, others])
        ratio = ratios(group, found).get("seconds")
        shown = [_number(spent[name]) for name in ("answer_tokens", "evaluations", "tokens_per_evaluation")]
        shown += [_number(spent["flops"] and spent["flops"] / 1e9), _number(spent["seconds"])]
        memory = spent["memory"]
        shown += ["" if ratio is None else f"{ratio:.2f}", "" if memory is None else size(int(memory))]
        cost.append([label, *shown])
    measured = ["perplexity", "entropy, nats"] if first.perplexity is not None else ["accuracy"]
    if first.perplexity is None:
        measured += [*(f"pass@{k}" for k in _passed(first)), *(name.replace("_", " ") for name in first.valued)]
    task = first.settings["task"]
    heads = (
        ["", "items", *measured, "against AR", "published"],
        [
            "",
            *("answer tokens", "evaluations", "tokens an evaluation", "GFLOP", "seconds", "times AR", "memory"),
        ],
    )
    grids = [_without_empty(*part) for part in zip(heads, (quality, cost), strict=True)]
    return [(f"{task}, {title}", *grid) for title, grid in zip(("quality", "cost of a sample"), grids, strict=True)]


def _without_empty(head: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    kept = [i for i in range(len(head)) if i == 0 or any(row[i] for row in rows)]
    return [head[i] for i in kept], [[row[i] for i in kept] for row in rows]


def beside(group: Group, found: Sequence[Group]) -> Comparison | None:
    """A masked model against the AR model that was measured with it."""
    reader = baseline(found)
    if reader is None or group.causal or group.accuracy is None or reader.accuracy is None:
        return None
    try:
        return compare(group.samples, reader.samples)
    except UnmaskError:  # no items in common
        return None


def baseline(found: Sequence[Group]) -> Group | None:
    """The AR model, where there is one beside masked ones."""
    readers = [group for group in found if group.causal]
    return readers[0] if len(readers) == 1 < len(found) else None


def ratios(group: Group, found: Sequence[Group]) -> dict[str, float]:
    """What a sample costs, in units of AR's."""
    reader = baseline(found)
    if reader is None or group.causal:
        return {}
    own, other = group.cost(), reader.cost()
    pairs = ((name, own[name], other[name]) for name in ("seconds", "flops", "evaluations"))
    return {name: mine / theirs for name, mine, theirs in pairs if mine is not None and theirs}


def _passed(group: Group) -> list[int]:
    least = min(map(len, group.items.values()))
    return [k for k in PASSED if 1 < k <= least] if least > 1 else []


def _share(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    return f"{estimate.value:.1%} [{estimate.low:.1%}, {estimate.high:.1%}]"


def _told(estimate: Estimate | None) -> str:
    return "" if estimate is None else str(estimate)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
