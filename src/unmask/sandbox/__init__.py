"""Programs that nobody has read, run in a jail: what they may use, what came of them, and how strong the jail is."""

from typing import TYPE_CHECKING

from unmask.core.lazy import lazily

if TYPE_CHECKING:
    from unmask.sandbox.box import Sandbox as Sandbox
    from unmask.sandbox.limits import Limits as Limits
    from unmask.sandbox.limits import Ran as Ran
    from unmask.sandbox.ways import Level as Level
    from unmask.sandbox.ways import levels as levels

__getattr__, __dir__ = lazily(__name__, __path__)
