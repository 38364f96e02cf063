"""What `list` and `show` of a registry print: what it says of its names, those of installed packages included."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unmask.core.registry import Entry, Registry


def show_names(registry: Registry[Any], json: bool) -> None:
    """Each name with its first line; as JSON with its options and where its code is, too."""
    from unmask.cli.output import show, show_lines

    if json:
        show(summaries(registry), True)
    else:
        show_lines(sorted(registry.about().items()))


def summaries(registry: Registry[Any]) -> dict[str, dict[str, Any]]:
    return {name: _summary(registry.entry(name)) for name in sorted(registry.names())}


def show_entry(entry: Entry, more: Mapping[str, Any], json: bool) -> None:
    """A name as it is written, its documentation, and what else is known of it."""
    from unmask.cli.output import show
    from unmask.core.errors import UnmaskError

    if entry.maker is None:
        raise UnmaskError(f"{entry.name} is {entry.about}")
    if json:
        show({"name": entry.name, **_summary(entry), "documentation": entry.documentation} | dict(more), True)
        return
    print(f"{entry.specification}\n\n{entry.documentation}\n")
    show({**more, "code": entry.origin}, False)


def _summary(entry: Entry) -> dict[str, Any]:
    needed = [name for name, default in entry.options.items() if default is inspect.Parameter.empty]
    options = {name: _plain(default) for name, default in entry.options.items() if name not in needed}
    about = {"about": entry.about, "specification": entry.specification, "options": options, "needed": needed}
    return about | {"code": entry.origin}


def _plain(value: Any) -> Any:
    """What JSON can hold; of anything else how it is written."""
    return value if value is None or isinstance(value, str | int | float | bool) else repr(value)
