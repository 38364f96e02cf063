"""Programs that nobody has read, run in a jail: what they may use, what came of them, and how strong the jail is."""

from typing import TYPE_CHECKING

from unmask.core.lazy import door, modules_of

if TYPE_CHECKING:
    from unmask.sandbox.box import Level as Level
    from unmask.sandbox.box import Sandbox as Sandbox
    from unmask.sandbox.box import levels as levels
    from unmask.sandbox.limits import Limits as Limits
    from unmask.sandbox.limits import Ran as Ran

PLACES = {
    "Level": "unmask.sandbox.box",
    "Limits": "unmask.sandbox.limits",
    "Ran": "unmask.sandbox.limits",
    "Sandbox": "unmask.sandbox.box",
    "levels": "unmask.sandbox.box",
}
__getattr__, __dir__ = door(__name__, PLACES, modules_of(__name__, __path__))
