"""What is known without running anything: exact values, curves, bounds, schedules (theory.md); `dir` shows it all."""

from typing import TYPE_CHECKING

from unmask.core.lazy import door, modules_of

if TYPE_CHECKING:
    from unmask.theory.chains import first_order as first_order
    from unmask.theory.correctness import theorem_4_3 as theorem_4_3
    from unmask.theory.correctness import theorem_4_4 as theorem_4_4
    from unmask.theory.curves import ErrorCurve as ErrorCurve
    from unmask.theory.curves import InformationCurve as InformationCurve
    from unmask.theory.fluency import theorem_4_2 as theorem_4_2
    from unmask.theory.known import Values as Values
    from unmask.theory.statements import Statement as Statement

PLACES = {
    "ErrorCurve": "unmask.theory.curves",
    "InformationCurve": "unmask.theory.curves",
    "Statement": "unmask.theory.statements",
    "Values": "unmask.theory.known",
    "first_order": "unmask.theory.chains",
    "theorem_4_2": "unmask.theory.fluency",
    "theorem_4_3": "unmask.theory.correctness",
    "theorem_4_4": "unmask.theory.correctness",
}
__getattr__, __dir__ = door(__name__, PLACES, modules_of(__name__, __path__))
