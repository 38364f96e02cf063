"""The choice after a diagnosis: a plan of steps, its cost in operations and seconds, a forecast of its loss, judges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.core.lazy import lazily

if TYPE_CHECKING:
    from unmask.planning.clock import Timing as Timing
    from unmask.planning.flops import break_even as break_even
    from unmask.planning.flops import model_calls as model_calls
    from unmask.planning.plan import Plan as Plan
    from unmask.planning.plan import Verdict as Verdict

__getattr__, __dir__ = lazily(__name__, __path__)
