"""What quality costs: arithmetic, time by the clock, and the planner that weighs them against autoregression."""

from pkgutil import iter_modules
from typing import TYPE_CHECKING

from unmask.lazy import door

if TYPE_CHECKING:
    from unmask.cost.clock import Timing as Timing
    from unmask.cost.flops import break_even as break_even
    from unmask.cost.flops import evaluations as evaluations
    from unmask.cost.plan import Plan as Plan
    from unmask.cost.plan import Verdict as Verdict

PLACES = {
    "Plan": "unmask.cost.plan",
    "Timing": "unmask.cost.clock",
    "Verdict": "unmask.cost.plan",
    "break_even": "unmask.cost.flops",
    "evaluations": "unmask.cost.flops",
}
__getattr__, __dir__ = door(__name__, PLACES, [module.name for module in iter_modules(__path__)])
