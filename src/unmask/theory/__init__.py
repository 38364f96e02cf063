"""What is known without running anything: exact values, curves, bounds, schedules (theory.md); `dir` shows it all."""

from pkgutil import iter_modules
from typing import TYPE_CHECKING

from unmask.lazy import door

if TYPE_CHECKING:
    from unmask.theory.chains import first_order as first_order
    from unmask.theory.correctness import theorem_4_3 as theorem_4_3
    from unmask.theory.correctness import theorem_4_4 as theorem_4_4
    from unmask.theory.curves import ErrorCurve as ErrorCurve
    from unmask.theory.curves import InformationCurve as InformationCurve
    from unmask.theory.exact import Values as Values
    from unmask.theory.fluency import theorem_4_2 as theorem_4_2
    from unmask.theory.learning import Learning as Learning
    from unmask.theory.loss_curve import LossCurve as LossCurve
    from unmask.theory.statements import Statement as Statement

PLACES = {
    "ErrorCurve": "unmask.theory.curves",
    "InformationCurve": "unmask.theory.curves",
    "Learning": "unmask.theory.learning",
    "LossCurve": "unmask.theory.loss_curve",
    "Statement": "unmask.theory.statements",
    "Values": "unmask.theory.exact",
    "first_order": "unmask.theory.chains",
    "theorem_4_2": "unmask.theory.fluency",
    "theorem_4_3": "unmask.theory.correctness",
    "theorem_4_4": "unmask.theory.correctness",
}
__getattr__, __dir__ = door(__name__, PLACES, [module.name for module in iter_modules(__path__)])
