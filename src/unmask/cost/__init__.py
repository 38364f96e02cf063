"""The cost of quality: arithmetic, time by the clock, and the planner that weighs them against autoregression."""

from typing import TYPE_CHECKING

from unmask.core.lazy import lazily

if TYPE_CHECKING:
    from unmask.cost.clock import Timing as Timing
    from unmask.cost.flops import break_even as break_even
    from unmask.cost.flops import model_calls as model_calls
    from unmask.cost.planner import Plan as Plan
    from unmask.cost.planner import Verdict as Verdict

__getattr__, __dir__ = lazily(__name__, __path__)
