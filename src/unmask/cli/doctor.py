"""unmask doctor."""

from __future__ import annotations

from unmask.cli.options import Switch


def command(*, json: Switch = False) -> None:
    """Say what is here: versions, devices, threads, caches, the sandbox, extras.

    Examples:
        unmask doctor
        unmask doctor --json

    Nothing is installed, fetched or changed. What cannot be said says why, and the
    rest is said all the same: this is what belongs into the report of a defect.

    Args:
        json: Print one JSON object instead of a table.
    """
    from unmask.cli.output import show
    from unmask.cost.surroundings import surroundings

    show(surroundings(), json)
