"""The modules that add names to a registry of a room below them: by its noun, declared by the front door.

`core.registry.Registry` imports them when a name is asked for that it does not have, or when all are listed, and not
before.
"""

from __future__ import annotations

ADDING: dict[str, tuple[str, ...]] = {}
