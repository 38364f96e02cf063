"""unmask doctor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unmask.cli.options import Answer, Switch


def command(*, verbose: Switch = False) -> Answer:
    """Check the installation: versions, devices, threads, caches, extras.

    Examples:
        unmask doctor
        unmask doctor --verbose

    The command installs, downloads and changes nothing. A part that fails shows its
    error. Add the output of --verbose to the report of a bug.

    Args:
        verbose: Print every version, directory and extra on its own line.
    """
    from unmask.cost.surroundings import surroundings

    parts = surroundings()
    return Answer(parts, None if verbose else [(name, _brief(name, part)) for name, part in parts.items()])


def _brief(name: str, part: Any) -> str:
    """Return a part in one line; for extras, only their names."""
    if not isinstance(part, Mapping):
        return str(part)
    if name == "extras":
        missing = [extra for extra, state in part.items() if state.startswith("not")]
        hint = f"; not installed: {', '.join(missing)} (pip install 'unmask[NAME]')" if missing else ""
        return f"installed: {', '.join(extra for extra in part if extra not in missing) or 'none'}{hint}"
    return "; ".join(f"{key} {value}" for key, value in part.items() if value is not None)
