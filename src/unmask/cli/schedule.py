"""unmask schedule list|show."""

from __future__ import annotations

from typing import Annotated

from unmask.cli.options import Switch

Name = Annotated[str, "SCHEDULE"]


def list_(*, json: Switch = False) -> None:
    """List the schedules: how much is revealed at each round.

    Examples:
        unmask schedule list
        unmask schedule list --json

    Other commands take a name, with options in brackets: "polynomial(power=3)".
    `unmask generate` takes the shares of the rounds too, as in "[0.2, 0.8]".

    Args:
        json: Print one JSON object, name to {about, specification, options, needed, code}.
    """
    from unmask.cli.catalogue import show_names
    from unmask.schedules import SCHEDULES

    show_names(SCHEDULES, json)


def show(schedule: Name, /, *, steps: int = 8, json: Switch = False) -> None:
    """Describe a schedule: its options and their defaults, and its shares.

    Examples:
        unmask schedule show cosine
        unmask schedule show "polynomial(power=3)" --steps 4 --json

    Args:
        schedule: A name of `unmask schedule list`, with options in brackets or without.
        steps: For so many rounds its shares are printed, where it is not fitted to a language.
        json: Print one JSON object instead of text.
    """
    from unmask.cli.catalogue import show_entry
    from unmask.core.registry import parse
    from unmask.schedules import SCHEDULES, deltas, is_fitted

    name = parse("schedule", schedule)[0]
    entry, fitted = SCHEDULES.entry(name), is_fitted(name)
    delta = None if fitted else deltas(schedule, steps).tolist()
    shown = delta if json or delta is None else "[" + ", ".join(f"{share:.4g}" for share in delta) + "]"
    show_entry(entry, {"fitted": fitted, "steps": steps, "delta": shown}, json)


command = {"list": list_, "show": show}
