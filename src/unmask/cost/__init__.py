"""What quality costs: arithmetic, time by the clock, and the planner that weighs them against autoregression."""

from typing import TYPE_CHECKING

from unmask.core.lazy import door, modules_of

if TYPE_CHECKING:
    from unmask.cost.clock import Timing as Timing
    from unmask.cost.flops import break_even as break_even
    from unmask.cost.flops import evaluations as evaluations
    from unmask.cost.planner import Plan as Plan
    from unmask.cost.planner import Verdict as Verdict

PLACES = {
    "Plan": "unmask.cost.planner",
    "Timing": "unmask.cost.clock",
    "Verdict": "unmask.cost.planner",
    "break_even": "unmask.cost.flops",
    "evaluations": "unmask.cost.flops",
}
__getattr__, __dir__ = door(__name__, PLACES, modules_of(__name__, __path__))
