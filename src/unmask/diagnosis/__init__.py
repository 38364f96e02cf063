"""Errors of denoisers and samplers: learning error, decomposition, loss curves, audit, conformance kit."""

from typing import TYPE_CHECKING

from unmask.core.lazy import lazily

if TYPE_CHECKING:
    from unmask.diagnosis.learning import Learning as Learning
    from unmask.diagnosis.loss_curve import LossCurve as LossCurve

PLACES = {"Learning": "unmask.diagnosis.learning", "LossCurve": "unmask.diagnosis.loss_curve"}
__getattr__, __dir__ = lazily(__name__, __path__)
