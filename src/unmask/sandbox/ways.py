"""The ways to confine a program that there are, and which of them work here."""

from __future__ import annotations

from dataclasses import dataclass

from unmask.core.errors import UnmaskError
from unmask.sandbox.box import LEVELS, Sandbox
from unmask.sandbox.strength import tested


@dataclass(frozen=True)
class Level:
    """A way to confine, its level (3 is the strongest), and why it does not work here, if it does not."""

    level: int
    means: str
    name: str
    works: bool
    why: str = ""


def levels() -> list[Level]:
    """Each way that there is, tried."""
    found = []
    for means, level in LEVELS.items():
        try:
            with tested(Sandbox(means)) as box:
                found.append(Level(level, means, box.name, True))
        except UnmaskError as error:
            found.append(Level(level, means, means, False, str(error)))
    return found
