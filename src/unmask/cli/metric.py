"""unmask metric list|show."""

from __future__ import annotations

from typing import Annotated

from unmask.cli.options import Switch

Name = Annotated[str, "METRIC"]


def list_(*, json: Switch = False) -> None:
    """List what a sweep can measure.

    Examples:
        unmask metric list
        unmask metric list --json

    A recipe takes a name, with fields in brackets: "ter_upper(rows=100)"; or
    package.module:function.

    Args:
        json: Print one JSON object, name to {about, specification, options, needed, code}.
    """
    from unmask.cli.catalogue import show_names
    from unmask.experiments.measures.catalogue import METRICS

    show_names(METRICS, json)


def show(metric: Name, /, *, json: Switch = False) -> None:
    """Describe a metric: the fields of its cells and their defaults, what it makes.

    Examples:
        unmask metric show samples
        unmask metric show my_module:my_metric --json

    Args:
        metric: A name of `unmask metric list`, or package.module:function.
        json: Print one JSON object instead of text.
    """
    from unmask.cli.catalogue import show_entry
    from unmask.experiments.measures.catalogue import METRICS, find

    found = find(metric)
    more = {"merges": found.merges, "shares": list(found.shares), "lasts": found.lasts, "open": found.open}
    if not json:
        more = {
            "rows": "measured in blocks, and merged" if found.merges else "measured at once",
            "one pass answers for all": ", ".join(found.shares) or None,
            "lasts when the code changes": found.lasts,
        }
    show_entry(METRICS.entry(metric), more, json)


command = {"list": list_, "show": show}
