"""Run unreviewed programs in a jail: limits, results, and the strength of the jail."""

from typing import TYPE_CHECKING

from unmask.core.lazy import lazily

if TYPE_CHECKING:
    from unmask.sandbox.box import Level as Level
    from unmask.sandbox.box import Sandbox as Sandbox
    from unmask.sandbox.box import levels as levels
    from unmask.sandbox.limits import Limits as Limits
    from unmask.sandbox.limits import Ran as Ran

__getattr__, __dir__ = lazily(__name__, __path__)
