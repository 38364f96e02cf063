"""Why: gap, audit, conformance, endpoints, learning error, likelihood, difference; the planner and the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.core.lazy import lazily

if TYPE_CHECKING:
    from unmask.diagnosis.clock import Timing as Timing
    from unmask.diagnosis.flops import break_even as break_even
    from unmask.diagnosis.flops import model_calls as model_calls
    from unmask.diagnosis.learning import Learning as Learning
    from unmask.diagnosis.loss_curve import LossCurve as LossCurve
    from unmask.diagnosis.planner import Plan as Plan
    from unmask.diagnosis.planner import Verdict as Verdict

__getattr__, __dir__ = lazily(__name__, __path__)
