"""Exact values, curves, bounds and schedules that need no sampling (theory.md); `dir` lists them all."""

from typing import TYPE_CHECKING

from unmask.core.lazy import lazily

if TYPE_CHECKING:
    from unmask.theory.chains import first_order as first_order
    from unmask.theory.correctness import theorem_4_3 as theorem_4_3
    from unmask.theory.correctness import theorem_4_4 as theorem_4_4
    from unmask.theory.curves import ErrorCurve as ErrorCurve
    from unmask.theory.curves import InformationCurve as InformationCurve
    from unmask.theory.fluency import theorem_4_2 as theorem_4_2
    from unmask.theory.known import Values as Values
    from unmask.theory.statements import Statement as Statement

__getattr__, __dir__ = lazily(__name__, __path__)
